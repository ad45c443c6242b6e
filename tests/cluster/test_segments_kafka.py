"""What decides on a real broker whether a marker begins a segment, and how a client can tell that it did."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from heliograph.cluster.batch_target import BatchTarget
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.line_name import LineName
from heliograph.cluster.list_offsets import DatedRecord
from heliograph.cluster.markers import Marker
from heliograph.cluster.properties import parse_properties
from heliograph.controller.topic_config import LONG_MAX
from heliograph.lab.cluster import LabCluster
from heliograph.model.marker_label import marker_label
from heliograph.model.partition import TopicPartition as Where
from heliograph.wire.filler import filler_batch
from heliograph.wire.produce import ProduceEntry
from tests.support.topics import create_topic

pytestmark = pytest.mark.kafka

OURS = 0x48 << 56 | 7
SEGMENT_MS = 1000
FILLERS = 100


@asynccontextmanager
async def target_with(cluster: LabCluster, topic: str) -> AsyncIterator[BatchTarget]:
    servers = cluster.bootstrap_servers
    configs = {"segment.ms": str(SEGMENT_MS), "message.timestamp.after.max.ms": LONG_MAX}
    await asyncio.to_thread(create_topic, servers, topic, configs=configs)
    client = ClusterClient("target", parse_properties({"bootstrap.servers": servers}))
    client.follow([topic])
    await client.connect()
    try:
        yield BatchTarget(client, "link")
    finally:
        await client.aclose()


async def append(target: BatchTarget, where: Where, offset: int, time_ms: int) -> None:
    leader = target.leader(where)
    assert leader is not None
    line = await target.line_to(leader.node, LineName(0))
    batch = filler_batch(
        FILLERS, producer_id=OURS, producer_epoch=0, base_sequence=offset, timestamp_ms=time_ms
    )
    entry = ProduceEntry(where.topic, where.partition, memoryview(batch))
    (answered,) = line.decode(await line.send([entry], lambda: True)).partitions
    assert (answered.error, answered.base_offset) == (0, offset)


async def mark(target: BatchTarget, where: Where, offset: int) -> None:
    leader = target.leader(where)
    assert leader is not None
    marker = Marker(where, marker_label(OURS, offset, 0, repair=False))
    assert set((await target.write_markers(leader.node, [marker], lambda: True)).values()) == {0}


@pytest.mark.parametrize(
    ("first_ms", "second_ms", "marker_begins"),
    [
        (-600_000, -600_000, True),
        (-600_000, -300_000, True),  # the second batch begins a segment, too
        (-600_000, 3_600_000, False),  # and here the marker is older than what its segment begins with
        (3_600_000, -600_000, False),
        (-500, -600_000, False),  # by less than segment.ms
    ],
)
async def test_a_marker_begins_a_segment_if_the_first_batch_of_the_last_one_is_older_by_segment_ms(
    target_cluster: LabCluster,
    unique_topic: Callable[[str], str],
    first_ms: int,
    second_ms: int,
    marker_begins: bool,
) -> None:
    where = Where(unique_topic("segments"), 0)
    async with target_with(target_cluster, where.topic) as target:
        now_ms = int(time.time() * 1000)
        await append(target, where, 0, now_ms + first_ms)
        await append(target, where, FILLERS, now_ms + second_ms)
        await mark(target, where, 2 * FILLERS)
        last, end = 2 * FILLERS - 1, 2 * FILLERS + 1
        assert await target.segment_end(where, last) == (end - 1 if marker_begins else end)
        rolls_before = second_ms - first_ms > SEGMENT_MS
        assert await target.segment_end(where, 0) == (
            FILLERS if rolls_before else await target.segment_end(where, last)
        )


async def test_the_first_record_since_a_time_is_found_also_one_of_the_future(
    target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    where = Where(unique_topic("dated"), 0)
    async with target_with(target_cluster, where.topic) as target:
        now_ms = int(time.time() * 1000)
        await append(target, where, 0, now_ms - 600_000)
        assert await target.first_since(where, now_ms) is None
        await append(target, where, FILLERS, now_ms + 10**12)
        assert await target.first_since(where, now_ms) == DatedRecord(FILLERS, now_ms + 10**12)
