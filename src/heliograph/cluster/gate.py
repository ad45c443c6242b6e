"""A request leaves only when it is permitted to, and never later than that.

Owns what must not leave yet. A request that comes with a permit is held back by its last byte until all others are
with the kernel, and the permit is asked right before that byte follows; a broker executes nothing that is not whole.
Requests behind it wait whole, in order. Must not know what the bytes say, who made them, nor any clock or event loop:
an `Outlet` takes them, and whoever owns it calls `flush` when it has become empty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import NamedTuple, Protocol

from heliograph.cluster.exchange import Buffer

Permit = Callable[[], bool]


class Outlet(Protocol):
    @property
    def buffered_bytes(self) -> int:
        """What it has taken, and the kernel has not."""
        ...

    def has_room(self) -> bool:
        """Whether the kernel would take one more byte now."""
        ...

    def write(self, parts: Sequence[Buffer]) -> None:
        """To the kernel now as far as it takes it, the rest as soon as it does."""
        ...


class Flow(Enum):
    OPEN = auto()  # nothing is held back
    HELD = auto()  # until the outlet is empty
    FULL = auto()  # the outlet is empty, the kernel is not, and nobody will tell of room: look again soon
    REFUSED = auto()  # a permit said no: nothing may leave here any more
    LATE = auto()  # a byte that was permitted did not leave at once: the same


class _Held(NamedTuple):
    parts: list[Buffer]
    permit: Permit


class Gate:
    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet
        self._held: deque[_Held] = deque()  # the first one's last byte is all that is left of it

    def push(self, parts: list[Buffer], permit: Permit | None) -> Flow:
        """Without a permit a request may leave whenever it can."""
        if permit is None:
            assert not self._held
            self._outlet.write(parts)
            return Flow.OPEN
        self._held.append(_Held(parts, permit))
        if len(self._held) > 1:
            return Flow.HELD
        self._send_all_but_the_last_byte()
        return self.flush()

    def flush(self) -> Flow:
        """What was written may be with the kernel now: the last byte may follow, if it is permitted."""
        while self._held:
            if self._outlet.buffered_bytes:
                return Flow.HELD
            if not self._outlet.has_room():
                return Flow.FULL
            last, permit = self._held.popleft()
            if not permit():
                return Flow.REFUSED
            self._outlet.write(last)
            if self._outlet.buffered_bytes:  # it would leave later, and nobody would ask then
                return Flow.LATE
            if self._held:
                self._send_all_but_the_last_byte()
        return Flow.OPEN

    def clear(self) -> None:
        self._held.clear()

    def _send_all_but_the_last_byte(self) -> None:
        parts = self._held[0].parts
        while not parts[-1]:
            parts.pop()
        last = memoryview(parts.pop())
        self._outlet.write([*parts, last[:-1]])
        parts[:] = [last[-1:]]
