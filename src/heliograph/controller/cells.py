"""What a run keeps in the fenced cells of an election (cluster/fenced_cells.py), for each target partition:

- how many attempts to fill gaps were reserved;
- the *term* under which the holder writes rows of the ledger (model/ledger.py);
- a *mark* by a holder that has drained: up to where it copied, and for how long others' appends may still come.

An attempt must never be given to two holders of a partition (copier/fill.py). The group's coordinator takes a commit
from members of its current generation only, and keeps it when all of them are gone: whoever holds a partition next
reads what was reserved before it, and goes on above that.

    begin:    a commit that all earlier ones are over with ─▶ read ─▶ commit a new term, without a mark
    reserve:  above what was read, or reserved by us ─▶ commit ─▶ acknowledged ─▶ granted
    leave:    drained ─▶ commit a mark

Two things may still be on their way when we read. A commit of the holder before us, which was taken before the
generation changed: holders reserve one attempt of a partition at a time, so the first of ours leaves one out; and who
begins waits for a commit of its own first, which the coordinator writes behind all of those (the *barrier*). So neither
a reservation nor a mark of a former holder comes to light in our term. And one of our own whose outcome is unknown,
which could take back what we reserve after it: nothing is committed until it is over.

A run that was dropped from the group comes back as another member, behind whoever took its place. So everybody says as
which member they hold the partitions, and nothing is committed as another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from heliograph.cluster.fenced_cells import Cell
from heliograph.cluster.standing import Placed, Standing
from heliograph.model.clock import Clock, clock_of_waits
from heliograph.model.errors import BrokerRefused, ProtocolError, RequestFailed, RequestTimedOut
from heliograph.model.marker_label import ATTEMPTS
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

VERSION = 1
NOTHING = -1


class Mark(NamedTuple):
    """How a holder left a partition: nothing of its own is on its way. `end`: of the target's log, by what was
    acknowledged. `clear_in_s`: for how long something of a holder before it may still have come, as of then."""

    end: int
    clear_in_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """`marks`: what the last holder left behind, erased by now."""

    term: int
    marks: Mapping[TopicPartition, Mark]


class _Text(NamedTuple):
    """What a cell says beside its number."""

    term: int = 0
    mark: Mark | None = None


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
        self._texts: dict[TopicPartition, _Text] = {}
        self._commit: asyncio.Task[None] | None = None  # the last one

    async def begin(
        self,
        wheres: Collection[TopicPartition],
        *,
        member: str,
        barrier: TopicPartition | None,
        above: int = 0,
    ) -> Begun:
        """A term above every one before it, and above this one, for partitions that are ours from now on, as `member`;
        it is durable on return, and no mark of theirs is left. `barrier`: a cell that keeps the highest term alone, so
        that terms of topics which have no cells are fenced, too. Without one that of the first partition is taken: a
        reservation of the last holder may be hidden from us there, and an attempt is left out for it."""
        async with self._committing():
            self._member = None
            fenced = 0
            if barrier is not None:
                await self._read(member)
                fenced = max(self._term_of((*wheres, barrier)), above) + 1
                await self._put(_of_term(barrier, fenced), member)
                self._member = None
            elif wheres:
                await self._read(member)
                first = min(wheres)
                self._attempts[first] = self._attempts.get(first, NOTHING) + 1
                await self._put({first: self._cell(first)}, member)
                self._member = None
            await self._read(member)
            marks = {where: mark for where in wheres if (mark := self._text_of(where).mark) is not None}
            term = max(max(self._term_of(wheres), above) + 1, fenced)
            self._texts |= dict.fromkeys(wheres, _Text(term=term))
            cells = {where: self._cell(where) for where in wheres}
            if barrier is not None and term > fenced:  # somebody has taken one until the barrier was there
                cells |= _of_term(barrier, term)
            if cells:
                await self._put(cells, member)
            return Begun(term=term, marks=marks)

    async def leave(self, marks: Mapping[TopicPartition, Mark], *, member: str) -> None:
        """Nothing that was sent as `member` will be appended to these any more."""
        async with self._committing():
            await self._read(member)
            self._texts |= {where: self._text_of(where)._replace(mark=mark) for where, mark in marks.items()}
            await self._put({where: self._cell(where) for where in marks}, member)

    def _term_of(self, wheres: Collection[TopicPartition]) -> int:
        return max((self._text_of(where).term for where in wheres), default=0)

    def _text_of(self, where: TopicPartition) -> _Text:
        return self._texts.get(where, _Text())

    def _cell(self, where: TopicPartition) -> Cell:
        attempt = self._attempts.get(where, NOTHING)
        return Cell(number=attempt + 1, text=_text(self._text_of(where)))

    @contextlib.asynccontextmanager
    async def _committing(self) -> AsyncIterator[None]:
        """One at a time, and none before the last one has an answer: also one that nobody waits for any more."""
        async with self._lock:
            if self._commit is not None:
                await asyncio.wait({self._commit})
            if self._clock() < self._unknown_until:
                raise RequestTimedOut("an earlier commit has no answer, and may still be on its way")
            yield

    async def attempts(self, *, member: str) -> Mapping[TopicPartition, int]:
        """The last one that was reserved, of every partition of which one ever was. Read anew: a run gains topics in
        the middle of its term, and others have reserved for them until then."""
        async with self._lock:
            self._member = None
            await self._read(member)
            return dict(self._attempts)

    async def reserve(self, wants: Mapping[TopicPartition, int], *, member: str) -> dict[TopicPartition, int]:
        """An attempt above what was ever reserved, and above this one, for each of them. They are durable on return."""
        async with self._committing():
            await self._read(member)
            given = {where: self._next(where, above) for where, above in wants.items()}
            self._attempts |= given  # also if the commit fails: it may be executed
            await self._put({where: self._cell(where) for where in given}, member)
            self._ours |= set(given)
            return given

    def _next(self, where: TopicPartition, above: int) -> int:
        step = 1 if where in self._ours else 2
        last = ATTEMPTS - 1  # used up: whoever has this one fills under an exclusive lease only
        return min(max(self._attempts.get(where, NOTHING), above) + step, last)

    def _check_place(self, member: str) -> None:
        standing = self._group.standing
        if not isinstance(standing, Placed) or standing.term.member != member:
            raise BrokerRefused("the run holds no place in the election", code=ErrorCode.UNKNOWN_MEMBER_ID)

    async def _read(self, member: str) -> None:
        """Once for each term, and for each link that is prepared: in between nobody else commits for our partitions."""
        self._check_place(member)
        if self._member == member:
            return
        found = await self._group.cells()
        for where, cell in found.items():
            if cell.number - 1 > self._attempts.get(where, NOTHING):  # else it is what we know of, or older
                self._attempts[where] = cell.number - 1
                self._ours.discard(where)
        self._texts = {where: _read_text(cell.text) for where, cell in found.items()}
        if self._ours_of != member:
            self._ours.clear()
            self._ours_of = member
        self._member = member

    async def _put(self, cells: Mapping[TopicPartition, Cell], member: str) -> None:
        """Whoever waits may be cancelled; the commit is not, so that its outcome is known."""
        self._check_place(member)  # again: reading took a while, and a commit is made as whoever we are now
        self._commit = asyncio.get_running_loop().create_task(self._committed(cells))
        self._commit.add_done_callback(_hear_out)
        await asyncio.shield(self._commit)

    async def _committed(self, cells: Mapping[TopicPartition, Cell]) -> None:
        try:
            await self._group.commit(cells)
        except BrokerRefused:
            raise  # answered: it is over
        except (RequestFailed, ProtocolError):
            self._unknown_until = self._clock() + self._flight_s
            raise


def _of_term(barrier: TopicPartition, term: int) -> dict[TopicPartition, Cell]:
    return {barrier: Cell(number=0, text=_text(_Text(term=term)))}


def _hear_out(commit: asyncio.Task[None]) -> None:
    """Its problem is told to who waits for it, if anybody does."""
    if not commit.cancelled():
        commit.exception()


def _text(text: _Text) -> str:
    clean = {} if text.mark is None else {"clean": list(text.mark)}
    return json.dumps({"version": VERSION, "term": text.term, **clean})


def _read_text(text: str) -> _Text:
    """Of a version that said less, or that this one does not know, nothing is known: it has no mark to be trusted."""
    try:
        said = json.loads(text or "{}")
        term = int(said.get("term", 0))
        clean = said.get("clean") if said.get("version") == VERSION else None
        return _Text(term, Mark(int(clean[0]), float(clean[1])) if clean else None)
    except (ValueError, TypeError, AttributeError, IndexError):
        return _Text()
