"""Passwords and certificates that change while a mirror runs: it goes on, and nothing is lost or written twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from heliograph.cluster.security.tls_context import LOOK_INTERVAL_S
from heliograph.model.events import Event
from heliograph.model.settings import Settings
from tests.support.certificates import Authority, write_pem
from tests.support.client_access import Access
from tests.support.judge import assert_identical
from tests.support.plain_mirror import settings_for
from tests.support.plain_run import PlainRun, plain_run
from tests.support.rotation import renew_certificate, set_password, trust_clients_of
from tests.support.secured_clusters import REAUTH_MS, USER, SecuredCluster, SecuredPair
from tests.support.steady_producer import SteadyProducer
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROTATED = "rotated"  # a user of its own
OLD, NEW = "the first password", "the second password"
SIDES = {"source": "src", "target": "dst"}
SESSION_S = REAUTH_MS / 1000
SOME = 400  # records, at 200 a second


class Config:
    """What a run reads again and again, and an operator changes."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def read(self) -> Settings:
        return self.settings

    def change(self, cluster: str, access: Access) -> None:
        clusters = {**self.settings.clusters, cluster: access.client}
        self.settings = replace(self.settings, clusters=clusters)


@pytest.fixture
def topic(secured_pair: SecuredPair, unique_topic: Callable[[str], str]) -> str:
    name = unique_topic("rotated")
    create_topic(secured_pair.source.plain, name, 4)
    return name


async def goes_on(run: PlainRun, producer: SteadyProducer) -> None:
    written = producer.count
    await run.until(lambda run: run.copied > written + SOME)


@pytest.mark.parametrize("side", SIDES)
async def test_a_new_password_is_taken_from_the_config_and_the_old_one_is_tried_once_by_each_process(
    side: str, secured_pair: SecuredPair, topic: str
) -> None:
    """First it changes at the broker: sessions end, and nobody is let in. Then in the config."""
    source, target = secured_pair.source, secured_pair.target
    struck: SecuredCluster = getattr(secured_pair, side)
    set_password(struck.plain, ROTATED, OLD)
    config = Config(settings_for(source.access("REAUTH").client, target.access("REAUTH").client, [topic]))
    config.change(SIDES[side], struck.access("REAUTH", user=ROTATED, password=OLD))
    async with plain_run(config.settings, read_again=config.read) as run:
        told = run.mirror.outbox
        with SteadyProducer(source.plain, topic, rate_per_s=200) as producer:
            await goes_on(run, producer)
            before = struck.refusals()
            await asyncio.to_thread(set_password, struck.plain, ROTATED, NEW)
            await run.until(lambda _: Event.ACCESS_REFUSED in told.counts)
            await asyncio.sleep(
                1.2 * SESSION_S
            )  # every session has ended by then, and connections were asked for
            refused = struck.refusals()
            assert 1 <= refused - before <= 1 + len(run.mirror.lanes)
            config.change(SIDES[side], struck.access("REAUTH", user=ROTATED, password=NEW))
            await run.until(lambda _: Event.SECRET_CHANGED in told.counts)
            await goes_on(run, producer)
            await asyncio.sleep(1.2 * SESSION_S)  # and are renewed with the new one
            await goes_on(run, producer)
            assert struck.refusals() == refused
        await run.caught_up()
        assert Event.SECRET_REFUSED not in told.counts
        words = [f"{each.message} {each.hint}" for each in told.last]
        assert not [each for each in words if OLD in each or NEW in each]
        (refusal, *_) = [each for each in told.last if each.code == Event.ACCESS_REFUSED]
        assert SIDES[side] in refusal.message
        assert "not tried again until the secret changes" in refusal.message
        assert "sasl.jaas.config" in str(refusal.hint)
    assert_identical(source.plain, target.plain, [topic])


@pytest.fixture
def both(secured_pair: SecuredPair) -> Iterator[tuple[SecuredCluster, SecuredCluster]]:
    """Made good again: others use them, too."""
    clusters = (secured_pair.source, secured_pair.target)
    yield clusters
    for cluster in clusters:
        own = cluster.credentials
        trust_clients_of(cluster, "MUTUAL", own.authority)
        renew_certificate(cluster, "MUTUAL", own.authority.issue(["localhost"]))
        write_pem(own.client_file, issued=own.client)


def replace_authority(cluster: SecuredCluster) -> None:
    """By another one, as operators do it: both are trusted while certificates are renewed on both ends, then the new
    one alone. Its file is the truststore of brokers and clients."""
    own, successor = cluster.credentials, Authority.make("successor")
    trust_clients_of(cluster, "MUTUAL", own.authority, successor)
    renew_certificate(cluster, "MUTUAL", successor.issue(["localhost"]))
    write_pem(own.client_file, issued=successor.issue([USER], client=True))
    trust_clients_of(cluster, "MUTUAL", successor, no_more=own.authority)


async def test_certificates_of_a_new_authority_on_both_ends_are_taken_from_their_files(
    both: tuple[SecuredCluster, SecuredCluster], topic: str
) -> None:
    """Whoever still shows, or trusts, what it did before cannot connect any more."""
    source, target = both
    settings = settings_for(source.access("MUTUAL").client, target.access("MUTUAL").client, [topic])
    async with plain_run(settings) as run:
        with SteadyProducer(source.plain, topic, rate_per_s=200) as producer:
            await goes_on(run, producer)
            for cluster in both:
                await asyncio.to_thread(replace_authority, cluster)
            await goes_on(run, producer)
            await asyncio.sleep(LOOK_INTERVAL_S)
            before = set(run.connections)
            run.sever()
            await goes_on(run, producer)
            assert run.connections
            assert not before & set(run.connections)
        await run.caught_up()
        assert Event.ACCESS_REFUSED not in run.mirror.outbox.counts
    assert_identical(source.plain, target.plain, [topic])
