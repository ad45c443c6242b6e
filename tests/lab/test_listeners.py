from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from heliograph.lab.cluster import Description, LabCluster, read_description
from heliograph.lab.listeners import (
    KerberosService,
    Listener,
    Sasl,
    Tls,
    authorizer_properties,
    java_options,
    listener_settings,
    scram_arguments,
)
from heliograph.lab.settings import broker_settings, choose_nodes
from heliograph.model.errors import LabError
from tests.support.client_access import Access, access, login, protocol
from tests.support.judge import assert_identical
from tests.support.kafka_by_hand import begin_sasl, send_token
from tests.support.records import mixed_records
from tests.support.refusals import refusal
from tests.support.secured_clusters import ODD_USER, REAUTH_MS, USER, SecuredCluster, SecuredPair
from tests.support.topics import create_topic
from tests.support.workload import Undelivered, produce_records

TLS = Tls(keystore=Path("/keys/broker.pem"))
RECORDS = tuple(mixed_records(1, 20))
USERS = {"alice": "of alice"}
KERBEROS = KerberosService(
    principal="kafka/localhost@SF.TEST", keytab=Path("/keys/kafka.keytab"), krb5_conf=Path("/keys/krb5.conf")
)


@pytest.mark.parametrize(
    ("listener", "protocol"),
    [
        (Listener(name="A"), "PLAINTEXT"),
        (Listener(name="A", tls=TLS), "SSL"),
        (Listener(name="A", sasl=Sasl(mechanisms=("PLAIN",))), "SASL_PLAINTEXT"),
        (Listener(name="A", tls=TLS, sasl=Sasl(mechanisms=("PLAIN",))), "SASL_SSL"),
    ],
)
def test_what_a_listener_has_is_its_protocol(listener: Listener, protocol: str) -> None:
    assert listener.protocol == protocol


def test_a_listener_beside_the_plain_one_has_its_own_port_host_and_protocol() -> None:
    listener = Listener(name="SCRAM", tls=TLS, sasl=Sasl(mechanisms=("SCRAM-SHA-512",), users=USERS))
    (node,) = nodes = choose_nodes(1, ["SCRAM"])
    settings = broker_settings(
        node, nodes=nodes, data_directory=Path("/data"), properties={}, listeners=[listener]
    )
    port = node.listener_ports["SCRAM"]
    controller = f"CONTROLLER://127.0.0.1:{node.controller_port}"
    assert settings["listeners"] == f"PLAINTEXT://127.0.0.1:{node.port},SCRAM://127.0.0.1:{port},{controller}"
    assert settings["advertised.listeners"] == f"PLAINTEXT://127.0.0.1:{node.port},SCRAM://localhost:{port}"
    protocols = "PLAINTEXT:PLAINTEXT,SCRAM:SASL_SSL,CONTROLLER:PLAINTEXT"
    assert settings["listener.security.protocol.map"] == protocols
    assert settings["listener.name.scram.ssl.keystore.location"] == "/keys/broker.pem"


def test_settings_of_a_listener_are_under_its_name() -> None:
    listener = Listener(name="ALL", tls=TLS, properties={"ssl.enabled.protocols": "TLSv1.2"})
    assert listener_settings(listener) == {
        "listener.name.all.ssl.keystore.type": "PEM",
        "listener.name.all.ssl.keystore.location": "/keys/broker.pem",
        "listener.name.all.ssl.enabled.protocols": "TLSv1.2",
    }


def test_authorities_of_clients_make_their_certificates_required() -> None:
    settings = listener_settings(Listener(name="m", tls=replace(TLS, client_trust=Path("/keys/ca.pem"))))
    assert settings["listener.name.m.ssl.truststore.location"] == "/keys/ca.pem"
    assert settings["listener.name.m.ssl.client.auth"] == "required"


def test_users_of_plain_are_quoted_as_jaas_wants_it() -> None:
    sasl = Sasl(mechanisms=("PLAIN",), users={"a=b": 'c"d\\e;'}, reauth_ms=10_000)
    settings = listener_settings(Listener(name="p", sasl=sasl))
    assert settings["listener.name.p.plain.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        r' "user_a=b"="c\"d\\e;";'
    )
    assert settings["listener.name.p.plain.connections.max.reauth.ms"] == "10000"


def test_kerberos_adds_gssapi_and_its_krb5_conf() -> None:
    listener = Listener(name="k", sasl=Sasl(mechanisms=("PLAIN",), users=USERS, kerberos=KERBEROS))
    settings = listener_settings(listener)
    assert settings["listener.name.k.sasl.enabled.mechanisms"] == "PLAIN,GSSAPI"
    assert settings["listener.name.k.sasl.kerberos.service.name"] == "kafka"
    assert '"keyTab"="/keys/kafka.keytab"' in settings["listener.name.k.gssapi.sasl.jaas.config"]
    assert java_options([listener]) == ("-Djava.security.krb5.conf=/keys/krb5.conf",)


