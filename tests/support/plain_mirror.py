"""The product's own observe, plan, act and lane in this process, with no JVM: for what does not need Spark."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from heliograph.controller.act import create
from heliograph.controller.clusters import Clusters
from heliograph.controller.plan import Plan, plan
from heliograph.copier.lane import Lane
from heliograph.copier.lane_clusters import LaneClusters
from heliograph.copier.lease import Lease
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.spec import CopySpec
from heliograph.model.events import Trouble
from heliograph.model.link import Link
from heliograph.model.partition import MirrorPartition
from heliograph.model.settings import Settings
from heliograph.model.states import PartitionState

from .client_access import client_properties

LANE_MEMORY_BYTES = 64 << 20
LIMIT_S = 60.0
POLL_S = 0.02

Copies = Mapping[MirrorPartition, PartitionCopy]


def settings_for(
    source: str | Mapping[str, str], target: str | Mapping[str, str], topics: list[str], **link: Any
) -> Settings:
    return Settings(
        clusters={"src": client_properties(source), "dst": client_properties(target)},
        links=(Link(name="link", source="src", target="dst", topics=tuple(topics), **link),),
    )


def settled(copies: Copies) -> bool:
    """Every partition is caught up or stopped."""
    return all(c.state in (PartitionState.CAUGHT_UP, PartitionState.STOPPED) for c in copies.values())


def planned_specs(todo: Plan) -> list[CopySpec]:
    return [copy.spec for copy in todo.copies]


def mirror_plainly(
    settings: Settings,
    until: Callable[[Copies], bool] = settled,
    timeout_s: float = LIMIT_S,
    *,
    specs: Callable[[Plan], list[CopySpec]] = planned_specs,
    heard: list[Trouble] | None = None,
) -> tuple[Plan, Copies]:
    """Plan, create topics, copy until the condition holds; the plan and how the partitions ended. `specs`: what is
    copied, and how, if that is not as planned. `heard`: takes what copies tell, as a driver does."""
    return asyncio.run(_mirror(settings, until, timeout_s, specs, heard))


async def _mirror(
    settings: Settings,
    until: Callable[[Copies], bool],
    timeout_s: float,
    specs: Callable[[Plan], list[CopySpec]],
    heard: list[Trouble] | None,
) -> tuple[Plan, Copies]:
    async with planned_lane(settings) as (todo, lane, links):
        links.assign(specs(todo))
        async with asyncio.timeout(timeout_s):
            while not until(lane.copies):
                if heard is not None:
                    heard += [each for copy in lane.copies.values() for each in copy.take_notices()]
                grant_attempts(lane)
                await asyncio.sleep(POLL_S)
        await lane.drain()
        return todo, lane.copies


def grant_attempts(lane: Lane) -> None:
    """As a driver does that is the only one: whatever was not used yet."""
    for key, above in lane.take_attempt_wants():
        lane.grant_attempt(key, above + 1)


@asynccontextmanager
async def planned_lane(settings: Settings) -> AsyncIterator[tuple[Plan, Lane, LaneClusters]]:
    """A plan with its topics created, and a lane that knows its clusters; nothing is assigned yet. A worker of the lane
    that fails ends it all."""
    us = asyncio.current_task()
    assert us is not None
    failures: list[BaseException] = []

    def fail(problem: BaseException) -> None:
        failures.append(problem)
        us.cancel()

    clusters = Clusters(settings)
    lane = Lane(LANE_MEMORY_BYTES, fail)
    links = LaneClusters(lane, Lease.unlimited)
    try:
        await clusters.connect()
        todo = plan(await clusters.observe())
        for creation in todo.creations:
            await create(clusters.target(creation.link), creation)
        for each in clusters.link_clusters():
            links.open(each)
        yield todo, lane, links
    finally:
        await lane.aclose()
        await links.aclose()
        await clusters.aclose()
        assert not failures, failures
