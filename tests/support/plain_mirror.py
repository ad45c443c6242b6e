"""The product's own observe, plan, act and lane in this process, with no JVM: for what does not need Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from heliograph.controller.act import create
from heliograph.controller.clusters import Clusters
from heliograph.controller.plan import Plan, plan
from heliograph.copier.lane import Lane
from heliograph.copier.lane_clusters import LaneClusters
from heliograph.copier.lease import Lease
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.model.link import Link
from heliograph.model.partition import MirrorPartition
from heliograph.model.settings import Settings
from heliograph.model.states import PartitionState

LANE_MEMORY_BYTES = 64 << 20
LIMIT_S = 60.0
POLL_S = 0.02

Copies = Mapping[MirrorPartition, PartitionCopy]


def settings_for(source: str, target: str, topics: list[str], **link: Any) -> Settings:
    return Settings(
        clusters={"src": {"bootstrap.servers": source}, "dst": {"bootstrap.servers": target}},
        links=(Link(name="link", source="src", target="dst", topics=tuple(topics), **link),),
    )


def settled(copies: Copies) -> bool:
    """Every partition is caught up or stopped."""
    return all(c.state in (PartitionState.CAUGHT_UP, PartitionState.STOPPED) for c in copies.values())


def mirror_plainly(
    settings: Settings, until: Callable[[Copies], bool] = settled, timeout_s: float = LIMIT_S
) -> tuple[Plan, Copies]:
    """Plan, create topics, copy until the condition holds; the plan and how the partitions ended."""
    return asyncio.run(_mirror(settings, until, timeout_s))


async def _mirror(
    settings: Settings, until: Callable[[Copies], bool], timeout_s: float
) -> tuple[Plan, Copies]:
    failures: list[BaseException] = []
    clusters = Clusters(settings)
    lane = Lane(LANE_MEMORY_BYTES, failures.append)
    lane_clusters = LaneClusters(lane, Lease.unlimited)
    try:
        await clusters.connect()
        todo = plan(await clusters.observe())
        for creation in todo.creations:
            await create(clusters.target(creation.link), creation)
        for each in clusters.link_clusters():
            lane_clusters.open(each)
        lane_clusters.assign([copy.spec for copy in todo.copies])
        async with asyncio.timeout(timeout_s):
            while not failures and not until(lane.copies):  # noqa: ASYNC110 - the lane has no event for this
                await asyncio.sleep(POLL_S)
        assert not failures, failures
        await lane.drain()
        return todo, lane.copies
    finally:
        await lane.aclose()
        await lane_clusters.aclose()
        await clusters.aclose()
