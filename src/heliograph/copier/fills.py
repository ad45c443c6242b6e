"""Fills gaps on the target: sends the markers of copier/fill.py and reads the logs' ends back.

One task for each gap; what waits for one broker goes as one request, and one more reads all ends: to share requests is
worth more than to have several on their way. Long gaps, of which a request keeps the broker busy for 50 ms, wait for
each other and hold up nobody else. Every request is under the lease, which is looked at right before its last byte
leaves: that of a repair is the exclusive one. Without the right to write markers gaps are filled by empty transactions
(copier/transaction_fills.py); without that right, too, the partition stops here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from heliograph.cluster.markers import FEW_MARKERS, Marker
from heliograph.copier.fill import Fill, Stretch, markers_of, stretches
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.ports import TargetPort
from heliograph.copier.recovery import after_markers, stop_for_markers
from heliograph.copier.route import Route
from heliograph.copier.transaction_fills import fill_by_transactions, no_right
from heliograph.model.errors import (
    BrokerRefused,
    HeliographError,
    PartitionStop,
    ProtocolError,
    RequestFailed,
)
from heliograph.model.events import Event, Trouble
from heliograph.model.fill_way import FillWay
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

MARKERS_AT_ONCE = 4000  # of all partitions in one request; of short gaps FEW_MARKERS


class Written(NamedTuple):
    """The broker's code for the markers, and where the log ends after them; None: it does not say."""

    code: int
    end: int | None


class _Waiting(NamedTuple):
    where: TopicPartition
    markers: list[Marker]
    answer: asyncio.Future[Written]


class MarkerLine:
    """Markers to one broker, a request at a time, of so many markers at most."""

    def __init__(
        self, target: TargetPort, node: int, permit: Callable[[], bool], most_markers: int = MARKERS_AT_ONCE
    ) -> None:
        self._target = target
        self._node = node
        self._most_markers = most_markers
        self._permit = permit
        self._waiting: list[_Waiting] = []
        self._wake = asyncio.Event()

    async def write(self, where: TopicPartition, markers: list[Marker]) -> Written:
        answer: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(where, markers, answer))
        self._wake.set()
        return await answer

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            sent = self._take()
            if not self._waiting:
                self._wake.clear()
            try:
                codes, ends = await self._send(sent)
            except (RequestFailed, ProtocolError) as problem:
                for each in sent:
                    _settle(each.answer, problem)
            else:
                for each in sent:
                    code = codes.get((each.where, each.markers[0].label.producer_id))
                    known = ErrorCode.UNKNOWN_SERVER_ERROR if code is None else code
                    _settle(each.answer, Written(known, ends.get(each.where)))

    def _take(self) -> list[_Waiting]:
        """What fits one request; at least one."""
        count = size = 0
        for each in self._waiting:
            size += len(each.markers)
            if count and size > self._most_markers:
                break
            count += 1
        sent, self._waiting = self._waiting[:count], self._waiting[count:]
        return sent

    async def _send(
        self, sent: list[_Waiting]
    ) -> tuple[dict[tuple[TopicPartition, int], int], dict[TopicPartition, int]]:
        markers = [marker for each in sent for marker in each.markers]
        codes = await self._target.write_markers(self._node, markers, self._permit)
        ends = await self._target.log_ends(self._node, [each.where for each in sent])
        return dict(codes), dict(ends)


def _settle(answer: asyncio.Future[Written], result: Written | HeliographError) -> None:
    if answer.done():
        return
    if isinstance(result, HeliographError):
        answer.set_exception(result)
        answer.exception()  # nobody may wait any more
    else:
        answer.set_result(result)


class Fills:
    """`spawn` runs a task; `on_change(copy)` is called after a fill is over."""

    def __init__(
        self,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        on_change: Callable[[PartitionCopy], None],
    ) -> None:
        self._spawn = spawn
        self._on_change = on_change
        self._lines: dict[tuple[int, int, bool, bool], MarkerLine] = {}

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
            self._spawn(fill_by_transactions(route, node, fill, permit, self._on_change))
        else:
            self._spawn(self._fill(copy, fill, self._line(route.target, node, fill, permit)))

    def _line(self, target: TargetPort, node: int, fill: Fill, permit: Callable[[], bool]) -> MarkerLine:
        long = fill.end.target - fill.start.target > FEW_MARKERS
        key = (id(target), node, fill.exclusive, long)
        line = self._lines.get(key)
        if line is None:
            most_markers = MARKERS_AT_ONCE if long else FEW_MARKERS
            line = self._lines[key] = MarkerLine(target, node, permit, most_markers)
            self._spawn(line.run())
        return line

    async def _fill(self, copy: PartitionCopy, fill: Fill, line: MarkerLine) -> None:
        try:
            for stretch in stretches(fill):
                written = await line.write(copy.spec.partition.target, markers_of(copy.spec, fill, stretch))
                problem = _problem_of(stretch, written)
                if problem is not None:
                    copy.fill_over(problem, stale=written.end is None or written.end < stretch.next_offset)
                    break
                if not copy.filled_to(stretch.next_offset):
                    copy.fill_over()
                    break
        except (RequestFailed, ProtocolError) as problem:
            copy.fill_over(_failed(fill, problem), stale=True, lost_at=asyncio.get_running_loop().time())
        self._on_change(copy)


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
