"""The product's own lane without Spark, as a contender: what the engine around it costs shows against this.

`python -m bench.plain_lane` is the process: one Lane under uvloop, until the target holds `records`. The target
topic is made by the harness, as the controller does it in the product.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench.clusters import ClusterPair
from bench.contender import CopyJob
from heliograph.copier.lane import Lane
from heliograph.copier.lane_clusters import LaneClusters, LinkClusters
from heliograph.copier.lease import Lease
from heliograph.copier.spec import CopySpec
from heliograph.model.partition import MirrorPartition
from heliograph.model.producer_id import producer_id
from heliograph.wire.kernels import loading

MODULE = "bench.plain_lane"
LINK = "bench"
LANE_MEMORY_BYTES = 64 * 1024 * 1024
MAX_BATCH_BYTES = 1_048_588  # max.message.bytes of the lab's topics: the broker's default
LOOK_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainLane:
    name: str = "plain lane"
    code: str = "plain"
    lane_mark: str | None = MODULE
    ends_itself: bool = True
    tails: bool = False

    def prepare(self, job: CopyJob, pair: ClusterPair, directory: Path) -> Sequence[str]:
        del directory  # everything fits on the command line
        pair.target.create(*job.target_topics, partitions=job.partitions)
        return [
            *(sys.executable, "-m", MODULE),
            *("--source", pair.source.bootstrap_servers, f"--source-id={pair.source.cluster_id}"),
            *("--target", pair.target.bootstrap_servers, f"--target-id={pair.target.cluster_id}"),
            *("--topic", job.topics[0], "--target-topic", job.target_topics[0]),
            *("--partitions", str(job.partitions), "--records", str(job.records)),
        ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}")
    for name in ("source", "source-id", "target", "target-id", "topic", "target-topic"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--records", type=int, required=True)
    return parser.parse_args()


def _specs(given: argparse.Namespace) -> list[CopySpec]:
    return [
        CopySpec(
            partition=MirrorPartition(LINK, given.topic, given.target_topic, partition),
            source="source",
            target="target",
            target_cluster_id=given.target_id,
            producer_id=producer_id(given.source_id, given.topic),
            max_batch_bytes=MAX_BATCH_BYTES,
            max_merged_bytes=MAX_BATCH_BYTES,
        )
        for partition in range(given.partitions)
    ]


async def _copy(given: argparse.Namespace) -> None:
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
        source_properties={"bootstrap.servers": given.source},
        target_properties={"bootstrap.servers": given.target},
    )
    clusters.open(link)
    clusters.assign(_specs(given))
    while sum(copy.next_offset or 0 for copy in lane.copies.values()) < given.records:
        stopped = [copy.stopped for copy in lane.copies.values() if copy.stopped]
        if stopped:
            raise stopped[0]
        if failure.done():
            await failure
        await asyncio.sleep(LOOK_S)
    await lane.drain()
    await lane.aclose()
    await clusters.aclose()


if __name__ == "__main__":
    uvloop.run(_copy(_arguments()))
