"""One budget of bytes in flight per lane, so that memory is bounded however many partitions it copies.

A fetch reserves what it may bring before it is sent. Its answer becomes a *parcel*: the bytes stay counted until
the last batch that lives in it is settled, because each batch is a view into the one buffer.

What is merged needs memory of its own, beside the answers it came from: a part of the lane's memory that no fetch
takes. When it is used up, batches go as they are.

Batches for one target broker hold their parcels through that broker's *share*. A broker that hangs can pin its share
of the budget and no more, so that who writes to another one still gets memory to fetch with and to merge in (P7).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple


class ByteBudget:
    """`limit_bytes` of fetch answers, and beside them `merged_limit_bytes` of what is merged out of them."""

    def __init__(self, limit_bytes: int, merged_limit_bytes: int = 0) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.merged_limit_bytes = merged_limit_bytes
        self.merged_bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def reserve(self, size_bytes: int) -> None:
        """Wait, in order, until this many bytes are free. Something larger than all passes when all is free."""
        if not self._waiting and self._fits(size_bytes):
            self.used_bytes += size_bytes
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size_bytes, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(size_bytes)
            else:
                self._admit()  # whoever waits behind us
            raise

    def adjust(self, reserved_bytes: int, actual_bytes: int) -> None:
        """The answer is here: count what it really takes."""
        self.used_bytes += actual_bytes - reserved_bytes
        self._admit()

    def release(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes
        assert self.used_bytes >= 0
        self._admit()

    @property
    def merging_room_bytes(self) -> int:
        return self.merged_limit_bytes - self.merged_bytes

    def _fits(self, size_bytes: int) -> bool:
        return self.used_bytes == 0 or self.used_bytes + size_bytes <= self.limit_bytes

    def _admit(self) -> None:
        while self._waiting:
            size_bytes, turn = self._waiting[0]
            if turn.cancelled():
                self._waiting.popleft()
            elif self._fits(size_bytes):
                self._waiting.popleft()
                self.used_bytes += size_bytes
                turn.set_result(None)
            else:
                return


class Share:
    """What one target broker's batches may pin: an even part of the budget, and never more than half of it.

    It counts for as long as a copy is led by the broker, or something is pinned."""

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._copies = 0
        self.pinned_bytes = 0
        self.merged_bytes = 0

    @property
    def active(self) -> bool:
        return self._copies > 0 or self.pinned_bytes > 0

    def join(self) -> None:
        """One more copy is led by this broker."""
        self._shares.count(self, lambda: self._add(1))

    def leave(self) -> None:
        self._shares.count(self, lambda: self._add(-1))

    def _add(self, copies: int) -> None:
        self._copies += copies
        assert self._copies >= 0

    @property
    def full(self) -> bool:
        return self.pinned_bytes >= self._shares.limit_bytes

    @property
    def merging_room_bytes(self) -> int:
        return self._shares.merged_limit_bytes - self.merged_bytes

    def pin(self, size_bytes: int) -> None:
        self._shares.count(self, lambda: self._pin(size_bytes))

    def unpin(self, size_bytes: int) -> None:
        self.pin(-size_bytes)

    def _pin(self, size_bytes: int) -> None:
        self.pinned_bytes += size_bytes
        assert self.pinned_bytes >= 0


class Shares:
    """All shares of a budget; `on_turn(share)` is called when one is full that was not, or the other way round."""

    def __init__(self, budget: ByteBudget, on_turn: Callable[[Share], None]) -> None:
        self._budget = budget
        self._shares: dict[object, Share] = {}
        self._active = 0  # kept, not counted: it is asked for with every batch
        self._on_turn = on_turn

    @property
    def limit_bytes(self) -> int:
        return self._budget.limit_bytes // max(self._active, 2)

    @property
    def merged_limit_bytes(self) -> int:
        return self._budget.merged_limit_bytes // max(self._active, 2)

    def count(self, share: Share, change: Callable[[], None]) -> None:
        """Change a share; the fewer are active, the more each may pin."""
        was_active, was_full = share.active, share.full
        change()
        if share.active is was_active:
            turned = [share] if share.full is not was_full else []
        else:
            before = {each: each.full for each in self._shares.values()} | {share: was_full}
            self._active += 1 if share.active else -1
            turned = [each for each, was in before.items() if each.full is not was]
        for each in turned:
            self._on_turn(each)

    def of(self, broker: object) -> Share:
        if broker not in self._shares:
            self._shares[broker] = Share(self)
        return self._shares[broker]


class Parcel:
    """The bytes of one fetch answer, shared by the batches in it. Born held once, by the fetcher."""

    __slots__ = ("_budget", "_by_share", "_holders", "_size_bytes")

    def __init__(self, budget: ByteBudget, size_bytes: int) -> None:
        self._budget = budget
        self._size_bytes = size_bytes
        self._holders = 1
        self._by_share: dict[Share, int] = {}

    @property
    def budget(self) -> ByteBudget:
        return self._budget

    def hold(self, share: Share | None = None) -> Hold:
        self._holders += 1
        if share is not None:
            count = self._by_share.get(share, 0)
            self._by_share[share] = count + 1
            if count == 0:
                share.pin(self._size_bytes)
        return Hold(self, share)

    def release(self, share: Share | None = None) -> None:
        self._holders -= 1
        assert self._holders >= 0
        if share is not None:
            self._by_share[share] -= 1
            if self._by_share[share] == 0:
                share.unpin(self._size_bytes)
        if self._holders == 0:
            self._give_back()

    def _give_back(self) -> None:
        self._budget.release(self._size_bytes)


class MergedParcel(Parcel):
    """The bytes of one merged batch, for the broker that has this share."""

    __slots__ = ("_share",)

    def __init__(self, budget: ByteBudget, size_bytes: int, share: Share | None) -> None:
        super().__init__(budget, size_bytes)
        self._share = share
        self._count(size_bytes)

    def _give_back(self) -> None:
        self._count(-self._size_bytes)

    def _count(self, size_bytes: int) -> None:
        self._budget.merged_bytes += size_bytes
        assert self._budget.merged_bytes >= 0
        if self._share is not None:
            self._share.merged_bytes += size_bytes


def merging_room(budget: ByteBudget, share: Share | None) -> int:
    """How large a merged batch for this broker may be now."""
    room_bytes = budget.merging_room_bytes
    return room_bytes if share is None else min(room_bytes, share.merging_room_bytes)


def hold_merged(budget: ByteBudget, size_bytes: int, share: Share | None) -> Hold:
    """Memory for a merged batch, given back with the only hold on it."""
    parcel = MergedParcel(budget, size_bytes, share)
    hold = parcel.hold(share)
    parcel.release()
    return hold


class Hold(NamedTuple):
    """Keeps a parcel alive; to be released once."""

    parcel: Parcel
    share: Share | None

    def again(self) -> Hold:
        """One more, to be released by itself."""
        return self.parcel.hold(self.share)

    def release(self) -> None:
        self.parcel.release(self.share)
