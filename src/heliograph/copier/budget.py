"""One budget of bytes in flight per lane, so that memory is bounded however many partitions it copies.

A fetch reserves what it may bring before it is sent. Its answer becomes a *parcel*: the bytes stay counted until
the last batch that lives in it is settled, because each batch is a view into the one buffer.
"""

from __future__ import annotations

import asyncio
from collections import deque


class ByteBudget:
    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
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
            raise

    def adjust(self, reserved_bytes: int, actual_bytes: int) -> None:
        """The answer is here: count what it really takes."""
        self.used_bytes += actual_bytes - reserved_bytes
        self._admit()

    def release(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes
        assert self.used_bytes >= 0
        self._admit()

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


class Parcel:
    """The bytes of one fetch answer, shared by the batches in it. Born held once, by the fetcher."""

    __slots__ = ("_budget", "_holders", "_size_bytes")

    def __init__(self, budget: ByteBudget, size_bytes: int) -> None:
        self._budget = budget
        self._size_bytes = size_bytes
        self._holders = 1

    def hold(self) -> None:
        self._holders += 1

    def release(self) -> None:
        self._holders -= 1
        assert self._holders >= 0
        if self._holders == 0:
            self._budget.release(self._size_bytes)
