"""Fillers on a real broker: accepted whole, read by another client, and gone with the log's start."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition

from heliograph.cluster.batch_target import BatchTarget
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.line_name import LineName
from heliograph.cluster.properties import parse_properties
from heliograph.lab.cluster import LabCluster
from heliograph.model.partition import TopicPartition as Where
from heliograph.wire.filler import MOST_RECORDS, filler_batch, is_filler
from heliograph.wire.produce import ProduceEntry
from tests.support.topics import create_topic

pytestmark = pytest.mark.kafka

OURS = 0x48 << 56 | 7
LAST = 12_345


async def test_a_broker_takes_whole_fillers_and_forgets_them_up_to_the_goal(
    target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    bootstrap, topic = target_cluster.bootstrap_servers, unique_topic("filled")
    await asyncio.to_thread(create_topic, bootstrap, topic)
    client = ClusterClient("target", parse_properties({"bootstrap.servers": bootstrap}))
    client.follow([topic])
    await client.connect()
    try:
        target, where = BatchTarget(client, "link"), Where(topic, 0)
        for nth, count in enumerate((MOST_RECORDS, MOST_RECORDS, LAST)):
            await append(target, where, nth * MOST_RECORDS, count)
        goal = 2 * MOST_RECORDS + LAST
        assert (await target.span(where)).end == goal
        found = await target.batches_in(where, 0, goal)
        assert [header.records_count for header in found.headers] == [MOST_RECORDS, MOST_RECORDS, LAST]
        assert all(map(is_filler, found.headers, found.views))
        seen = await asyncio.to_thread(read_from, bootstrap, topic, goal - LAST, LAST)
        assert seen == [(goal - LAST + nth, None, None) for nth in range(LAST)]
        await target.delete_records(where, goal)
        span = await target.span(where)
        assert (span.start, span.end) == (goal, goal)
    finally:
        await client.aclose()


async def append(target: BatchTarget, where: Where, offset: int, count: int) -> None:
    leader = target.leader(where)
    assert leader is not None
    line = await target.line_to(leader.node, LineName(0))
    batch = filler_batch(
        count,
        producer_id=OURS,
        producer_epoch=0,
        base_sequence=offset,
        timestamp_ms=int(time.time() * 1000),
    )
    entry = ProduceEntry(where.topic, where.partition, memoryview(batch))
    (answered,) = line.decode(await line.send([entry], lambda: True)).partitions
    assert (answered.error, answered.base_offset) == (0, offset)


def read_from(bootstrap: str, topic: str, offset: int, count: int) -> list[tuple[int, object, object]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        seen: list[tuple[int, object, object]] = []
        deadline = time.monotonic() + 30
        while len(seen) < count and time.monotonic() < deadline:
            seen += [(each.offset(), each.key(), each.value()) for each in consumer.consume(10_000, 1.0)]
        return seen
    finally:
        consumer.close()
