"""Virtual time: what happens next, in an order that depends on nothing but the times and the order of asking."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

Do = Callable[..., None]


class Schedule:
    __slots__ = ("_count", "_heap", "now_ms")

    def __init__(self) -> None:
        self.now_ms = 0
        self._heap: list[tuple[int, int, Do, tuple[Any, ...]]] = []
        self._count = 0

    def after(self, delay_ms: int, do: Do, *what: Any) -> None:
        self._count += 1
        heapq.heappush(self._heap, (self.now_ms + delay_ms, self._count, do, what))

    def step(self) -> bool:
        """Do what is due next; False when nothing is."""
        if not self._heap:
            return False
        self.now_ms, _, do, what = heapq.heappop(self._heap)
        do(*what)
        return True