def test_two_krb5_confs_for_one_broker_are_refused() -> None:
    others = [KERBEROS, replace(KERBEROS, krb5_conf=Path("/other.conf"))]
    with pytest.raises(LabError, match=r"one krb5\.conf, not /keys/krb5\.conf, /other\.conf"):
        java_options([Listener(name=f"k{at}", sasl=Sasl(kerberos=each)) for at, each in enumerate(others)])


def test_no_password_is_an_argument_of_a_process_or_in_a_repr() -> None:
    sasl = Sasl(mechanisms=("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"), users={"alice": "of-alice"})
    arguments = scram_arguments([Listener(name="a", sasl=sasl), Listener(name="b", sasl=sasl)])
    assert [each.partition(",")[0] for each in arguments] == [
        '--add-scram=SCRAM-SHA-256=[name="alice"',
        '--add-scram=SCRAM-SHA-512=[name="alice"',
    ]
    assert "of-alice" not in repr((arguments, sasl))


def test_a_cluster_that_is_found_again_knows_its_listeners(tmp_path: Path) -> None:
    listener = Listener(name="K", host="sf.test", sasl=Sasl(kerberos=KERBEROS))
    described = Description(
        name="sf",
        kafka="4.3.1",
        heap_mb=512,
        nodes=choose_nodes(2, ["K"]),
        listener_hosts={"K": listener.host},
        java_options=java_options([listener]),
    )
    described.write(tmp_path)
    assert read_description(tmp_path) == described


def test_a_cluster_with_zookeeper_has_no_secured_listeners(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"not of 2\.8\.2"):
        LabCluster.made(
            name="old", kafka="2.8.2", directory=tmp_path, listeners=[Listener(name="A", tls=TLS)]
        )


WAYS = [
    ("SCRAM", "SCRAM-SHA-512"),
    ("SCRAM", "SCRAM-SHA-256"),
    ("PLAIN", "PLAIN"),
    ("REAUTH", "SCRAM-SHA-512"),
    ("CLEAR", "SCRAM-SHA-256"),
    ("CLEAR", "PLAIN"),
    ("MUTUAL", None),
    ("ONE_WAY", None),
]


