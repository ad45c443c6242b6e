"""The product's own lane in this process, without Spark, and without a driver but for what it grants.

Owns what a driver would do for a lane: which partitions it copies, and the attempts to fill gaps with.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench.clusters import ClusterPair
from heliograph.copier.lane import Lane
from heliograph.copier.lane_clusters import LaneClusters, LinkClusters
from heliograph.copier.lease import Lease
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.spec import CopySpec
from heliograph.model.partition import MirrorPartition
from heliograph.model.producer_id import producer_id
from heliograph.wire.kernels import loading

LINK = "bench"
LANE_MEMORY_BYTES = 64 * 1024 * 1024
MAX_BATCH_BYTES = 1_048_588  # max.message.bytes of the lab's topics: the broker's default
LOOK_S = 0.02

Copies = Sequence[PartitionCopy]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneJob:
    """One topic, into one that exists. Client properties and cluster ids of both sides."""

    source: Mapping[str, str]
    source_id: str
    target: Mapping[str, str]
    target_id: str
    topic: str
    target_topic: str
    partitions: int

    def specs(self) -> list[CopySpec]:
        return [
            CopySpec(
                partition=MirrorPartition(LINK, self.topic, self.target_topic, partition),
                source="source",
                target="target",
                target_cluster_id=self.target_id,
                producer_id=producer_id(self.source_id, self.topic),
                max_batch_bytes=MAX_BATCH_BYTES,
                max_merged_bytes=MAX_BATCH_BYTES,
            )
            for partition in range(self.partitions)
        ]


def job_of(pair: ClusterPair, topic: str, *, partitions: int) -> LaneJob:
    """Into a topic of the same name, which is made."""
    pair.target.create(topic, partitions=partitions)
    return LaneJob(
        source=pair.source.mirror_properties,
        source_id=pair.source.cluster_id,
        target=pair.target.mirror_properties,
        target_id=pair.target.cluster_id,
        topic=topic,
        target_topic=topic,
        partitions=partitions,
    )


class BenchLane:
    """A lane that copies its job already."""

    def __init__(self, lane: Lane, failure: asyncio.Future[None]) -> None:
        self._lane = lane
        self._failure = failure

    @property
    def copies(self) -> Copies:
        return list(self._lane.copies.values())

    @property
    def next_offsets(self) -> int:
        """The sum of what is durable of all partitions, as source offsets."""
        return sum(copy.next_offset or 0 for copy in self.copies)

    async def until(self, done: Callable[[], bool], look_s: float = LOOK_S) -> None:
        """Lets it copy until then. A partition that stops, and a lane that fails, is an error."""
        while not done():
            for key, above in self._lane.take_attempt_wants():
                self._lane.grant_attempt(key, above + 1)  # as the only driver there is
            stopped = [copy.stopped for copy in self.copies if copy.stopped]
            if stopped:
                raise stopped[0]
            if self._failure.done():
                await self._failure
            await asyncio.sleep(look_s)


@asynccontextmanager
async def running_lane(job: LaneJob) -> AsyncIterator[BenchLane]:
    failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def fail(error: BaseException) -> None:
        if not failure.done():
            failure.set_exception(error)

    loading.wait()  # as the product's lanes are forked with them
    lane = Lane(LANE_MEMORY_BYTES, fail)
    clusters = LaneClusters(lane, Lease.unlimited)
    link = LinkClusters(
        link=LINK,
        source="source",
        target="target",
        source_properties=job.source,
        target_properties=job.target,
    )
    try:
        clusters.open(link)
        clusters.assign(job.specs())
        yield BenchLane(lane, failure)
        await lane.drain()
    finally:
        await lane.aclose()
        await clusters.aclose()
