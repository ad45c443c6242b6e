"""Fetches from one source broker, for the partitions of this lane that it leads.

One request at a time, for every partition that wants records; the next one leaves as soon as the answer is
taken apart, while its batches are on their way to the target. Knows nothing of the target.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from heliograph.copier.budget import ByteBudget, Parcel
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.ports import SourcePort
from heliograph.copier.recovery import stop_for_read
from heliograph.model.errors import BrokerRefused, HeliographError, ProtocolError, RequestFailed
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.fetch import FetchedPartition, FetchReply, FetchWant

SHORT_WAIT_MS = 10  # while partitions of this broker are held back: they must not wait out a long poll
FAILED_WAIT_S = 0.1
LEAST_FETCH_BYTES = 1 << 16


class FetchLimits:
    """How much one fetch may bring. `fetchers` share a quarter of the budget; the rest is what is on its way."""

    def __init__(self, budget: ByteBudget, fetch_bytes: int, partition_bytes: int, wait_ms: int) -> None:
        self.budget = budget
        self.partition_bytes = partition_bytes
        self.wait_ms = wait_ms
        self.fetchers = 0
        self._fetch_bytes = fetch_bytes

    @property
    def fetch_bytes(self) -> int:
        share = self.budget.limit_bytes // (4 * max(self.fetchers, 1))
        return min(self._fetch_bytes, max(share, LEAST_FETCH_BYTES))


class Fetcher:
    """`on_batches(copy)` is called after a copy was given records or an error."""

    def __init__(
        self, source: SourcePort, node: int, limits: FetchLimits, on_batches: Callable[[PartitionCopy], None]
    ) -> None:
        self._source = source
        self._node = node
        self._limits = limits
        self._on_batches = on_batches
        self._copies: dict[tuple[str, int], list[PartitionCopy]] = {}
        self._order: list[PartitionCopy] = []
        self._wake = asyncio.Event()

    def add(self, copy: PartitionCopy) -> None:
        self._order.append(copy)
        self._copies.setdefault(copy.spec.partition.source, []).append(copy)
        self._wake.set()

    def discard(self, copy: PartitionCopy) -> None:
        if copy in self._order:
            self._order.remove(copy)
            self._copies[copy.spec.partition.source].remove(copy)

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
        size_bytes = min(self._limits.fetch_bytes, self._limits.partition_bytes * len(asked))
        await budget.reserve(size_bytes)
        try:
            reply = await self._ask(asked, size_bytes)
        except (RequestFailed, ProtocolError) as problem:
            budget.release(size_bytes)
            await self._failed(asked, problem)
            return
        except BaseException:
            budget.release(size_bytes)
            raise
        actual_bytes = sum(len(fetched.records) for fetched in reply.partitions)
        budget.adjust(size_bytes, actual_bytes)
        self._deliver(reply, dict(asked), Parcel(budget, actual_bytes))

    async def _ask(self, asked: list[tuple[PartitionCopy, int]], size_bytes: int) -> FetchReply:
        wants = []
        for copy, offset in asked:
            where = copy.spec.partition.source
            leader = self._source.leader(where)
            epoch = leader.epoch if leader is not None else -1
            wants.append(FetchWant(where.topic, where.partition, offset, self._limits.partition_bytes, epoch))
        all_asked = len(asked) == len(self._order)
        wait_ms = self._limits.wait_ms if all_asked else min(SHORT_WAIT_MS, self._limits.wait_ms)
        reply = await self._source.fetch(self._node, wants, max_bytes=size_bytes, max_wait_ms=wait_ms)
        if reply.error:
            raise BrokerRefused(f"fetch: {ErrorCode.name_of(reply.error)}", code=reply.error)
        return reply

    def _deliver(self, reply: FetchReply, asked: dict[PartitionCopy, int], parcel: Parcel) -> None:
        for fetched in reply.partitions:
            for copy in self._copies.get((fetched.topic, fetched.partition), ()):
                if copy not in asked:
                    continue
                self._give(copy, fetched, asked[copy], parcel)
                self._on_batches(copy)
        parcel.release()

    def _give(self, copy: PartitionCopy, fetched: FetchedPartition, offset: int, parcel: Parcel) -> None:
        if not fetched.error:
            copy.fetched(fetched, offset, parcel)
            return
        problem = BrokerRefused(f"fetch at {offset}: {ErrorCode.name_of(fetched.error)}", code=fetched.error)
        stop = stop_for_read(problem)
        if stop is not None:
            copy.stop(stop)
        else:
            copy.interrupted(problem)

    async def _failed(self, asked: list[tuple[PartitionCopy, int]], problem: HeliographError) -> None:
        for copy, _ in asked:
            copy.interrupted(problem)
            self._on_batches(copy)
        await asyncio.sleep(FAILED_WAIT_S)
