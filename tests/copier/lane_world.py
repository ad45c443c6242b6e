"""Two clusters in memory and a lane between them, for tests that tell a story."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from heliograph.cluster.properties import ClientProperties
from heliograph.copier.lane import Lane
from heliograph.copier.lease import Lease
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.workers import LaneLink
from heliograph.model.partition import MirrorPartition, TopicPartition
from heliograph.wire.batch import payload_equal
from heliograph.wire.compare import first_difference
from heliograph.wire.kernels.loading import wait

from .memory_cluster import MemoryCluster
from .memory_log import MemoryLog
from .source_batches import NOW_MS, batch, spec_of

BOUND_S = 5.0
MEMORY_BYTES = 1 << 20
LINK, SECOND_LINK = "sf-to-nyc", "sf-to-lax"


class Clock:
    """Of a lease, turned by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class World:
    source: MemoryCluster
    target: MemoryCluster
    lane: Lane
    failures: list[BaseException]
    link: str = LINK
    max_merged_bytes: int = 0

    def second_link(self) -> World:
        """Of the same lane, between clusters of its own, under a lease that never ends."""
        source, target = MemoryCluster(), MemoryCluster()
        source.on_metadata = target.on_metadata = self.lane.reroute
        properties = self.lane._links[LINK].consumer
        self.lane.link(
            SECOND_LINK, LaneLink(source, target, properties, properties, Lease.unlimited(), flight_s=30.0)
        )
        return World(source, target, self.lane, self.failures, SECOND_LINK)

    def create(
        self,
        partition: int,
        batches: int = 0,
        *,
        source_node: int = 1,
        target_node: int = 1,
        timestamp: int = NOW_MS,
    ) -> None:
        """A partition on both clusters, with this many batches at the source; not yet assigned."""
        where = place(partition)
        log = self.source.create(where, source_node)
        self.target.create(where, target_node).forgets_by = NOW_MS
        write(log, batches, timestamp=timestamp)

    def assign(self, partition: int, *, clear_in_s: float = 0.0, **changed: Any) -> PartitionCopy:
        spec = spec_of(mirror(partition, self.link), max_merged_bytes=self.max_merged_bytes)
        spec = replace(spec, **changed)
        self.lane.assign(spec, clear_in_s=clear_in_s)
        return self.lane.copies[spec.partition]

    def is_copied(self, partition: int) -> bool:
        where = place(partition)
        return self.target.logs[where].end == self.source.logs[where].end

    def assert_identical(self, partition: int) -> None:
        where = place(partition)
        source, target = self.source.logs[where], self.target.logs[where]
        assert [s.header.base_offset for s in source.batches] == [
            t.header.base_offset for t in target.batches
        ]
        for theirs, ours in zip(source.batches, target.batches, strict=True):
            assert payload_equal(memoryview(theirs.data), memoryview(ours.data))

    def assert_same_records(self, partition: int) -> None:
        where = place(partition)
        source, target = self.source.logs[where], self.target.logs[where]
        assert source.end == target.end
        logs = ([bytes(each.data) for each in log.batches] for log in (source, target))
        theirs, ours = ([memoryview(data) for data in log] for log in logs)
        assert first_difference(wait(), theirs, ours, first_offset=0, next_offset=source.end) is None


def mirror(partition: int, link: str = LINK) -> MirrorPartition:
    return MirrorPartition(link, "orders", "orders", partition)


def place(partition: int) -> TopicPartition:
    return TopicPartition("orders", partition)


def refuse(target: MemoryCluster, code: int, nth: Callable[[int], bool]) -> None:
    """Of the appends from now on, counted from 0, this cluster refuses those that `nth` names."""
    numbers = itertools.count()
    target.fault = lambda _where: code if nth(next(numbers)) else None


def write(log: MemoryLog, batches: int, *, value_bytes: int = 8, timestamp: int = NOW_MS) -> None:
    for n in range(batches):
        log.store(batch(log.end, n % 3 + 1, value_bytes=value_bytes, timestamp=timestamp))


@asynccontextmanager
async def world(
    memory_bytes: int = MEMORY_BYTES,
    partition_bytes: int = 1 << 14,
    request_bytes: int = 1 << 16,
    lease: Lease | None = None,
    flight_ms: int = 30_000,
    fetch_wait_ms: int = 20,
    max_merged_bytes: int = 0,
) -> AsyncIterator[World]:
    """Without faults, under a lease that never ends; no worker of the lane may ever fail.

    `flight_ms`: how long an append without an answer counts as being on its way.
    """
    failures: list[BaseException] = []
    source, target = MemoryCluster(), MemoryCluster()
    lane = Lane(memory_bytes, failures.append)
    source.on_metadata = target.on_metadata = lane.reroute
    properties = ClientProperties(
        bootstrap_servers=(("memory", 1),),
        fetch_max_wait_ms=fetch_wait_ms,
        max_partition_fetch_bytes=partition_bytes,
        max_request_size=request_bytes,
    )
    lane_link = LaneLink(
        source, target, properties, properties, lease or Lease.unlimited(), flight_s=flight_ms / 1000
    )
    lane.link(LINK, lane_link)
    try:
        yield World(source, target, lane, failures, max_merged_bytes=max_merged_bytes)
    finally:
        await lane.aclose()
    if failures:
        raise failures[0]


async def until(condition: Callable[[], bool], bound_s: float = BOUND_S) -> None:
    async with asyncio.timeout(bound_s):
        while not condition():  # noqa: ASYNC110 - what is waited for sets no event
            await asyncio.sleep(0.005)
