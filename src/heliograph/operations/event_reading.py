"""Events read from the target clusters: what is there, in order of time, and then what comes. Reads only.

    read_past   every cluster up to its end as of the start, merged; a cluster that cannot be read is a problem, and the
                others are read
    follow      every cluster from there on, each as it comes; one that is away is waited for, without end

With or without a running mirror: nobody but the target clusters is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NoReturn, TypeVar

from heliograph.model.clock import clock_of_waits
from heliograph.model.errors import (
    ClusterUnreachable,
    HeliographError,
    ProtocolError,
    RequestFailed,
)
from heliograph.model.ledger import EVENTS_TOPIC
from heliograph.operations.event_absence import Absence
from heliograph.operations.event_aim import EventAim
from heliograph.operations.event_clusters import EventCluster, is_denied, refusal_of
from heliograph.operations.event_cursor import EventCursor, Tell
from heliograph.operations.event_echoes import Echoes
from heliograph.operations.event_order import TimeOrder
from heliograph.operations.recorded_event import RecordedEvent

T = TypeVar("T")
Take = Callable[[Sequence[RecordedEvent]], Awaitable[None]]

PAST_WAIT_MS = 500  # for records that are there: not waited for, unless a leader has moved
FOLLOW_WAIT_MS = 2000  # a record that comes ends it at once
IDLE_S = 0.1  # between answers without records: a quota empties them at once
IDLE_MOST = 50
MISSING_LOOK_S = 2.0
AGAIN_S = 1.0
PATIENCE_S = 15.0  # a leader is elected in less; then a command that does not follow gives up

_FAILURES = (RequestFailed, ProtocolError, ClusterUnreachable)


class EventReader:
    """`read_past`, then `follow` if `follows`; `aclose` in any case. `problems`: by cluster, why it could not be
    read."""

    def __init__(
        self, clusters: Sequence[EventCluster], aim: EventAim, tell: Tell, *, follows: bool = False
    ) -> None:
        self.problems: dict[str, HeliographError] = {}
        self._cursors = [EventCursor(each, aim, tell) for each in clusters]
        self._tell = tell
        self._follows = follows
        self._readers: dict[str, EventCursor] = {}  # by cluster id: it may have two names in the config
        self._echoes = Echoes()
        self._away = {each.name: Absence(each.name, clock_of_waits()) for each in clusters}

    @property
    def failure(self) -> HeliographError | None:
        """All problems in one; a cluster that cannot be reached decides what kind it is."""
        problems = sorted(self.problems.values(), key=lambda each: not isinstance(each, ClusterUnreachable))
        if not problems:
            return None
        messages = "\n".join(dict.fromkeys(each.message for each in problems))
        return type(problems[0])(messages, hint=problems[0].hint)

    async def aclose(self) -> None:
        await asyncio.gather(*(cursor.cluster.aclose() for cursor in self._cursors))

    # -- what is there

    async def read_past(self, take: Take) -> None:
        """Raises if no cluster can be read."""
        cursors = await self._begin()
        order = TimeOrder(len(cursors))
        while not order.is_over:
            for number in order.wanting:
                await self._read_page(order, number, cursors[number])
            events = self._echoes.without(order.take())
            if events:
                await take(events)

    async def _begin(self) -> list[EventCursor]:
        """Those that can be read."""
        problems = await asyncio.gather(*map(self._begin_one, self._cursors))
        failed = [(cursor, each) for cursor, each in zip(self._cursors, problems, strict=True) if each]
        for cursor, problem in failed:
            self._give_up(cursor, problem, told=self._follows and len(failed) < len(self._cursors))
        if self.failure is not None and len(failed) == len(self._cursors):
            raise self.failure
        return [each for each in self._cursors if each.has_begun and self._is_reader(each)]

    async def _begin_one(self, cursor: EventCursor) -> HeliographError | None:
        try:
            await self._surely(cursor, cursor.cluster.connect, PATIENCE_S)
            await self._surely(cursor, cursor.begin, PATIENCE_S)
        except _FAILURES as problem:
            return problem
        return None

    def _give_up(self, cursor: EventCursor, problem: HeliographError, *, told: bool) -> None:
        """For now, if events are followed."""
        refusal = self.problems[cursor.cluster.name] = refusal_of(cursor.cluster, problem)
        if told:
            self._say(self._away[cursor.cluster.name].is_given_up(_with_hint(refusal)))

    def _is_reader(self, cursor: EventCursor) -> bool:
        """Of its cluster, under all of its names."""
        return self._readers.setdefault(cursor.cluster.cluster_id, cursor) is cursor

    async def _read_page(self, order: TimeOrder, number: int, cursor: EventCursor) -> None:
        try:
            if not cursor.past_is_read:
                order.put(number, await self._surely(cursor, partial(self._read_on, cursor), PATIENCE_S))
        except _FAILURES as problem:
            self._give_up(cursor, problem, told=self._follows)
            order.end(number)
        if cursor.past_is_read:
            order.end(number)

    async def _read_on(self, cursor: EventCursor) -> list[RecordedEvent]:
        """Until there is something, or the past is over."""
        idle = 0
        while idle < IDLE_MOST:
            before = cursor.next_offset
            events = await cursor.read(wait_ms=PAST_WAIT_MS)
            if cursor.is_lost and not self._follows:
                raise RequestFailed(f"topic {EVENTS_TOPIC} is not there any more")
            if events or cursor.past_is_read:
                return events
            idle = idle + 1 if cursor.next_offset == before else 0
            if idle:
                await asyncio.sleep(IDLE_S)
        raise RequestFailed(f"records of {EVENTS_TOPIC} from offset {cursor.next_offset} on do not come")

    # -- what comes

    async def follow(self, take: Take) -> NoReturn:
        """Until it is cancelled. After `read_past`."""
        lock = asyncio.Lock()

        async def deliver(events: Sequence[RecordedEvent]) -> None:
            async with lock:
                told = self._echoes.without(events)
                if told:
                    await take(told)

        tasks = [asyncio.create_task(self._follow_one(cursor, deliver)) for cursor in self._cursors]
        try:
            await asyncio.gather(*tasks)
            raise AssertionError("at least one cluster is followed without end")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow_one(self, cursor: EventCursor, deliver: Take) -> None:
        if not cursor.has_begun:
            await self._surely(cursor, cursor.begin, None)
        if not self._is_reader(cursor):
            return
        read = partial(cursor.read, wait_ms=FOLLOW_WAIT_MS)
        while True:
            events = await self._surely(cursor, read, None)
            if events:
                await deliver(events)
            else:
                await asyncio.sleep(MISSING_LOOK_S if cursor.is_missing else IDLE_S)

    # -- clusters that are away

    async def _surely(
        self, cursor: EventCursor, step: Callable[[], Awaitable[T]], patience_s: float | None
    ) -> T:
        """Tried again and again; with `patience_s` for so long, and not if that is of no use. A cluster that has none
        of its servers up has been given its time (reach.py)."""
        absence = self._away[cursor.cluster.name]
        absence.is_asked(clock_of_waits())
        while True:
            try:
                result = await step()
            except _FAILURES as problem:
                now = clock_of_waits()
                if patience_s is not None and (_is_final(problem) or absence.lasts_s(now) >= patience_s):
                    raise
                if patience_s is None:
                    self._say(absence.is_away(_with_hint(refusal_of(cursor.cluster, problem)), now))
                await asyncio.sleep(AGAIN_S)
                await cursor.look_again()
            else:
                self._say(absence.is_here(clock_of_waits()))
                return result

    def _say(self, words: str | None) -> None:
        if words is not None:
            self._tell(words)


def _is_final(problem: HeliographError) -> bool:
    return isinstance(problem, ClusterUnreachable) or is_denied(problem)


def _with_hint(problem: HeliographError) -> str:
    return f"{problem.message} (hint: {problem.hint})" if problem.hint else problem.message
