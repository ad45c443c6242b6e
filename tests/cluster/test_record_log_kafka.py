"""The topics of Heliograph's own on a real broker: made once, written in order, read from anywhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from heliograph.cluster.admin import describe_topic_configs
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.own_topics import CONFIGS, OwnTopics
from heliograph.cluster.properties import parse_properties
from heliograph.cluster.record_log import Pair, RecordLog
from heliograph.lab.cluster import LabCluster
from heliograph.model.errors import RequestFailed
from heliograph.model.ledger import COMMANDS_TOPIC, EVENTS_TOPIC

pytestmark = pytest.mark.kafka


@asynccontextmanager
async def client_of(cluster: LabCluster) -> AsyncIterator[ClusterClient]:
    client = ClusterClient("nyc", parse_properties({"bootstrap.servers": cluster.bootstrap_servers}))
    await client.connect()
    try:
        yield client
    finally:
        await client.aclose()


async def read_all(log: RecordLog, from_offset: int) -> list[tuple[bytes | None, bytes | None]]:
    found, end = [], await log.end()
    while from_offset < end:
        records, from_offset = await log.read(from_offset)
        found += [(record.key, record.value) for record in records]
    return found


async def test_what_is_appended_is_read_in_order(target_cluster: LabCluster) -> None:
    async with client_of(target_cluster) as client, client_of(target_cluster) as other:
        log = await OwnTopics(client).open(EVENTS_TOPIC)
        before = await log.end()
        rows = [(f"key {n}".encode(), None if n % 7 == 0 else b"x" * 900) for n in range(2000)]

        await log.append(rows)
        await log.append([(b"last", b"word")])

        again = await OwnTopics(other).find(EVENTS_TOPIC)  # made already
        assert again is not None
        assert await read_all(again, before) == [*rows, (b"last", b"word")]


async def test_a_read_waits_for_what_comes_next(target_cluster: LabCluster) -> None:
    async with client_of(target_cluster) as client:
        log = await OwnTopics(client).open(EVENTS_TOPIC)
        end = await log.end()
        assert await log.read(end, wait_ms=50) == ([], end)

        await log.append([(None, b"an event")])

        records, next_offset = await log.read(end, wait_ms=5000)
        assert [(record.key, record.value) for record in records] == [(None, b"an event")]
        assert next_offset == end + 1


async def test_an_append_without_an_answer_is_there_once(
    target_cluster: LabCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client_of(target_cluster) as client:
        log = await OwnTopics(client).open(EVENTS_TOPIC)
        before, real, lost = await log.end(), log._try, [True]

        async def answer_lost(records: list[Pair]) -> None:
            await real(records)
            if lost:
                lost.pop()
                raise RequestFailed("the answer is lost")

        monkeypatch.setattr(log, "_try", answer_lost)
        await log.append([(b"a", b"1")])
        await log.append([(b"a", b"2")])

        assert await read_all(log, before) == [(b"a", b"1"), (b"a", b"2")]


async def test_a_topic_that_is_not_there_is_not_made_by_looking_for_it(
    target_cluster: LabCluster,
) -> None:
    async with client_of(target_cluster) as client:
        assert await OwnTopics(client).find("__heliograph_nothing") is None


async def test_compacted_topics_are_made_so_that_they_are_cleaned(target_cluster: LabCluster) -> None:
    async with client_of(target_cluster) as client:
        await OwnTopics(client).open(COMMANDS_TOPIC)
        own = (await describe_topic_configs(client, [COMMANDS_TOPIC]))[COMMANDS_TOPIC].own
        assert own == CONFIGS[COMMANDS_TOPIC]
        assert int(own["segment.ms"]) <= 3_600_000
        assert 1 << 20 <= int(own["segment.bytes"]) <= 16 << 20
