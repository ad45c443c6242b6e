"""A request leaves only when it is permitted to, and never later than that.

Owns what must not leave yet. A broker executes nothing that is not whole, so the permit is asked immediately before the
system call that may make a request whole, and nothing whole ever waits in user space, where it could survive a freeze:

    all of it at once ── the kernel takes all ──▶ gone                         (nearly always: one call, one question)
           │
           └── it is full ──▶ the rest but its last byte is left to the outlet
                                    └── outlet empty, permit asked again ──▶ the last byte ──▶ gone

Requests behind a held one wait whole, in order. Must not know what the bytes say, who made them (plain text or TLS),
nor any clock or event loop: an `Outlet` takes them, and whoever owns it calls `flush`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import NamedTuple, Protocol

from heliograph.cluster.conversation import Buffer

MOST_BUFFERS = (
    1024  # IOV_MAX: what one system call takes; only requests for 500 partitions and more have so many
)

Permit = Callable[[], bool]


class Outlet(Protocol):
    @property
    def is_empty(self) -> bool:
        """Whether the kernel has everything that was left to `write_later`, and the connection stands."""
        ...

    def write_now(self, parts: Sequence[Buffer]) -> int:
        """One system call: how many bytes the kernel took, 0 if it is full. The rest is not kept."""
        ...

    def write_later(self, parts: Sequence[Buffer]) -> None:
        """To the kernel as soon as it takes it."""
        ...


class Flow(Enum):
    OPEN = auto()  # nothing is held back
    HELD = auto()  # until the outlet is empty
    FULL = auto()  # the outlet is empty, the kernel is not, and nobody will tell of room: look again soon
    REFUSED = auto()  # a permit said no: nothing may leave here any more


class _Request(NamedTuple):
    parts: Sequence[Buffer]
    permit: Permit | None  # None: it may leave whenever it can


class Gate:
    """After REFUSED, or an OSError of the outlet's, a request may be there in part: the connection must be closed."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet
        self._requests: deque[_Request] = deque()  # of the first one a part may be gone

    @property
    def is_open(self) -> bool:
        """Whether nothing is held back."""
        return not self._requests

    def push(self, parts: Sequence[Buffer], permit: Permit | None) -> None:
        self._requests.append(_Request(parts, permit))

    def flush(self) -> Flow:
        """Let go what may leave now; to be called after a push, and whenever the outlet has become empty."""
        while self._requests:
            parts, permit = self._requests[0]
            if permit is None:
                self._outlet.write_later(parts)
                self._requests.popleft()
            elif not self._outlet.is_empty:
                return Flow.HELD
            elif not permit():
                self.clear()
                return Flow.REFUSED
            elif not self._write_now(parts, permit):
                return Flow.FULL
        return Flow.OPEN

    def clear(self) -> None:
        self._requests.clear()

    def _write_now(self, parts: Sequence[Buffer], permit: Permit) -> bool:
        """Let go as much of the first request as the kernel takes. False: there was no room for its last byte."""
        offered = parts if len(parts) <= MOST_BUFFERS else parts[:MOST_BUFFERS]
        taken_bytes = self._outlet.write_now(offered)
        is_full = taken_bytes < sum(map(len, offered))
        rest = _after(parts, taken_bytes) if is_full or offered is not parts else []
        if not rest:
            self._requests.popleft()
            return True
        if not is_full:
            self._requests[0] = _Request(rest, permit)
            return True
        *others, last = _cut_last_byte(rest)
        self._requests[0] = _Request([last], permit)
        if others:
            self._outlet.write_later(others)
        return bool(others)


def _after(parts: Sequence[Buffer], taken_bytes: int) -> list[Buffer]:
    """What is left of them, without empty ones."""
    rest: list[Buffer] = []
    for part in parts:
        if taken_bytes < len(part):
            rest.append(memoryview(part)[taken_bytes:] if taken_bytes else part)
        taken_bytes = max(taken_bytes - len(part), 0)
    return rest


def _cut_last_byte(parts: list[Buffer]) -> list[Buffer]:
    """The same bytes, the last one apart."""
    *others, last = parts
    view = memoryview(last)
    return [*others, view[:-1], view[-1:]] if len(view) > 1 else [*others, view]
