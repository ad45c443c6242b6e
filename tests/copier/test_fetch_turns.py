"""A fetcher, turn by turn, with a source that answers by hand: what an answer leaves out, and what comes too late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from heliograph.copier.budget import ByteBudget
from heliograph.copier.fetch_delivery import FetchDelivery
from heliograph.copier.fetch_limits import FetchLimits
from heliograph.copier.fetcher import Fetcher
from heliograph.copier.lease import Lease
from heliograph.copier.pace import Pace
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.ports import SourcePort
from heliograph.model.events import Event, Trouble
from heliograph.model.policy import Isolation
from heliograph.model.states import PartitionState
from heliograph.wire.fetch import FetchedPartition, FetchReply
from heliograph.wire.fetch_request import FetchAsk

from .lane_world import mirror, until
from .source_batches import NOW_MS, batch, fetched, spec_of, synced_at

AT = 5
SESSION = 9
DOUBT = Trouble(Event.UNSETTLED, "a doubt")


class ByHand:
    """A source: what is asked waits in `asks`, until `answer` is called."""

    def __init__(self) -> None:
        self.asks: list[FetchAsk] = []
        self._answers: list[asyncio.Future[FetchReply]] = []

    async def fetch(self, _node: int, _line: str, ask: FetchAsk, **_: Any) -> FetchReply:
        self.asks.append(ask)
        self._answers.append(asyncio.get_running_loop().create_future())
        return await self._answers[-1]

    async def answer(self, *partitions: FetchedPartition, throttle_ms: int = 0) -> None:
        """The request that waits; and wait for the next one."""
        await until(lambda: bool(self._answers) and not self._answers[-1].done())
        count = len(self.asks)
        self._answers[-1].set_result(FetchReply(throttle_ms, 0, list(partitions), True, SESSION))
        await until(lambda: len(self.asks) > count)


class Turns:
    def __init__(self) -> None:
        self.source = ByHand()
        self.copies = [PartitionCopy(spec_of(mirror(number)), 1 << 20) for number in range(2)]
        self.doubted: PartitionCopy | None = None  # resynchronises when the next answer is taken apart
        limits = FetchLimits(ByteBudget(1 << 20), lambda: 1, 1 << 16, 1 << 14, 500)
        delivery = FetchDelivery(Lease.unlimited(), self._given, lambda: NOW_MS)
        self.fetcher = Fetcher(
            cast(SourcePort, self.source),
            1,
            Isolation.READ_COMMITTED,
            limits,
            delivery,
            line="calm",
            pace=Pace(),
            on_records=lambda _: None,
        )
        for copy in self.copies:
            copy.synced(synced_at(AT))
            self.fetcher.add(copy, 0)

    def _given(self, copy: PartitionCopy) -> None:
        self.fetcher.changed(copy)
        doubted, self.doubted = self.doubted, None
        if doubted is not None:
            self.doubt(doubted)

    def doubt(self, copy: PartitionCopy) -> None:
        copy.interrupted(DOUBT)
        copy.synced(synced_at(AT))
        self.fetcher.changed(copy)

    def states(self) -> list[PartitionState]:
        return [copy.state for copy in self.copies]


def told(partition: int, end: int = AT, *batches: bytearray) -> FetchedPartition:
    return fetched(*batches, end=end)._replace(partition=partition)


@asynccontextmanager
async def turns() -> AsyncIterator[Turns]:
    """Two copies that are caught up at AT, and a request that waits."""
    it = Turns()
    task = asyncio.create_task(it.fetcher.run())
    await it.source.answer(told(0), told(1))
    assert it.states() == [PartitionState.CAUGHT_UP] * 2
    try:
        yield it
    finally:
        task.cancel()


async def test_a_partition_that_is_left_out_is_caught_up_where_it_was_told_to_be() -> None:
    """It has resynchronised, and the broker has nothing new to tell: it is not even named in the request."""
    async with turns() as it:
        it.doubted = it.copies[0]
        await it.source.answer(told(1, AT + 1, batch(AT)))
        assert [want.partition for want in it.source.asks[-1].wants] == [1]
        assert it.states()[0] is PartitionState.COPYING
        await it.source.answer()
        assert it.states()[0] is PartitionState.CAUGHT_UP
        assert it.copies[0].trouble is None


async def test_an_answer_that_a_quota_has_emptied_says_nothing_of_those_it_leaves_out() -> None:
    async with turns() as it:
        it.doubted = it.copies[0]
        await it.source.answer(told(1, AT + 1, batch(AT)))
        await it.source.answer(throttle_ms=1)
        assert it.states()[0] is PartitionState.COPYING
        await it.source.answer()
        assert it.states()[0] is PartitionState.CAUGHT_UP


async def test_a_partition_that_was_left_out_for_want_of_room_is_still_behind() -> None:
    async with turns() as it:
        it.doubted = it.copies[0]
        await it.source.answer(told(0, AT + 9), told(1, AT + 1, batch(AT)))
        await it.source.answer()
        assert it.states()[0] is PartitionState.COPYING
        assert it.copies[0].source_end == AT + 9


async def test_what_was_fetched_for_a_copy_before_it_was_interrupted_is_not_given_to_it() -> None:
    """Its source's log may be another one since; the same offset means nothing."""
    async with turns() as it:
        copy = it.copies[0]
        it.doubt(copy)
        await it.source.answer(told(0, AT + 1, batch(AT)))
        assert copy.fetch_offset() == AT
        await it.source.answer(told(0, AT + 1, batch(AT)))
        assert copy.fetch_offset() == AT + 1
