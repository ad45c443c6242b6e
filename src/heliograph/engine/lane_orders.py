"""A lane at its driver's orders: obeys them, tells how its partitions stand, and drains when it ends.

Owns what each order means to the copier's lane, and when the lane's life is over. Must not know threads, sockets or
Spark: orders are handed in, words to the driver handed out, so that the simulation runs this very code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from heliograph.copier.lane import Lane
from heliograph.copier.lane_clusters import LinkClusters
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.spec import CopySpec
from heliograph.engine.copy_reports import occurrences_of, progress_of
from heliograph.engine.orders import (
    Assign,
    Drained,
    GrantAttempts,
    Heartbeat,
    LineEnded,
    Occurrences,
    OpenLinks,
    Order,
    Progress,
    Renew,
    Report,
    Revoke,
    Revoked,
    Stop,
    WantsAttempts,
    portions,
)
from heliograph.model.clock import clock_of_suspended_time, clock_of_waits, time_of_day
from heliograph.model.partition import MirrorPartition
from heliograph.model.partition_status import PartitionStatus

PROGRESS_S = 0.2
DRAIN_LIMIT_S = 4.0


class Links(Protocol):
    """Where a lane's links lead; copier.LaneClusters is the real one."""

    def open(self, clusters: LinkClusters) -> None: ...

    def assign(self, specs: Iterable[CopySpec], *, clear_in_s: float = 0.0) -> None: ...


class LaneOrders:
    """`send(report)`: to the driver. `pid`: of this process; what is meant for another one is not ours."""

    def __init__(self, lane: Lane, links: Links, send: Callable[[Report], None], *, pid: int) -> None:
        self._lane = lane
        self._links = links
        self._send = send
        self._pid = pid
        self._reported: dict[MirrorPartition, PartitionStatus] = {}
        self._orders: asyncio.Queue[Order | LineEnded] = asyncio.Queue()
        self._revoking: dict[asyncio.Task[None], None] = {}
        self._pulse = 0
        self._wants: tuple[str, ...] = ()
        self._heard: tuple[float, float] | None = None  # the driver's time, and ours when we heard it

    def hand_over(self, order: Order | LineEnded) -> None:
        """In the lane's event loop."""
        self._orders.put_nowait(order)

    def beat(self) -> Heartbeat:
        """From any thread: when leases are asked for, of which links, and how often the data loop has turned. And what
        time it must be at the driver by now, at least: its machine may have stood still."""
        heard = self._heard
        return Heartbeat(
            at=clock_of_suspended_time(),
            pulse=self._pulse,
            wants=self._wants,
            heard=(heard[0], clock_of_waits() - heard[1]) if heard is not None else None,
        )

    async def live(self, failure: asyncio.Future[str]) -> str:
        """Until the driver says stop, the line ends, or the lane fails; then drain. Why it ended."""
        tasks: list[asyncio.Future[str]] = [
            asyncio.create_task(self._obey()),
            asyncio.create_task(self._report()),
            failure,
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return str(next(task for task in tasks if task in done).result())
        finally:
            for task in tasks:
                task.cancel()
            for revoking in self._revoking:
                revoking.cancel()
            await self._drain()

    async def _drain(self) -> None:
        clean = False
        try:
            async with asyncio.timeout(DRAIN_LIMIT_S):
                clean = await self._lane.drain()
        except TimeoutError:
            pass  # what is still in flight is settled from the target by the next lane
        self._send_progress()
        self._send(Drained(clean=clean))

    async def _obey(self) -> str:
        while True:
            order = await self._orders.get()
            match order:
                case OpenLinks(links=links):
                    for clusters in links:
                        self._links.open(clusters)
                    self._send(self.beat())  # nothing is sent before the driver's first word on these links
                case Assign(specs=specs, clear_in_s=clear_in_s, pid=pid) if pid in (None, self._pid):
                    self._links.assign(specs, clear_in_s=clear_in_s)
                case GrantAttempts(attempts=attempts, pid=pid) if pid == self._pid:
                    for key, attempt in attempts:
                        self._lane.grant_attempt(key, attempt)
                case Revoke(partitions=partitions):
                    for key in partitions:
                        self._revoke(key)
                case Renew(asked_at=asked_at, leases=leases, now=now):
                    self._heard = (now, clock_of_waits())
                    for link, lasts_s in leases.items():
                        self._lane.renew(link, asked_at, lasts_s)
                case Stop():
                    return "stopped by the driver"
                case LineEnded(why=why):
                    return why

    def _revoke(self, key: MirrorPartition) -> None:
        """In a task of its own: the answers that are due may take long, and other orders must not wait for them."""

        async def revoke() -> None:
            copy = self._lane.copy(key)
            clean = await self._lane.revoke(key)
            self._reported.pop(key, None)
            if copy is not None:  # what it was told last may be less than what is there now
                self._tell([copy])
                last = progress_of(copy, asyncio.get_running_loop().time())
                self._send(Progress(rows=(last,)))
            self._send(Revoked(partition=key, clean=clean))

        task = asyncio.create_task(revoke())
        self._revoking[task] = None
        task.add_done_callback(self._revoking.pop)

    async def _report(self) -> str:
        while True:
            self._pulse += 1
            self._wants = tuple(self._lane.wants_exclusion())
            self._lane.lapse()
            self._send_progress()
            self._ask_for_attempts()
            await asyncio.sleep(PROGRESS_S)

    def _ask_for_attempts(self) -> None:
        """Gaps are filled with attempts that the driver has reserved (copier/fill.py)."""
        for wants in portions(self._lane.take_attempt_wants()):
            self._send(WantsAttempts(wants=wants, pid=self._pid))

    def _send_progress(self) -> None:
        """Only what changed since the last report."""
        changed, now = [], asyncio.get_running_loop().time()
        moved = self._lane.take_moved()
        self._tell(moved)
        for copy in moved:
            key = copy.spec.partition
            progress = progress_of(copy, now)
            if self._reported.get(key) != progress:
                self._reported[key] = progress
                changed.append(progress)
        for rows in portions(changed):
            self._send(Progress(rows=rows))

    def _tell(self, copies: Iterable[PartitionCopy]) -> None:
        """All that an operator must hear, whether or not it is over by now."""
        at = time_of_day()
        for told in portions([each for copy in copies for each in occurrences_of(copy, at)]):
            self._send(Occurrences(occurrences=told))
