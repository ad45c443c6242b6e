"""Markers to one broker: what waits goes as one request, and one more reads all ends.

To share requests is worth more than to have several on their way. Long gaps, of which a request keeps the broker busy
for 50 ms, wait for each other and hold up nobody else. One partition must not hold up the others (P7), so a request
that has no answer after `LOOK_S` is looked into, on another connection, and the next one does not wait for it any more:

- a broker of 4.3 never answers if the last entry names only partitions that are not there (a topic that was deleted, a
  replica that was moved away), and all others are done: then the request is given up;
- a broker answers when the followers of all partitions have the markers, or after 30 s. Those whose followers are slow
  are set apart, like appends;
- whose log ends where its markers do, on all in-sync replicas, has its answer by that: it was never more than the
  log's end that counted. Not so of an exclusive fill: its labels may be somebody else's, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, NamedTuple

from heliograph.cluster.at_most import at_most
from heliograph.cluster.markers import Marker
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.phases import Phase
from heliograph.copier.ports import TargetPort
from heliograph.model.errors import HeliographError, ProtocolError, RequestFailed, RequestTimedOut
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

MARKERS_AT_ONCE = 4000  # of all partitions in one request; of short gaps FEW_MARKERS
LOOK_S = 0.5  # twice what a broker takes for MARKERS_AT_ONCE
UNANSWERED_MOST = 4  # requests; each one has a connection
SPANS_AT_ONCE = 16


class Written(NamedTuple):
    """The broker's code for the markers, and where the log ends after them; None: it does not say."""

    code: int
    end: int | None


class _Waiting(NamedTuple):
    """`next_offset`: where the log ends if the markers are there and nothing else is."""

    copy: PartitionCopy
    markers: list[Marker]
    next_offset: int
    answer: asyncio.Future[Written | None]

    @property
    def where(self) -> TopicPartition:
        return self.markers[0].where


class MarkerLine:
    """`most_markers`: of one request. `exclusive`: as in `Fill`."""

    def __init__(
        self,
        target: TargetPort,
        node: int,
        permit: Callable[[], bool],
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        on_slow: Callable[[PartitionCopy], None],
        most_markers: int = MARKERS_AT_ONCE,
        exclusive: bool = False,
    ) -> None:
        self._target = target
        self._node = node
        self._permit = permit
        self._spawn = spawn
        self._on_slow = on_slow
        self._most_markers = most_markers
        self._exclusive = exclusive
        self._waiting: list[_Waiting] = []
        self._wake = asyncio.Event()
        self._unanswered: set[asyncio.Task[None]] = set()  # nobody waits for them but their own partitions

    async def write(self, copy: PartitionCopy, markers: list[Marker], next_offset: int) -> Written | None:
        """None: the copy fills no gap any more, its topic is another one for example, and nothing was sent."""
        answer: asyncio.Future[Written | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(copy, markers, next_offset, answer))
        self._wake.set()
        return await answer

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            sent = self._take()
            if not self._waiting:
                self._wake.clear()
            if not sent:
                continue
            request = self._spawn(self._request(sent))
            await asyncio.wait({request}, timeout=LOOK_S)
            if not request.done():
                await self._leave(request, sent)

    def _take(self) -> list[_Waiting]:
        """What fits one request; at least one. Markers name a topic by its name: what metadata has shown since they
        were made counts."""
        for each in self._waiting:
            if each.copy.phase is not Phase.FILL:
                _settle(each.answer, None)
        wanted = [each for each in self._waiting if not each.answer.done()]
        count = size = 0
        for each in wanted:
            size += len(each.markers)
            if count and size > self._most_markers:
                break
            count += 1
        self._waiting = wanted[count:]
        return wanted[:count]

    async def _request(self, sent: list[_Waiting]) -> None:
        try:
            markers = [marker for each in sent for marker in each.markers]
            codes = await self._target.write_markers(self._node, markers, self._permit)
            ends = await self._target.log_ends(self._node, [each.where for each in sent])
        except (RequestFailed, ProtocolError) as problem:
            for each in sent:
                _settle(each.answer, problem)
        else:
            for each in sent:
                code = codes.get((each.where, each.markers[0].label.producer_id))
                known = ErrorCode.UNKNOWN_SERVER_ERROR if code is None else code
                _settle(each.answer, Written(known, ends.get(each.where)))

    # -- requests without an answer

    async def _leave(self, request: asyncio.Task[None], sent: list[_Waiting]) -> None:
        """Somebody else waits for it from now on, unless there are many of them."""
        self._unanswered.add(request)
        request.add_done_callback(self._unanswered.discard)
        self._spawn(self._watch(request, sent))
        if len(self._unanswered) >= UNANSWERED_MOST:
            await asyncio.wait(self._unanswered, return_when=asyncio.FIRST_COMPLETED)

    async def _watch(self, request: asyncio.Task[None], sent: list[_Waiting]) -> None:
        while not request.done():
            try:
                all_there = await self._look(sent)
            except (RequestFailed, ProtocolError):
                all_there = True  # as far as anybody knows: the broker is away, and the connection will tell
            if not all_there and not request.done():
                request.cancel()
                for each in sent:
                    _settle(each.answer, RequestTimedOut(_no_answer(self._node)))
                return
            await asyncio.wait({request}, timeout=LOOK_S)

    async def _look(self, sent: list[_Waiting]) -> bool:
        """Settles what needs no answer. Whether the broker leads all that was sent to it."""
        wheres = [each.where for each in sent]
        ends = await self._target.log_ends(self._node, wheres)
        written = [each for each in sent if ends.get(each.where) == each.next_offset]
        replicated = await self._replicated(written)
        for each in written:
            if each.answer.done():
                continue
            if replicated.get(each.where, 0) < each.next_offset:
                self._on_slow(each.copy)
            elif not self._exclusive:
                _settle(each.answer, Written(ErrorCode.NONE, each.next_offset))
        return ends.keys() >= set(wheres)

    async def _replicated(self, written: list[_Waiting]) -> Mapping[TopicPartition, int]:
        """High watermarks: up to there all in-sync replicas hold the log."""
        wheres = [each.where for each in written if not each.answer.done()]
        spans = await at_most(SPANS_AT_ONCE, [partial(self._target.span, where) for where in wheres])
        return {where: span.high_watermark for where, span in zip(wheres, spans, strict=True)}


def _no_answer(node: int) -> str:
    return f"broker {node} does not answer a request for markers: it does not lead all of their partitions any more"


def _settle(answer: asyncio.Future[Written | None], result: Written | HeliographError | None) -> None:
    if answer.done():
        return
    if isinstance(result, HeliographError):
        answer.set_exception(result)
        answer.exception()  # nobody may wait any more
    else:
        answer.set_result(result)
