"""Fills gaps on the target: one task for each gap, which sends the markers of copier/fill.py, stretch by stretch, by a
line to the partition's leader (copier/marker_line.py).

Every request is under the lease, which is looked at right before its last byte leaves: that of a repair is the
exclusive one. Without the right to write markers gaps are filled by empty transactions (copier/transaction_fills.py);
without that right, too, the partition stops here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from heliograph.cluster.markers import FEW_MARKERS
from heliograph.copier.fill import Fill, Stretch, markers_of, stretches
from heliograph.copier.fill_clock import FillClock
from heliograph.copier.marker_line import MARKERS_AT_ONCE, MarkerLine, Written
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.recovery import after_markers, stop_for_markers
from heliograph.copier.route import Route
from heliograph.copier.transaction_fills import fill_by_transactions, no_right
from heliograph.model.errors import BrokerRefused, PartitionStop, ProtocolError, RequestFailed
from heliograph.model.events import Event, Trouble
from heliograph.model.fill_way import FillWay


class Fills:
    """`spawn` runs a task; `on_change(copy)` is called after a fill is over, `on_slow(copy)` if its followers are."""

    def __init__(
        self,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        on_change: Callable[[PartitionCopy], None],
        on_slow: Callable[[PartitionCopy], None],
    ) -> None:
        self._spawn = spawn
        self._on_change = on_change
        self._on_slow = on_slow
        self._clocks: dict[str, FillClock] = {}  # by link
        self._lines: dict[tuple[int, int, bool, bool, bool], MarkerLine] = {}

    def begin(self, route: Route, fill: Fill, permit: Callable[[], bool]) -> None:
        """`permit`: the lease that it needs, which it has now."""
        assert route.target_leader is not None
        copy, node = route.copy, route.target_leader.node
        if copy.spec.fill_way is FillWay.NONE:
            copy.stop(no_right(route, fill))
            self._on_change(copy)
            return
        copy.begin_fill(fill)
        if copy.spec.fill_way is FillWay.TRANSACTIONS:
            self._spawn(fill_by_transactions(route, node, fill, permit, self._on_change, self._clock(copy)))
        else:
            self._spawn(self._fill(copy, fill, self._line(route, node, fill, permit)))

    def _clock(self, copy: PartitionCopy) -> FillClock:
        return self._clocks.setdefault(copy.spec.partition.link, FillClock())

    def _line(self, route: Route, node: int, fill: Fill, permit: Callable[[], bool]) -> MarkerLine:
        long = fill.end.target - fill.start.target > FEW_MARKERS
        slow = asyncio.get_running_loop().time() < route.slow_until
        key = (id(route.target), node, fill.exclusive, long, slow)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = MarkerLine(
                route.target,
                node,
                permit,
                spawn=self._spawn,
                on_slow=self._on_slow,
                most_markers=MARKERS_AT_ONCE if long else FEW_MARKERS,
                exclusive=fill.exclusive,
            )
            self._spawn(line.run())
        return line

    async def _fill(self, copy: PartitionCopy, fill: Fill, line: MarkerLine) -> None:
        with self._clock(copy).running(copy, fill) as lap:
            await self._write(copy, fill, line, lap)
        self._on_change(copy)

    async def _write(
        self, copy: PartitionCopy, fill: Fill, line: MarkerLine, lap: Callable[[], None]
    ) -> None:
        try:
            for stretch in stretches(fill):
                written = await line.write(copy, markers_of(copy.spec, fill, stretch), stretch.next_offset)
                if written is None:
                    copy.fill_over()
                    break
                problem = _problem_of(stretch, written)
                if problem is not None:
                    copy.fill_over(problem, stale=written.end is None or written.end < stretch.next_offset)
                    break
                if not copy.filled_to(stretch.next_offset):
                    copy.fill_over()
                    break
                lap()
        except (RequestFailed, ProtocolError) as problem:
            copy.fill_over(_failed(fill, problem), stale=True, lost_at=asyncio.get_running_loop().time())


def _failed(fill: Fill, problem: RequestFailed | ProtocolError) -> Trouble | PartitionStop:
    """A broker that may not let us write markers refuses the request as a whole."""
    stop = stop_for_markers(problem, fill.start.target) if isinstance(problem, BrokerRefused) else None
    return stop or Trouble(Event.BROKER_AWAY, problem.message)


def _problem_of(stretch: Stretch, written: Written) -> Trouble | PartitionStop | None:
    """None: the markers are where they were meant to be, and nothing else is. The code tells only of the last one: the
    log's end counts. One that is further than that may be a rival's doing: the target is asked."""
    if not written.code and written.end == stretch.next_offset:
        return None
    if written.code:
        return after_markers(written.code, stretch.first_offset)
    where = "is not known" if written.end is None else f"is {written.end}"
    return Trouble(
        Event.GAP_UNFILLED,
        f"the gap [{stretch.first_offset}, {stretch.next_offset}) was filled, but the target's end {where}",
    )
