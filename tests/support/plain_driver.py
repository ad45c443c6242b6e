"""The product's plan and lanes in this process, with no JVM, and what a driver does to lanes: leases, hand-overs, ends.

Owns the rules of a hand-over as the product's controller has them: who takes a partition over is told how long
something that the last holder sent may still arrive. Must not know why a lane ends.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from heliograph.controller.act import create
from heliograph.controller.clusters import Clusters
from heliograph.controller.plan import Plan, plan
from heliograph.copier.lane import Lane
from heliograph.copier.lane_clusters import LaneClusters, LinkClusters
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.spec import CopySpec
from heliograph.model.clock import clock_of_suspended_time
from heliograph.model.settings import Settings
from heliograph.model.states import PartitionState

LANE_MEMORY_BYTES = 64 << 20
LEASE_S = 1.0
BEAT_S = 0.2
POLL_S = 0.02
LIMIT_S = 90.0

Failures = list[BaseException]


class PlainLane:
    """`silence` leaves it as a driver leaves it that was cut off: alive, with a lease that runs out."""

    def __init__(self, links: Iterable[LinkClusters], failures: Failures, memory_bytes: int) -> None:
        self.lane = Lane(memory_bytes, failures.append)
        self._clusters = LaneClusters(self.lane)
        self._links = list(links)
        for link in self._links:
            self._clusters.open(link)
        self._beat = asyncio.create_task(self._renew())
        self._watch = asyncio.create_task(self._lapse())

    @property
    def copies(self) -> list[PartitionCopy]:
        return list(self.lane.copies.values())

    @property
    def specs(self) -> list[CopySpec]:
        return [copy.spec for copy in self.copies]

    def assign(self, specs: Iterable[CopySpec], clear_in_s: float = 0.0) -> None:
        self._clusters.assign(specs, clear_in_s=clear_in_s)

    def silence(self) -> None:
        self._beat.cancel()

    async def drop(self) -> None:
        """As if killed: nothing is drained, its sockets are closed."""
        tasks = (self._beat, self._watch)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.lane.aclose()
        await self._clusters.aclose()

    async def _renew(self) -> None:
        while True:
            for link in self._links:
                self.lane.renew(link.link, clock_of_suspended_time(), LEASE_S)
            await asyncio.sleep(BEAT_S)

    async def _lapse(self) -> None:
        while True:
            self.lane.lapse()
            await asyncio.sleep(BEAT_S / 4)


class PlainDriver:
    """Enter it: the plan is made, its topics are there. Lanes are made by `lane` and given what `specs` holds."""

    def __init__(self, settings: Settings) -> None:
        self._link = settings.links[0].name
        self._clusters = Clusters(settings)
        self._failures: Failures = []
        self.plan = Plan(creations=(), copies=(), refusals=(), warnings=())
        self.lanes: list[PlainLane] = []
        self._zombies: list[PlainLane] = []

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(self._clusters.aclose)
            await self._clusters.connect()
            self.plan = plan(await self._clusters.observe())
            for creation in self.plan.creations:
                await create(self._clusters.target(creation.link), creation)
            undo.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for lane in (*self.lanes, *self._zombies):
            await lane.drop()
        await self._clusters.aclose()

    @property
    def specs(self) -> list[CopySpec]:
        return [copy.spec for copy in self.plan.copies]

    @property
    def copies(self) -> list[PartitionCopy]:
        return [copy for lane in self.lanes for copy in lane.copies]

    @property
    def copied(self) -> int:
        """Records that are durable, by the word of those that copy now."""
        return sum(copy.next_offset or 0 for copy in self.copies)

    @property
    def flight_s(self) -> float:
        return self._clusters.flight_s(self._link)

    def lane(self, memory_bytes: int = LANE_MEMORY_BYTES) -> PlainLane:
        lane = PlainLane(self._clusters.link_clusters(), self._failures, memory_bytes)
        self.lanes.append(lane)
        return lane

    async def replace(self, lane: PlainLane) -> PlainLane:
        """Kill it; another one takes over once the lease and what was sent under it are over."""
        specs = lane.specs
        await lane.drop()
        self.lanes.remove(lane)
        return self._successor(specs)

    async def forsake(self, lane: PlainLane) -> PlainLane:
        """Give it no lease any more, and its partitions to another, while it lives on and tries what it can."""
        specs = lane.specs
        lane.silence()
        self.lanes.remove(lane)
        self._zombies.append(lane)
        return self._successor(specs)

    def _successor(self, specs: list[CopySpec]) -> PlainLane:
        successor = self.lane()
        successor.assign(specs, clear_in_s=LEASE_S + self.flight_s)
        return successor

    async def hand_over(self, holder: PlainLane, taker: PlainLane) -> None:
        for spec in holder.specs:
            clean = await holder.lane.revoke(spec.partition)
            taker.assign([spec], clear_in_s=0.0 if clean else self.flight_s)

    async def until(self, condition: Callable[[], bool], what: str, timeout_s: float = LIMIT_S) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                while not self._failures and not condition():  # noqa: ASYNC110 - lanes have no event for this
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise AssertionError(f"no {what} in {timeout_s:g} s: {self.told()}") from None
        assert not self._failures, self._failures

    async def until_caught_up(self, records: int, timeout_s: float = LIMIT_S) -> None:
        await self.until(lambda: self.copied >= records, f"{records} records copied", timeout_s)
        states = {copy.state for copy in self.copies}
        assert PartitionState.STOPPED not in states, self.told()

    def told(self) -> list[str]:
        """How every copy stands, for a failure's words."""
        return [
            f"{c.spec.partition} {c.state} at {c.next_offset}: {c.stopped or c.trouble or 'well'}"
            for c in self.copies
        ]
