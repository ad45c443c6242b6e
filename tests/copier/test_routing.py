"""A lane looks at its clusters' metadata now and then, at each for itself: one that hangs keeps no other from it (P7).

A topic that is recreated while nothing is copied makes no noise: only who looks finds out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from heliograph.copier import lane as lane_module
from heliograph.model.errors import Disconnected
from heliograph.model.states import StopReason

from .lane_world import World, mirror, until, world
from .memory_cluster import MemoryCluster


@pytest.fixture(autouse=True)
def _short_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_module, "LOOK_INTERVAL_S", 0.05)
    monkeypatch.setattr(lane_module, "ROUTE_INTERVAL_S", 0.02)


class Hang:
    """A refresh that takes until it is told to end, and then fails."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.asked = 0
        self.over = asyncio.Event()
        self._sound: Callable[[], Awaitable[None]] = cluster.refresh
        cluster.refresh = self.refresh  # type: ignore[method-assign]

    async def refresh(self) -> None:
        self.asked += 1
        if self.over.is_set():
            await self._sound()
            return
        await self.over.wait()
        raise Disconnected("no broker can be reached")


async def copied(it: World) -> None:
    it.create(0, 3)
    for cluster in (it.source, it.target):
        cluster.topic_ids["orders"] = str(UUID(int=1))
    it.assign(0)
    await until(lambda: it.is_copied(0))


async def recreated_is_found(it: World, cluster: MemoryCluster) -> None:
    def look() -> None:
        cluster.topic_ids["orders"] = str(UUID(int=2))
        it.lane.reroute()

    cluster.on_metadata = look  # nobody knows before it is asked
    copy = it.lane.copies[mirror(0, it.link)]
    await until(lambda: copy.stopped is not None)
    assert copy.stopped is not None
    assert copy.stopped.reason == StopReason.RECREATED


@pytest.mark.parametrize(("hangs", "looked_at"), [("source", "target"), ("target", "source")])
async def test_a_cluster_that_hangs_does_not_keep_the_links_other_one_from_being_looked_at(
    hangs: str, looked_at: str
) -> None:
    async with world() as it:
        await copied(it)
        hang = Hang(getattr(it, hangs))
        await until(lambda: hang.asked > 0)
        other: MemoryCluster = getattr(it, looked_at)
        before = other.refreshes
        await until(lambda: other.refreshes > before + 2)  # not once only
        await recreated_is_found(it, other)


@pytest.mark.parametrize("hangs", ["source", "target"])
async def test_a_cluster_that_hangs_does_not_keep_another_links_from_being_looked_at(hangs: str) -> None:
    async with world() as it:
        await copied(it)
        other = it.second_link()
        await copied(other)
        hang = Hang(getattr(it, hangs))
        await until(lambda: hang.asked > 0)
        await recreated_is_found(other, other.target)
        assert it.lane.copies[mirror(0)].stopped is None


async def test_a_cluster_that_hangs_is_asked_once_and_again_when_it_has_failed() -> None:
    async with world() as it:
        await copied(it)
        hang = Hang(it.target)
        await until(lambda: hang.asked > 0)
        await asyncio.sleep(0.3)
        assert hang.asked == 1
        hang.over.set()
        await recreated_is_found(it, it.target)
        assert hang.asked > 1
