"""Clusters that are secured, each in its own way: the copy is identical, and whoever is not let in is told why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from heliograph.controller.clusters import Clusters
from heliograph.model.errors import HeliographError
from tests.support.certificates import Authority, write_pem
from tests.support.client_access import Access
from tests.support.judge import assert_identical
from tests.support.plain_mirror import settings_for
from tests.support.plain_run import plain_run
from tests.support.records import mixed_records
from tests.support.secured_clusters import ODD_USER, REAUTH_MS, SecuredPair
from tests.support.steady_producer import SteadyProducer
from tests.support.topics import create_topic
from tests.support.workload import produce_records

pytestmark = pytest.mark.kafka

# What CI sees of the ways to come in, with the mechanism and the user; the rest is behind --slow.
PAIRS = [
    (("SCRAM", "SCRAM-SHA-512", ODD_USER), ("MUTUAL", None, None)),
    (("PLAIN", "PLAIN", ODD_USER), ("ONE_WAY", None, None)),
]
MORE_PAIRS = [
    (("CLEAR", "SCRAM-SHA-256", ODD_USER), ("SCRAM", "SCRAM-SHA-256", None)),
    (("MUTUAL", None, None), ("CLEAR", "PLAIN", ODD_USER)),
    (("ONE_WAY", None, None), ("PLAIN", "PLAIN", None)),
    (("SCRAM", "SCRAM-SHA-256", None), ("SCRAM", "SCRAM-SHA-512", None)),
]
Way = tuple[str, str | None, str | None]


def properties(access: Access, **changed: str) -> dict[str, str]:
    return {**access.client, **changed}


def both(pair: SecuredPair, source: Way, target: Way) -> tuple[Access, Access]:
    def one(side: str, way: Way) -> Access:
        listener, mechanism, user = way
        named = {"user": user} if user is not None else {}
        return getattr(pair, side).access(listener, mechanism=mechanism, **named)  # type: ignore[no-any-return]

    return one("source", source), one("target", target)


async def mirrored_identically(source: Access, target: Access, plain: str, topic: str) -> None:
    create_topic(plain, topic, 2)
    for partition, codec in enumerate(("lz4", "none")):
        produce_records(
            source.bootstrap_servers,
            topic,
            mixed_records(partition, 2_000),
            partition=partition,
            codec=codec,
            settings=source.librdkafka,
        )
    async with plain_run(settings_for(source.client, target.client, [topic])) as run:
        await run.caught_up()
        assert "access_refused" not in run.codes
    assert_identical(
        source.bootstrap_servers,
        target.bootstrap_servers,
        [topic],
        source_settings=source.librdkafka,
        target_settings=target.librdkafka,
    )


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda way: str(way[0]))
async def test_differently_secured_clusters_are_mirrored_identically(
    source: Way, target: Way, secured_pair: SecuredPair, unique_topic: Callable[[str], str]
) -> None:
    ways = both(secured_pair, source, target)
    await mirrored_identically(*ways, secured_pair.source.plain, unique_topic("secured"))


@pytest.mark.slow
@pytest.mark.parametrize(("source", "target"), MORE_PAIRS, ids=lambda way: f"{way[0]} {way[1]}")
async def test_other_pairs_are_mirrored_identically(
    source: Way, target: Way, secured_pair: SecuredPair, unique_topic: Callable[[str], str]
) -> None:
    ways = both(secured_pair, source, target)
    await mirrored_identically(*ways, secured_pair.source.plain, unique_topic("secured"))


async def test_sessions_are_renewed_on_every_connection_while_records_flow(
    secured_pair: SecuredPair, unique_topic: Callable[[str], str]
) -> None:
    """Brokers end a connection whose session of 10 s is over: none is opened again, so each was renewed."""
    topic = unique_topic("renewed")
    create_topic(secured_pair.source.plain, topic, 4)
    source = secured_pair.source.access("REAUTH", mechanism="SCRAM-SHA-512")
    target = secured_pair.target.access("REAUTH", mechanism="PLAIN")
    async with plain_run(settings_for(source.client, target.client, [topic])) as run:
        with SteadyProducer(secured_pair.source.plain, topic, rate_per_s=400) as producer:
            await run.until(lambda run: sum(row.records for row in run.rows) > 400)
            before = set(run.connections)
            written = producer.count
            await asyncio.sleep(1.2 * REAUTH_MS / 1000)
            await run.until(lambda run: sum(row.records for row in run.rows) > written + 2_000)
        await run.caught_up()
        assert before <= set(run.connections)
        assert not {"broker_away", "access_refused", "raced"} & set(run.codes)
    assert_identical(secured_pair.source.plain, secured_pair.target.plain, [topic])


async def refusal(source: Mapping[str, str], target: Mapping[str, str]) -> HeliographError:
    """What a run that begins with these is told."""
    clusters = Clusters(settings_for(source, target, ["any"]))
    try:
        with pytest.raises(HeliographError) as raised:
            await clusters.connect()
    finally:
        await clusters.aclose()
    return raised.value


async def test_whoever_is_not_let_in_is_told_why_with_cluster_broker_file_and_remedy(
    secured_pair: SecuredPair, tmp_path: Path
) -> None:
    """One message each, and the exit code: 2 where a file or the config is wrong, 3 where the cluster refuses."""
    source, target = secured_pair.source, secured_pair.target
    plain = {"bootstrap.servers": target.plain}
    scram, one_way = source.access("SCRAM"), source.access("ONE_WAY")
    stranger = str(write_pem(tmp_path / "stranger.pem", trusted=[Authority.make("a stranger")]))
    missing = str(tmp_path / "missing.pem")
    trust = str(source.credentials.trust_file)
    elsewhere = one_way.bootstrap_servers.replace("localhost", "127.0.0.1")
    by = "ssl.truststore.location"
    cases: list[tuple[str, dict[str, str], int, tuple[str, ...], str]] = [
        (
            "wrong password",
            properties(source.access("SCRAM", password="mistaken")),
            3,
            (scram.bootstrap_servers, "SCRAM-SHA-512", "'mirror'"),
            "sasl.jaas.config",
        ),
        (
            "mechanism that is not offered",
            properties(scram, **{"sasl.mechanism": "PLAIN"})
            | {"sasl.jaas.config": source.access("PLAIN").properties["sasl.jaas.config"]},
            3,
            (scram.bootstrap_servers, "PLAIN", "SCRAM-SHA-512"),
            "sasl.mechanism",
        ),
        (
            "unknown authority",
            properties(one_way, **{by: stranger}),
            3,
            (one_way.bootstrap_servers, stranger),
            by,
        ),
        (
            "expired certificate",
            properties(source.access("EXPIRED")),
            3,
            (source.access("EXPIRED").bootstrap_servers, "expired"),
            "clock",
        ),
        (
            "other host",
            properties(one_way, **{"bootstrap.servers": elsewhere}),
            3,
            (elsewhere, "not for '127.0.0.1'"),
            "advertised.listeners",
        ),
        (
            "TLS to a port without",
            properties(one_way, **{"bootstrap.servers": source.plain}),
            3,
            (source.plain, "without TLS"),
            "security.protocol",
        ),
        (
            "plain text to a port with TLS",
            {"bootstrap.servers": one_way.bootstrap_servers},
            3,
            (one_way.bootstrap_servers, "TLS"),
            "security.protocol",
        ),
        (
            "no client certificate",
            properties(source.access("MUTUAL", certificate=False)),
            3,
            (source.access("MUTUAL").bootstrap_servers,),
            "ssl.keystore.location",
        ),
        (
            "SASL to a listener without",
            properties(scram, **{"bootstrap.servers": one_way.bootstrap_servers}),
            3,
            (one_way.bootstrap_servers, "without SASL"),
            "security.protocol",
        ),
        (
            "truststore that is not there",
            properties(one_way, **{by: missing}),
            2,
            ("clusters.src", missing),
            "",
        ),
    ]
    assert trust not in (stranger, missing)
    for name, given, exit_code, words, remedy in cases:
        problem = await refusal(given, plain)
        assert problem.exit_code == exit_code, (name, problem)
        assert all(word in problem.message for word in (*words, "src")), (name, problem.message)
        assert remedy in problem.hint, (name, problem.hint)
        for secret in (*source.credentials.users.values(), "mistaken"):
            assert secret not in problem.message + problem.hint, name
