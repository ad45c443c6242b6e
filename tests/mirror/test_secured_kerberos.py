"""A mirror between two Kerberos realms: identical, while tickets end, sessions are renewed and keys are changed."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from heliograph.controller.clusters import Clusters
from heliograph.interface.cli.pack import pack
from heliograph.lab.cluster import LabCluster
from heliograph.lab.listeners import KERBEROS_LOGIN, Tls, login_line
from heliograph.lab.together import started_together
from heliograph.model.errors import HeliographError
from heliograph.model.link import Link
from heliograph.model.settings import Settings
from tests.support.certificates import Authority, write_pem
from tests.support.judge import assert_identical
from tests.support.kdc import why_no_kdc
from tests.support.kerberos_listener import LISTENER, kerberos_listener
from tests.support.kerberos_realm import Realm, Realms
from tests.support.mirror_process import MirrorProcess, write_config
from tests.support.plain_run import plain_run
from tests.support.spark_standalone import SparkStandalone
from tests.support.steady_producer import SteadyProducer
from tests.support.topics import create_topic
from tests.support.workload import produce_mixed

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_no_kdc()), reason=why_no_kdc()),
]

HOST = "localhost"
TICKET_LIFE_S = 8
SESSION_MS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """`trust`: who signs the brokers' certificates; empty where there is no TLS."""

    realm: Realm
    cluster: LabCluster
    trust: str

    def properties(self, **changed: str) -> dict[str, str]:
        keytab, principal = self.realm.settings.keytab, self.realm.settings.principal
        login = {"useKeyTab": "true", "keyTab": keytab, "principal": principal}
        tls = {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.trust} if self.trust else {}
        return {
            "bootstrap.servers": self.cluster.servers(LISTENER),
            "security.protocol": "SASL_SSL" if self.trust else "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": login_line(KERBEROS_LOGIN, login),
            **tls,
            **changed,
        }


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Site]]:
    """The source in plain text, the target with TLS."""
    directory = tmp_path_factory.mktemp("realms")
    authority = Authority.make("target")
    keystore = write_pem(directory / "broker.pem", issued=authority.issue([HOST]))
    trust = write_pem(directory / "trust.pem", trusted=[authority])
    with Realms(directory) as realms:
        source, target = (realms.add(each, host=HOST, ticket_life_s=TICKET_LIFE_S) for each in "ab")
        listeners = {
            "source": [kerberos_listener(source, reauth_ms=SESSION_MS)],
            "target": [kerberos_listener(target, reauth_ms=SESSION_MS, tls=Tls(keystore=keystore))],
        }
        with started_together("source", "target", listeners=listeners) as (one, other):
            yield (
                Site(realm=source, cluster=one, trust=""),
                Site(realm=target, cluster=other, trust=str(trust)),
            )


def settings_of(source: dict[str, str], target: dict[str, str], topic: str) -> Settings:
    link = Link(name="link", source="src", target="dst", topics=(topic,))
    return Settings(clusters={"src": source, "dst": target}, links=(link,))


async def test_two_realms_are_mirrored_while_tickets_end_and_a_brokers_key_is_changed(
    sites: tuple[Site, Site], unique_topic: Callable[[str], str]
) -> None:
    source, target = sites
    topic = unique_topic("realms")
    create_topic(source.cluster.bootstrap_servers, topic, 2)
    logins = source.realm.logins, target.realm.logins
    async with plain_run(settings_of(source.properties(), target.properties(), topic)) as run:
        with SteadyProducer(source.cluster.bootstrap_servers, topic, rate_per_s=200) as producer:
            await run.until(lambda run: sum(row.records for row in run.rows) > 200)
            await asyncio.sleep(2 * TICKET_LIFE_S)
            target.realm.kdc.rotate(target.realm.service)
            target.realm.kdc.write_keytab("broker.keytab", target.realm.service)
            source.realm.kdc.rotate("mirror")
            source.realm.kdc.write_keytab("mirror.keytab", "mirror")
            await asyncio.sleep(2 * TICKET_LIFE_S)
            written = producer.count
            await run.until(lambda run: sum(row.records for row in run.rows) > written)
        await run.caught_up()
    assert_identical(source.cluster.bootstrap_servers, target.cluster.bootstrap_servers, [topic])
    assert source.realm.logins - logins[0] >= 6
    assert target.realm.logins - logins[1] >= 6


