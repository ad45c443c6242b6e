"""Virtual time: what happens next, in an order that depends on nothing but the times and the order of asking."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from .machine_clocks import MachineClocks

Do = Callable[..., object]


class Schedule:
    """`now` in seconds; `clocks`: of the process that runs. Whatever is asked for at one moment happens in the order of
    asking."""

    def __init__(self) -> None:
        self.now = 0.0
        self.clocks = MachineClocks()
        self._heap: list[tuple[float, int, Do, tuple[Any, ...]]] = []
        self._count = 0

    def at(self, when: float, do: Do, *what: Any) -> None:
        self._count += 1
        heapq.heappush(self._heap, (max(when, self.now), self._count, do, what))

    def after(self, delay_s: float, do: Do, *what: Any) -> None:
        self._count += 1
        heapq.heappush(self._heap, (self.now + delay_s, self._count, do, what))

    def step(self) -> bool:
        """Do what is due next; False when nothing is."""
        if not self._heap:
            return False
        self.now, _, do, what = heapq.heappop(self._heap)
        do(*what)
        return True
