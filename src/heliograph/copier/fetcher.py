"""Fetches from one source broker, for partitions of this lane that it leads and that are read alike: the busy ones, or
the calm (source_fetches.py).

    changed ──▶ the session's long poll: everybody that wants records; the next request leaves as soon as the answer
       │                                 is taken apart, and says what has changed since the last one
       └──▶ aside: who wants records while the long poll hangs; until the next request of the session takes it in

A turn costs what has changed, not what is assigned. Knows nothing of the target. Why there are two requests:
docs/decisions/0009.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable

from heliograph.cluster.fetch_session import FetchSession, Where, without_session
from heliograph.copier.budget import Parcel
from heliograph.copier.fetch_delivery import Asked, FetchDelivery
from heliograph.copier.fetch_limits import FetchLimits, records_in, resident_bytes
from heliograph.copier.pace import Pace
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.ports import SourcePort
from heliograph.model.errors import BrokerRefused, HeliographError, ProtocolError, RequestFailed
from heliograph.model.policy import Isolation
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.fetch import FetchedPartition, FetchReply, FetchWant
from heliograph.wire.fetch_request import FetchAsk

# How long a request aside may wait for records: short at first, because whoever comes next waits for its end; longer
# and longer while there are none, because the long poll may hang for longer still.
ASIDE_FIRST_MS, ASIDE_MOST_MS = 10, 100
FAILED_WAIT_S = 0.1  # before metadata is asked for again: who leads now is not known before that
REFRESH_LIMIT_S = 3.0  # a cluster that is away is asked again by whoever keeps its metadata


class Fetcher:
    """`run` and `run_aside` are to be run for ever, side by side. `line`: names its requests, so that they wait for no
    others at the broker. `on_records(copy)` is called after a copy was given some."""

    def __init__(
        self,
        source: SourcePort,
        node: int,
        isolation: Isolation,
        limits: FetchLimits,
        delivery: FetchDelivery,
        *,
        line: str,
        pace: Pace,
        on_records: Callable[[PartitionCopy], None],
    ) -> None:
        self._pace = pace
        self._began_at: float | None = None  # to read, or to do so again after a failure
        self._line = line
        self._on_records = on_records
        self._source = source
        self._node = node
        self._isolation = isolation
        self._limits = limits
        self._delivery = delivery
        self._copies: dict[Where, PartitionCopy] = {}
        self._epochs: dict[Where, int] = {}  # of their leader
        self._session = FetchSession()
        self._asked: dict[Where, Asked] = {}  # in the session
        self._unheard: dict[Where, None] = {}  # those of them that no answer has spoken of since
        self._changed: dict[Where, None] = {}  # who may want something else than what was asked for
        self._polling = False  # a request of the session is on its way
        self._wake = asyncio.Event()
        self._aside: dict[Where, None] = {}
        self._aside_wake = asyncio.Event()
        self._fetching_aside = False

    def add(self, copy: PartitionCopy, leader_epoch: int) -> None:
        self._copies[copy.source_where] = copy
        self._epochs[copy.source_where] = leader_epoch
        self._asked.pop(copy.source_where, None)
        self.changed(copy)

    def discard(self, copy: PartitionCopy) -> None:
        where = copy.source_where
        if self._copies.get(where) is copy:
            del self._copies[where], self._epochs[where]
            self._changed[where] = None

    def changed(self, copy: PartitionCopy) -> None:
        """This copy may want records now, or others than before, or none."""
        where = copy.source_where
        self._changed[where] = None
        if not self._polling:
            self._wake.set()
            return
        offset = copy.fetch_offset()
        if offset is not None and self._asked.get(where) != (copy, copy.interruptions, offset):
            self._aside[where] = None
            self._aside_wake.set()

    @property
    def copies(self) -> list[PartitionCopy]:
        return list(self._copies.values())

    @property
    def under_way(self) -> int:
        """How many requests it has under way, or may have at any moment."""
        return bool(self._copies) + self._fetching_aside

    # -- the session

    async def run(self) -> None:
        while True:
            self._wake.clear()
            self._settle()
            if self._session:
                await self._poll()
            else:
                await self._wake.wait()

    def _settle(self) -> None:
        """Who wants records from where: what has changed goes into the session's next request."""
        for where in self._changed:
            copy = self._copies.get(where)
            offset = copy.fetch_offset() if copy is not None else None
            if copy is None or offset is None:
                self._asked.pop(where, None)
                self._unheard.pop(where, None)
                self._session.forget(where)
            elif self._asked.get(where) != (asked := Asked(copy, copy.interruptions, offset)):
                self._asked[where] = asked
                self._unheard[where] = None
                self._session.want(self._want(where, asked))
        self._changed.clear()
        self._aside.clear()

    def _want(self, where: Where, asked: Asked) -> FetchWant:
        copy = asked.copy
        return FetchWant(
            *where,
            asked.next_offset,
            self._limits.partition_bytes,
            self._epochs[where],
            copy.source_epoch,
            copy.topic_ids.source,
        )

    async def _poll(self) -> None:
        size_bytes = self._limits.buffer_bytes(len(self._session))
        await self._limits.budget.reserve(size_bytes)
        self._settle()  # it may have taken long
        partitions = len(self._session)
        if not partitions:
            self._limits.budget.release(size_bytes)
            return
        self._polling = True
        try:
            reply, parcel = await self._fetch(
                self._line, self._session.request(), partitions, size_bytes, self._limits.wait_ms
            )
        except (RequestFailed, ProtocolError) as problem:
            self._polling = False
            self._session.lost()
            await self._failed(self._asked.values(), problem)
            return
        finally:
            self._polling = False
        if reply.error:
            parcel.release()
            if not self._session.refused(reply.error):
                await self._failed(self._asked.values(), _refusal(reply))
            return
        self._session.answered(reply)
        size_bytes = sum(len(fetched.records) for fetched in reply.partitions)
        self._deliver(reply, parcel)
        await self._heed_quota(reply)
        await self._rest(size_bytes)

    async def _rest(self, answer_bytes: int) -> None:
        now = asyncio.get_running_loop().time()
        if self._began_at is None:
            self._began_at = now
        # A turn of the loop at least: what was fetched leaves before the next request is made.
        await asyncio.sleep(self._pace.rest_s(now - self._began_at, answer_bytes))

    def _deliver(self, reply: FetchReply, parcel: Parcel) -> None:
        for fetched in reply.partitions:
            where = (fetched.topic, fetched.partition)
            self._unheard.pop(where, None)
            self._give(self._asked.get(where), fetched, parcel)
        if not reply.throttle_ms:  # over a quota a broker leaves out what has changed, too
            for where in list(self._unheard):
                unchanged = self._session.unchanged(where)
                if unchanged is not None:
                    del self._unheard[where]
                    self._give(self._asked.get(where), unchanged, parcel)
        parcel.release()

    def _give(self, asked: Asked | None, fetched: FetchedPartition, parcel: Parcel) -> None:
        if asked is not None and self._copies.get((fetched.topic, fetched.partition)) is asked.copy:
            self._delivery.give(asked, fetched, parcel)
            if fetched.records:
                self._on_records(asked.copy)

    # -- aside

    async def run_aside(self) -> None:
        wait_ms = ASIDE_FIRST_MS
        while True:
            self._aside_wake.clear()
            if not self._aside:
                wait_ms = ASIDE_FIRST_MS
                await self._aside_wake.wait()
                continue
            self._fetching_aside = True
            brought = await self._fetch_aside(min(wait_ms, self._limits.wait_ms))
            self._fetching_aside = False
            wait_ms = ASIDE_FIRST_MS if brought else min(2 * wait_ms, ASIDE_MOST_MS)

    async def _fetch_aside(self, wait_ms: int) -> bool:
        """Whether it has brought records."""
        size_bytes = self._limits.buffer_bytes(len(self._aside))
        await self._limits.budget.reserve(size_bytes)
        asked = self._asked_aside()
        if not asked:
            self._limits.budget.release(size_bytes)
            return False
        ask = without_session(self._want(where, each) for where, each in asked.items())
        try:
            reply, parcel = await self._fetch(f"{self._line}, aside", ask, len(asked), size_bytes, wait_ms)
            if reply.error:
                parcel.release()
                raise _refusal(reply)
        except (RequestFailed, ProtocolError) as problem:
            await self._failed(asked.values(), problem)
            return False
        for fetched in reply.partitions:
            where = (fetched.topic, fetched.partition)
            if fetched.records:
                self._aside.pop(where, None)  # behind the others, if it wants more
            self._give(asked.get(where), fetched, parcel)
        parcel.release()
        await self._heed_quota(reply)
        return any(fetched.records for fetched in reply.partitions)

    def _asked_aside(self) -> dict[Where, Asked]:
        asked = {}
        for where in list(self._aside):
            copy = self._copies.get(where)
            offset = copy.fetch_offset() if copy is not None else None
            if copy is None or offset is None:
                del self._aside[where]
            else:
                asked[where] = Asked(copy, copy.interruptions, offset)
        return asked

    # -- both

    async def _fetch(
        self, line: str, ask: FetchAsk, partitions: int, size_bytes: int, wait_ms: int
    ) -> tuple[FetchReply, Parcel]:
        """The memory for the answer is reserved."""
        budget = self._limits.budget
        try:
            reply = await self._source.fetch(
                self._node,
                line,
                ask,
                max_bytes=records_in(size_bytes, partitions),
                max_wait_ms=wait_ms,
                isolation=self._isolation,
            )
        except BaseException:
            budget.release(size_bytes)
            raise
        self._delivery.heard(reply)
        actual_bytes = resident_bytes(reply)
        budget.adjust(size_bytes, actual_bytes)
        return reply, Parcel(budget, actual_bytes)

    async def _heed_quota(self, reply: FetchReply) -> None:
        """The broker would not listen earlier."""
        if reply.throttle_ms > 0:
            until = asyncio.get_running_loop().time() + reply.throttle_ms / 1000
            for copy in self._copies.values():
                copy.throttled(until)
            await asyncio.sleep(reply.throttle_ms / 1000)

    async def _failed(self, asked: Iterable[Asked], problem: HeliographError) -> None:
        here = [each.copy for each in asked if self._copies.get(each.copy.source_where) is each.copy]
        self._delivery.fail(here, problem)
        self._began_at = None
        await asyncio.sleep(FAILED_WAIT_S)
        with contextlib.suppress(RequestFailed, ProtocolError, TimeoutError):
            async with asyncio.timeout(REFRESH_LIMIT_S):
                await self._source.refresh()  # somebody else may lead them


def _refusal(reply: FetchReply) -> BrokerRefused:
    return BrokerRefused(f"fetch: {ErrorCode.name_of(reply.error)}", code=reply.error)