@pytest.mark.spark
def test_lanes_on_spark_workers_authenticate_to_both_realms(
    sites: tuple[Site, Site], unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Workers know nothing of our environment: that executors have krb5.conf is said in the config."""
    source, target = sites
    topic = unique_topic("workers")
    create_topic(source.cluster.bootstrap_servers, topic, 4)
    count = produce_mixed(source.cluster.bootstrap_servers, topic, count=3000, seed=5)
    archive = tmp_path / "heliograph-env.tar.gz"
    pack(archive)
    conf = {
        "spark.executor.memory": "512m",
        "spark.archives": f"{archive}#environment",
        "spark.executorEnv.KRB5_CONFIG": os.environ["KRB5_CONFIG"],
    }
    with SparkStandalone(tmp_path, workers=2) as spark:
        config = write_config(
            tmp_path,
            source=source.properties(),
            target=target.properties(),
            topics=[topic],
            master=spark.url,
            conf=conf,
            lanes=2,
        )
        with MirrorProcess(config, runtime=tmp_path) as mirror:
            mirror.wait_until(lambda: mirror.copied() >= count, "everything copied")
            time.sleep(TICKET_LIFE_S)
            produce_mixed(source.cluster.bootstrap_servers, topic, count=1000, seed=6)
            mirror.wait_until(lambda: mirror.copied() >= count + 1000, "everything copied")
            mirror.terminate()
            assert mirror.wait()[0] == 0, mirror.log
            assert "access_refused" not in mirror.log
    assert_identical(source.cluster.bootstrap_servers, target.cluster.bootstrap_servers, [topic])


async def refusal(source: dict[str, str], target: dict[str, str]) -> HeliographError:
    clusters = Clusters(settings_of(source, target, "any"))
    try:
        with pytest.raises(HeliographError) as raised:
            await clusters.connect()
    finally:
        await clusters.aclose()
    return raised.value


async def test_whoever_is_not_let_in_is_told_with_cluster_and_remedy(sites: tuple[Site, Site]) -> None:
    """One message each, and the exit code: 2 where something here is wrong, 3 where a KDC or a broker says no."""
    source, target = sites
    good = target.properties()

    def login(keytab: str, principal: str) -> dict[str, str]:
        options = {"useKeyTab": "true", "keyTab": keytab, "principal": principal}
        return {"sasl.jaas.config": login_line(KERBEROS_LOGIN, options)}

    error = await refusal(source.properties(**login("/nowhere/mirror.keytab", "mirror@A.TEST")), good)
    assert error.exit_code == 2
    assert "clusters.src: keytab of mirror@A.TEST: cannot read /nowhere/mirror.keytab" in error.message

    error = await refusal(source.properties(**{"sasl.kerberos.service.name": "kafak"}), good)
    assert error.exit_code == 3
    assert "cluster 'src'" in error.message
    assert "the service kafak/localhost of broker localhost" in error.message
    assert "advertised.listeners" in error.hint

    old = source.realm.kdc.write_keytab("old.keytab", "mirror")
    source.realm.kdc.rotate("mirror")
    source.realm.kdc.write_keytab("mirror.keytab", "mirror")
    error = await refusal(source.properties(**login(str(old), "mirror@A.TEST")), good)
    assert error.exit_code == 3
    assert "cluster 'src': the KDC of realm A.TEST does not accept the key of mirror@A.TEST" in error.message
    assert "ktadd" in error.hint

    source.realm.kdc.stop()
    source.realm.keytab.write_bytes(old.read_bytes())  # no tickets are shared with the runs before
    error = await refusal(source.properties(), good)
    source.realm.kdc.start()
    source.realm.kdc.write_keytab("mirror.keytab", "mirror")
    assert error.exit_code == 3
    assert "no KDC of realm A.TEST answers" in error.message