@pytest.mark.kafka
class TestTheSecuredPair:
    """Judged by librdkafka."""

    def test_who_has_what_it_takes_writes_and_reads_by_every_listener(
        self, secured_pair: SecuredPair, unique_topic: Callable[[str], str]
    ) -> None:
        def write_and_read(listener: str, mechanism: str | None, topic: str) -> None:
            source = secured_pair.source.access(listener, mechanism=mechanism)
            target = secured_pair.target.access(listener, mechanism=mechanism)
            for cluster, by in ((secured_pair.source, source), (secured_pair.target, target)):
                create_topic(cluster.plain, topic)
                _write(by, topic)
            assert_identical(
                source.bootstrap_servers,
                target.bootstrap_servers,
                [topic],
                records=len(RECORDS),
                source_settings=source.librdkafka,
                target_settings=target.librdkafka,
            )

        with ThreadPoolExecutor(len(WAYS)) as pool:  # one after the other they take three times as long
            each = [pool.submit(write_and_read, *way, unique_topic(way[0])) for way in WAYS]
        for done in each:
            done.result()

    @pytest.mark.parametrize("listener", ["SCRAM", "PLAIN"])
    def test_a_user_with_a_name_and_a_password_that_need_quotes_comes_in(
        self, secured_pair: SecuredPair, unique_topic: Callable[[str], str], listener: str
    ) -> None:
        topic = unique_topic("odd")
        create_topic(secured_pair.source.plain, topic)
        _write(secured_pair.source.access(listener, user=ODD_USER), topic)

    @pytest.mark.parametrize("listener", ["SCRAM", "PLAIN", "CLEAR"])
    def test_a_wrong_password_is_refused(self, secured_pair: SecuredPair, listener: str) -> None:
        found = refusal(secured_pair.source.access(listener, password="wrong"))
        assert found.code() == KafkaError._AUTHENTICATION, found

    def test_the_password_of_the_other_cluster_is_refused(self, secured_pair: SecuredPair) -> None:
        others = secured_pair.target.credentials.users[USER]
        found = refusal(secured_pair.source.access("SCRAM", password=others))
        assert found.code() == KafkaError._AUTHENTICATION, found

    def test_a_client_without_a_certificate_is_refused(self, secured_pair: SecuredPair) -> None:
        found = refusal(secured_pair.target.access("MUTUAL", certificate=False))
        assert "alert bad certificate" in found.str(), found

    def test_a_client_of_another_authority_is_refused(self, secured_pair: SecuredPair) -> None:
        strangers = secured_pair.source.access("MUTUAL").librdkafka
        ours = secured_pair.target.access("MUTUAL")
        mixed = {**strangers, "ssl.ca.pem": ours.librdkafka["ssl.ca.pem"]}
        found = refusal(replace(ours, librdkafka=mixed))
        assert "alert bad certificate" in found.str(), found

    def test_a_client_refuses_what_its_authority_has_not_signed(self, secured_pair: SecuredPair) -> None:
        strangers = secured_pair.source.access("ONE_WAY").librdkafka
        found = refusal(replace(secured_pair.target.access("ONE_WAY"), librdkafka=strangers))
        assert "verify failed" in found.str(), found

    def test_a_client_refuses_an_expired_certificate(self, secured_pair: SecuredPair) -> None:
        found = refusal(secured_pair.target.access("EXPIRED"))
        assert "verify failed" in found.str(), found
        assert _verdict(secured_pair.target, "EXPIRED", "localhost") == "certificate has expired"

    def test_a_client_that_comes_by_another_name_refuses_the_certificate(
        self, secured_pair: SecuredPair
    ) -> None:
        right = secured_pair.target.access("ONE_WAY")
        found = refusal(
            replace(right, bootstrap_servers=right.bootstrap_servers.replace("localhost", "127.0.0.1"))
        )
        assert "verify failed" in found.str(), found
        assert "mismatch" in _verdict(secured_pair.target, "ONE_WAY", "127.0.0.1")

    @pytest.mark.parametrize(("listener", "lasts_ms"), [("REAUTH", REAUTH_MS), ("PLAIN", 0)])
    def test_a_session_lasts_as_long_as_the_listener_says(
        self, secured_pair: SecuredPair, listener: str, lasts_ms: int
    ) -> None:
        token = f"\0{USER}\0{secured_pair.source.credentials.users[USER]}"
        with _sealed(secured_pair.source, listener) as sealed:
            begin_sasl(sealed, "PLAIN")
            assert send_token(sealed, token.encode()).session_lifetime_ms == lasts_ms

    def test_another_process_finds_the_listeners_by_the_clusters_directory(
        self, secured_pair: SecuredPair
    ) -> None:
        cluster = secured_pair.source.cluster
        again = LabCluster.attach(cluster.directory)
        assert again.servers("SCRAM") == cluster.servers("SCRAM")


@pytest.mark.kafka
@pytest.mark.slow
def test_several_brokers_that_check_rights_let_a_super_user_write_and_nobody_else(
    unique_topic: Callable[[str], str],
) -> None:
    users = {"admin": "of-admin", "nobody": "of-nobody"}
    listener = Listener(name="LOGIN", host="127.0.0.1", sasl=Sasl(mechanisms=("SCRAM-SHA-256",), users=users))
    properties = authorizer_properties(["User:admin"])
    with LabCluster.start(name="rights", brokers=2, listeners=[listener], properties=properties) as cluster:
        assert cluster.servers("LOGIN").count("127.0.0.1:") == 2
        topic = unique_topic("guarded")
        create_topic(cluster.bootstrap_servers, topic, 2, 2)

        def write(user: str, partition: int) -> None:
            parts = [protocol(listener.protocol), login("SCRAM-SHA-256", user, users[user])]
            _write(access(cluster.servers("LOGIN"), parts), topic, partition)

        write("admin", partition=0)
        write("admin", partition=1)  # another broker leads it
        with pytest.raises(Undelivered, match="authorization failed"):
            write("nobody", partition=0)


def _sealed(cluster: SecuredCluster, listener: str, host: str = "localhost") -> ssl.SSLSocket:
    """A connection by OpenSSL, without Kafka."""
    context = ssl.create_default_context(cafile=str(cluster.credentials.trust_file))
    port = int(cluster.cluster.servers(listener).rpartition(":")[2])
    return context.wrap_socket(socket.create_connection((host, port), timeout=10), server_hostname=host)


def _verdict(cluster: SecuredCluster, listener: str, host: str) -> str:
    """What OpenSSL has against the broker's certificate."""
    with pytest.raises(ssl.SSLCertVerificationError) as refused:
        _sealed(cluster, listener, host)
    return refused.value.verify_message


def _write(by: Access, topic: str, partition: int = 0) -> None:
    produce_records(by.bootstrap_servers, topic, RECORDS, partition=partition, settings=by.librdkafka)
