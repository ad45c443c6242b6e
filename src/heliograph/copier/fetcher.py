"""Fetches from one source broker, for the partitions of this lane that it leads.

One request at a time, for every partition that wants records; the next one leaves as soon as the answer is
taken apart, while its batches are on their way to the target. Knows nothing of the target.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable

from heliograph.copier.budget import ByteBudget, Parcel
from heliograph.copier.lease import Lease
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.ports import SourcePort
from heliograph.copier.recovery import stop_for_read
from heliograph.model.errors import BrokerRefused, HeliographError, ProtocolError, RequestFailed
from heliograph.model.events import Event, Trouble
from heliograph.model.policy import Isolation
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.fetch import FetchedPartition, FetchReply, FetchWant

HELD_BACK_WAIT_MS = 10
RESYNC_WAIT_MS = 100
FAILED_WAIT_S = 0.1
REFRESH_LIMIT_S = 3.0  # a cluster that is away is asked again by whoever keeps its metadata
LEAST_FETCH_BYTES = 1 << 16
# What an answer holds beside records, for each partition and in all: numbers, aborted transactions, topic names.
BESIDE_RECORDS_BYTES = 128
FETCH_SHARE = 4  # one in so many parts of a lane's memory is asked for at once; the rest is on its way


class FetchLimits:
    """How much one fetch may bring. The lane's fetchers that have something to fetch share a quarter of its budget; the
    rest is on its way."""

    def __init__(
        self,
        budget: ByteBudget,
        fetchers: Callable[[], int],
        fetch_bytes: int,
        partition_bytes: int,
        wait_ms: int,
    ) -> None:
        self.budget = budget
        self.partition_bytes = partition_bytes
        self._fetchers = fetchers
        self._fetch_bytes = fetch_bytes
        self._wait_ms = wait_ms

    def buffer_bytes(self, partitions: int) -> int:
        """The buffer for an answer about so many partitions: a power of two, rounded down, because buffers are powers
        of two (cluster/receive_buffers.py). Rounded up, a lane would take twice the memory that it counts."""
        share = self.budget.limit_bytes // (FETCH_SHARE * max(self._fetchers(), 1))
        most_bytes = min(self._fetch_bytes, max(share, LEAST_FETCH_BYTES), self.partition_bytes * partitions)
        return 1 << (max(most_bytes, 1).bit_length() - 1)

    def wait_ms(self, copies: Iterable[PartitionCopy]) -> int:
        """How long a fetch may wait for records: not long while copies that are not asked for may soon want some."""
        if any(copy.held_back for copy in copies):
            return min(HELD_BACK_WAIT_MS, self._wait_ms)
        if any(not copy.flowing or copy.awaits_right for copy in copies):
            return min(RESYNC_WAIT_MS, self._wait_ms)
        return self._wait_ms


class Fetcher:
    """`on_batches(copy)` is called after a copy was given records or an error."""

    def __init__(
        self,
        source: SourcePort,
        node: int,
        limits: FetchLimits,
        lease: Lease,
        on_batches: Callable[[PartitionCopy], None],
        wall_ms: Callable[[], int],
    ) -> None:
        self._lease = lease
        self._wall_ms = wall_ms
        self._source = source
        self._node = node
        self._limits = limits
        self._on_batches = on_batches
        self._copies: dict[tuple[str, int], PartitionCopy] = {}
        self._order: list[PartitionCopy] = []
        self._isolation = Isolation.READ_COMMITTED
        self._wake = asyncio.Event()
        self._compares_epochs = False  # the broker says so with its first answer

    def add(self, copy: PartitionCopy) -> None:
        # A request has one isolation for all its partitions. A link that mixes them needs a fetcher for each.
        isolation = copy.spec.policy.isolation
        assert not self._order or isolation is self._isolation, "one fetcher, two isolations"
        self._isolation = isolation
        self._order.append(copy)
        self._copies[copy.spec.partition.source] = copy
        self._wake.set()

    def discard(self, copy: PartitionCopy) -> None:
        if copy in self._order:
            self._order.remove(copy)
            del self._copies[copy.spec.partition.source]

    @property
    def active(self) -> bool:
        return bool(self._order)

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        while True:
            self._wake.clear()
            asked = self._asked()
            if not asked:
                await self._wake.wait()
                continue
            await self._fetch(asked)

    def _asked(self) -> list[tuple[PartitionCopy, int]]:
        """Who wants records from where. Everybody gets to be first in turn: only the first is sure to get a
        whole batch, however large."""
        if self._order:
            self._order.append(self._order.pop(0))
        return [(copy, offset) for copy in self._order if (offset := copy.fetch_offset()) is not None]

    async def _fetch(self, asked: list[tuple[PartitionCopy, int]]) -> None:
        budget = self._limits.budget
        size_bytes = self._limits.buffer_bytes(len(asked))
        await budget.reserve(size_bytes)
        try:
            reply = await self._ask(asked, _records_in(size_bytes, len(asked)))
        except (RequestFailed, ProtocolError) as problem:
            budget.release(size_bytes)
            await self._failed(asked, problem)
            return
        except BaseException:
            budget.release(size_bytes)
            raise
        self._compares_epochs = reply.compares_epochs
        actual_bytes = _resident_bytes(reply)
        budget.adjust(size_bytes, actual_bytes)
        self._deliver(reply, dict(asked), Parcel(budget, actual_bytes))
        if reply.throttle_ms > 0:  # a quota: the broker would not listen earlier
            until = asyncio.get_running_loop().time() + reply.throttle_ms / 1000
            for copy in self._order:
                copy.throttled(until)
            await asyncio.sleep(reply.throttle_ms / 1000)

    async def _ask(self, asked: list[tuple[PartitionCopy, int]], size_bytes: int) -> FetchReply:
        wants = []
        for copy, offset in asked:
            where = copy.spec.partition.source
            leader = self._source.leader(where)
            epoch = leader.epoch if leader is not None else -1
            limit_bytes = self._limits.partition_bytes
            wants.append(
                FetchWant(where.topic, where.partition, offset, limit_bytes, epoch, copy.source_epoch)
            )
        wait_ms = self._limits.wait_ms(self._order)
        reply = await self._source.fetch(
            self._node, wants, max_bytes=size_bytes, max_wait_ms=wait_ms, isolation=self._isolation
        )
        if reply.error:
            raise BrokerRefused(f"fetch: {ErrorCode.name_of(reply.error)}", code=reply.error)
        return reply

    def _deliver(self, reply: FetchReply, asked: dict[PartitionCopy, int], parcel: Parcel) -> None:
        for fetched in reply.partitions:
            copy = self._copies.get((fetched.topic, fetched.partition))
            if copy is not None and copy in asked:
                self._give(copy, fetched, asked[copy], parcel)
                self._on_batches(copy)
        parcel.release()

    def _give(self, copy: PartitionCopy, fetched: FetchedPartition, offset: int, parcel: Parcel) -> None:
        if not fetched.error:
            copy.fetched(fetched, offset, parcel, self._wall_ms(), exclusive=self._lease.exclusive)
            return
        problem = BrokerRefused(f"fetch at {offset}: {ErrorCode.name_of(fetched.error)}", code=fetched.error)
        stop = stop_for_read(problem)
        if stop is not None:
            copy.stop(stop)
        else:
            copy.interrupted(Trouble(Event.FETCH_REFUSED, problem.message))

    async def _failed(self, asked: list[tuple[PartitionCopy, int]], problem: HeliographError) -> None:
        """Nothing was read: it is read again from where each copy stands. Where the source has no epochs to compare, it
        is checked first: its log may be another one when the connection is back."""
        stop = stop_for_read(problem) if isinstance(problem, BrokerRefused) else None
        trouble = Trouble(Event.BROKER_AWAY, problem.message)
        for copy, _ in asked:
            if self._copies.get(copy.spec.partition.source) is not copy:
                continue  # it has moved to another broker meanwhile
            if stop is not None:
                copy.stop(stop)
            elif self._compares_epochs and copy.source_epoch >= 0:
                copy.source_away(trouble)
            else:
                copy.interrupted(trouble)
            self._on_batches(copy)
        await asyncio.sleep(FAILED_WAIT_S)
        await self._ask_who_leads()

    async def _ask_who_leads(self) -> None:
        with contextlib.suppress(RequestFailed, ProtocolError, TimeoutError):
            async with asyncio.timeout(REFRESH_LIMIT_S):
                await self._source.refresh()


def _records_in(buffer_bytes: int, partitions: int) -> int:
    """How many bytes of records to ask for, so that the whole answer fits into the buffer. It is a wish: a larger batch
    comes all the same, if it is the first."""
    return max(buffer_bytes - BESIDE_RECORDS_BYTES * (partitions + 8), buffer_bytes // 2)


def _resident_bytes(reply: FetchReply) -> int:
    """What the answer keeps alive: whole buffers, however little of them it fills."""
    buffers = {
        id(part.records.obj): memoryview(part.records.obj) for part in reply.partitions if part.records
    }
    return sum(buffer.nbytes for buffer in buffers.values())
