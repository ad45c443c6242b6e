"""With the election out of the way: copiers that race on the same partitions leave one whole copy (P1, P2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from heliograph.controller.act import create
from heliograph.controller.clusters import Clusters
from heliograph.controller.plan import plan
from heliograph.copier.lane import Lane
from heliograph.copier.lane_clusters import LaneClusters
from heliograph.copier.lease import Lease
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.lab.cluster import LabCluster
from heliograph.model.settings import Settings
from heliograph.model.states import PartitionState
from heliograph.wire.kernels.loading import wait
from tests.support.fault_scene import fill
from tests.support.judge import assert_identical
from tests.support.plain_mirror import settings_for
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

RACES = 3
COPIERS = 4
RECORDS = 40_000
LIMIT_S = 90.0


@pytest.mark.parametrize("merging", [0, 2])
def test_four_racing_copiers_of_one_partition_leave_one_copy(
    source_cluster: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str], merging: int
) -> None:
    """`merging` of them make one append of small batches that wait, each as it finds them."""
    wait()
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    slowly = {"fetch.max.bytes": "4000", "max.partition.fetch.bytes": "4000"}
    # What comes while an append is on its way waits, so that there is something to merge.
    one_by_one = {"max.in.flight.requests.per.connection": "1"} if merging else {}
    for _ in range(RACES):
        topic = unique_topic("raced")
        create_topic(source, topic, 1)
        fill(source, topic, RECORDS, partitions=1)
        settings = settings_for(source, target, [topic], consumer=slowly, producer=one_by_one)
        copies = asyncio.run(_race(settings, merging))
        appended = [copy.records for copy in copies]
        assert len(appended) == COPIERS
        assert (
            sum(appended) >= RECORDS
        )  # one that comes second with the very same batch is told of the first's
        assert_identical(source, target, [topic], records=RECORDS)
        # Who merges may leave nothing for the others; on a busy machine it may come too late for anything.
        if any(copy.merges > 0 for copy in copies) if merging else all(appended):
            return
    raise AssertionError(f"nobody met anybody in {RACES} races")


async def _race(settings: Settings, merging: int) -> list[PartitionCopy]:
    """The copiers, when all of them have caught up; the first `merging` of them merge."""
    failures: list[BaseException] = []
    clusters = Clusters(settings)
    racers = []
    try:
        await clusters.connect()
        todo = plan(await clusters.observe())
        for creation in todo.creations:
            await create(clusters.target(creation.link), creation)
        for _ in range(COPIERS):
            lane = Lane(64 << 20, failures.append)
            racers.append((lane, LaneClusters(lane, Lease.unlimited)))
        for number, (_, lane_clusters) in enumerate(racers):
            for each in clusters.link_clusters():
                lane_clusters.open(each)
            specs = [copy.spec for copy in todo.copies]
            lane_clusters.assign(
                specs if number < merging else [replace(spec, max_merged_bytes=0) for spec in specs]
            )
        copies = [copy for lane, _ in racers for copy in lane.copies.values()]
        async with asyncio.timeout(LIMIT_S):
            while not failures and any(  # noqa: ASYNC110 - a lane has no event for this
                copy.state is not PartitionState.CAUGHT_UP for copy in copies
            ):
                await asyncio.sleep(0.02)
        assert not failures, failures
        return copies
    finally:
        for lane, lane_clusters in racers:
            await lane.aclose()
            await lane_clusters.aclose()
        await clusters.aclose()
