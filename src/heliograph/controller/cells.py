"""What a run keeps in the fenced cells of an election (cluster/fenced_cells.py): how many attempts to fill gaps were
reserved for each target partition.

An attempt must never be given to two holders of a partition (copier/fill.py). The group's coordinator takes a commit
from members of its current generation only, and keeps it when all of them are gone: whoever holds a partition next
reads what was reserved before it, and goes on above that.

    reserve:  above what was read, or reserved by us ─▶ commit ─▶ acknowledged ─▶ granted

Two things may still be on their way when we read. A commit of the holder before us, which was taken before the
generation changed: holders reserve one attempt of a partition at a time, so the first of ours leaves one out. And one
of our own whose outcome is unknown, which could take back what we reserve after it: nothing is reserved until it is
over.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from typing import Protocol

from heliograph.cluster.fenced_cells import Cell
from heliograph.cluster.standing import Placed, Standing
from heliograph.model.clock import Clock, clock_of_waits
from heliograph.model.errors import BrokerRefused, ProtocolError, RequestFailed, RequestTimedOut
from heliograph.model.marker_label import ATTEMPTS
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

VERSION = 1
NOTHING = -1


class FencedGroup(Protocol):
    """cluster.Election is the real one."""

    @property
    def standing(self) -> Standing: ...

    async def commit(self, cells: Mapping[TopicPartition, Cell]) -> None: ...

    async def cells(self) -> dict[TopicPartition, Cell]: ...


class Cells:
    """Of one election; a few links may share it. `flight_s`: how long a commit without an answer may be on its way."""

    def __init__(self, group: FencedGroup, flight_s: float, clock: Clock = clock_of_waits) -> None:
        self._group = group
        self._flight_s = flight_s
        self._clock = clock
        self._lock = asyncio.Lock()
        self._member: str | None = None  # for whom the attempts were read
        self._attempts: dict[TopicPartition, int] = {}
        self._ours: set[TopicPartition] = set()  # whose last attempt was reserved by `_ours_of`
        self._ours_of: str | None = None
        self._unknown_until = -math.inf  # a commit of ours may be executed late

    async def attempts(self) -> Mapping[TopicPartition, int]:
        """The last one that was reserved, of every partition of which one ever was. Read anew: a run gains topics in
        the middle of its term, and others have reserved for them until then."""
        async with self._lock:
            self._member = None
            await self._read()
            return dict(self._attempts)

    async def reserve(self, wants: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """An attempt above what was ever reserved, and above this one, for each of them. They are durable on return."""
        async with self._lock:
            if self._clock() < self._unknown_until:
                raise RequestTimedOut("an earlier commit has no answer, and may still be on its way")
            await self._read()
            given = {where: self._next(where, above) for where, above in wants.items()}
            self._attempts |= given  # also if the commit fails: it may be executed
            await self._commit(given)
            self._ours |= set(given)
            return given

    def _next(self, where: TopicPartition, above: int) -> int:
        step = 1 if where in self._ours else 2
        last = ATTEMPTS - 1  # used up: whoever has this one fills under an exclusive lease only
        return min(max(self._attempts.get(where, NOTHING), above) + step, last)

    async def _read(self) -> None:
        """Once for each term, and for each link that is prepared: in between nobody else commits for our partitions."""
        standing = self._group.standing
        if not isinstance(standing, Placed):
            raise BrokerRefused("the run holds no place in the election", code=ErrorCode.UNKNOWN_MEMBER_ID)
        member = standing.term.member
        if self._member == member:
            return
        found = await self._group.cells()
        for where, cell in found.items():
            if cell.number - 1 > self._attempts.get(where, NOTHING):  # else it is what we know of, or older
                self._attempts[where] = cell.number - 1
                self._ours.discard(where)
        if self._ours_of != member:
            self._ours.clear()
            self._ours_of = member
        self._member = member

    async def _commit(self, attempts: Mapping[TopicPartition, int]) -> None:
        text = json.dumps({"version": VERSION})  # the number, of the next attempt, is all there is to say yet
        cells = {where: Cell(number=attempt + 1, text=text) for where, attempt in attempts.items()}
        try:
            await self._group.commit(cells)
        except BrokerRefused:
            raise  # answered: it is over
        except (RequestFailed, ProtocolError):
            self._unknown_until = self._clock() + self._flight_s
            raise
