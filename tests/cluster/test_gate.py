"""The gate over a kernel that takes as much as it likes: nothing is whole there that was not permitted."""

from __future__ import annotations

from collections.abc import Sequence

from heliograph.cluster.exchange import Buffer
from heliograph.cluster.gate import Flow, Gate


class Kernel:
    """A transport and the kernel behind it, which has room for so many bytes."""

    def __init__(self, room_bytes: int) -> None:
        self.room_bytes = room_bytes
        self.taken = bytearray()
        self._buffered = bytearray()

    @property
    def buffered_bytes(self) -> int:
        return len(self._buffered)

    def has_room(self) -> bool:
        return self.room_bytes > 0

    def write(self, parts: Sequence[Buffer]) -> None:
        for part in parts:
            self._buffered += part
        self.drain(0)

    def drain(self, nbytes: int) -> None:
        self.room_bytes += nbytes
        fits = min(self.room_bytes, len(self._buffered))
        self.taken += self._buffered[:fits]
        del self._buffered[:fits]
        self.room_bytes -= fits


def test_a_request_that_is_permitted_leaves_at_once() -> None:
    kernel = Kernel(100)
    assert Gate(kernel).push([b"he", b"llo", b""], lambda: True) is Flow.OPEN
    assert kernel.taken == b"hello"


def test_a_request_that_is_not_permitted_lacks_its_last_byte() -> None:
    kernel = Kernel(100)
    assert Gate(kernel).push([b"he", b"llo"], lambda: False) is Flow.REFUSED
    assert kernel.taken == b"hell"


def test_the_permit_is_asked_when_all_others_are_with_the_kernel() -> None:
    kernel = Kernel(3)
    gate = Gate(kernel)
    asked: list[int] = []

    def permit() -> bool:
        asked.append(len(kernel.taken))
        return True

    assert gate.push([b"hello"], permit) is Flow.HELD
    assert gate.push([b"you"], permit) is Flow.HELD
    kernel.drain(1)
    assert gate.flush() is Flow.FULL
    assert asked == []
    kernel.drain(2)
    assert gate.flush() is Flow.HELD
    assert kernel.taken == b"helloy"
    kernel.drain(10)
    assert gate.flush() is Flow.OPEN
    assert kernel.taken == b"helloyou"
    assert asked == [4, 7]


def test_what_was_cleared_never_leaves() -> None:
    kernel = Kernel(3)
    gate = Gate(kernel)
    gate.push([b"hello"], lambda: True)
    gate.clear()
    kernel.drain(100)
    assert gate.flush() is Flow.OPEN
    assert kernel.taken == b"hell"
