"""The gate over a kernel that takes as much as it likes: nothing is whole there that was not permitted right before."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.cluster.conversation import Buffer
from heliograph.cluster.gate import MOST_BUFFERS, Flow, Gate, Permit


class Kernel:
    """A transport and the kernel behind it, which has room for so many bytes. `calls`: permits and system calls."""

    def __init__(self, room_bytes: int) -> None:
        self.room_bytes = room_bytes
        self.taken = bytearray()
        self.kept = bytearray()  # by the transport
        self.broken = False
        self.calls: list[str] = []

    @property
    def is_empty(self) -> bool:
        return not self.kept and not self.broken

    def write_now(self, parts: Sequence[Buffer]) -> int:
        assert not self.kept, "past what was left to the transport"
        assert self.calls[-1:] == ["permit"], "without a question right before"
        assert len(parts) <= MOST_BUFFERS
        self.calls.append("write")
        return self._take(b"".join(parts))

    def write_later(self, parts: Sequence[Buffer]) -> None:
        self.kept += b"".join(parts)
        self.drain(0)

    def drain(self, nbytes: int) -> None:
        """The peer has read so much."""
        self.room_bytes += nbytes
        del self.kept[: self._take(bytes(self.kept))]

    def _take(self, data: bytes) -> int:
        fits = min(self.room_bytes, len(data))
        self.taken += data[:fits]
        self.room_bytes -= fits
        return fits

    def permit(self, says: bool = True) -> Permit:
        def permit() -> bool:
            self.calls.append("permit")
            return says

        return permit


def pushed(gate: Gate, parts: Sequence[Buffer], permit: Permit | None) -> Flow:
    gate.push(parts, permit)
    return gate.flush()


def test_a_request_that_is_permitted_leaves_whole_by_one_call() -> None:
    kernel = Kernel(100)
    assert pushed(Gate(kernel), [b"he", b"llo", b""], kernel.permit()) is Flow.OPEN
    assert kernel.taken == b"hello"
    assert kernel.calls == ["permit", "write"]


def test_of_a_request_that_is_not_permitted_nothing_leaves_nor_of_those_behind() -> None:
    kernel = Kernel(100)
    gate = Gate(kernel)
    assert pushed(gate, [b"hello"], kernel.permit(says=False)) is Flow.REFUSED
    assert pushed(gate, [], None) is Flow.OPEN
    assert kernel.taken + kernel.kept == b""


def test_what_the_kernel_does_not_take_is_held_back_by_its_last_byte_and_asked_for_again() -> None:
    kernel = Kernel(3)
    gate = Gate(kernel)
    assert pushed(gate, [b"he", b"llo", b""], kernel.permit()) is Flow.HELD
    assert kernel.taken == b"hel"
    assert kernel.kept == b"l"
    assert pushed(gate, [b"you"], kernel.permit()) is Flow.HELD
    assert kernel.calls == ["permit", "write"]
    kernel.drain(1)
    assert gate.flush() is Flow.FULL  # asked, and no room for it
    kernel.drain(100)
    assert gate.flush() is Flow.OPEN
    assert kernel.taken == b"helloyou"
    assert kernel.calls == ["permit", "write"] * 4


def test_a_permit_that_is_withdrawn_half_way_leaves_the_request_without_its_last_byte() -> None:
    kernel = Kernel(3)
    gate = Gate(kernel)
    answers = iter([True, False])

    def permit() -> bool:
        kernel.calls.append("permit")
        return next(answers)

    assert pushed(gate, [b"hello"], permit) is Flow.HELD
    assert pushed(gate, [b"behind"], kernel.permit()) is Flow.HELD
    kernel.drain(100)
    assert gate.flush() is Flow.REFUSED
    assert kernel.taken == b"hell"
    assert gate.flush() is Flow.OPEN
    assert kernel.taken == b"hell"


@pytest.mark.parametrize(
    ("room_bytes", "flow"), [(0, Flow.HELD), (3, Flow.HELD), (4, Flow.FULL), (5, Flow.OPEN)]
)
def test_only_a_kernel_without_room_for_the_very_last_byte_must_be_looked_at_again(
    room_bytes: int, flow: Flow
) -> None:
    kernel = Kernel(room_bytes)
    assert pushed(Gate(kernel), [b"hel", b"lo"], kernel.permit()) is flow


def test_a_transport_that_has_failed_gets_nothing_more() -> None:
    """It has thrown away what it kept: the next byte would take the place of a lost one."""
    kernel = Kernel(3)
    gate = Gate(kernel)
    pushed(gate, [b"hello"], kernel.permit())
    kernel.kept.clear()
    kernel.broken = True
    kernel.drain(100)
    assert gate.flush() is Flow.HELD
    assert kernel.taken == b"hel"


def test_what_needs_no_permit_waits_its_turn_and_for_nothing_else() -> None:
    kernel = Kernel(3)
    gate = Gate(kernel)
    assert pushed(gate, [b"free"], None) is Flow.OPEN
    assert pushed(gate, [b"as air"], None) is Flow.OPEN
    assert kernel.kept == b"eas air"
    assert pushed(gate, [b"hello"], kernel.permit()) is Flow.HELD
    assert pushed(gate, [b"bye"], None) is Flow.HELD
    kernel.drain(100)
    assert gate.flush() is Flow.OPEN
    assert kernel.taken == b"freeas airhellobye"


@pytest.mark.parametrize("count", [MOST_BUFFERS, MOST_BUFFERS + 1, 3 * MOST_BUFFERS + 7])
def test_a_request_of_many_buffers_takes_several_calls_each_permitted(count: int) -> None:
    kernel = Kernel(1 << 20)
    parts = [b"%d," % n for n in range(count)]
    assert pushed(Gate(kernel), parts, kernel.permit()) is Flow.OPEN
    assert kernel.taken == b"".join(parts)
    assert kernel.calls == ["permit", "write"] * -(-count // MOST_BUFFERS)


def test_empty_buffers_beyond_the_last_byte_are_no_reason_to_wait() -> None:
    kernel = Kernel(5)
    assert pushed(Gate(kernel), [b"hello", *[b""] * MOST_BUFFERS], kernel.permit()) is Flow.OPEN


def test_what_was_cleared_never_leaves() -> None:
    kernel = Kernel(3)
    gate = Gate(kernel)
    pushed(gate, [b"hello"], kernel.permit())
    pushed(gate, [b"you"], kernel.permit())
    gate.clear()
    kernel.drain(100)
    assert gate.flush() is Flow.OPEN
    assert kernel.taken == b"hell"


def test_an_error_of_the_kernels_is_the_callers_to_hear() -> None:
    class Broken(Kernel):
        def write_now(self, _parts: Sequence[Buffer]) -> int:
            raise OSError(errno.EPIPE, "Broken pipe")

    gate = Gate(Broken(100))
    gate.push([b"hello"], lambda: True)
    with pytest.raises(BrokenPipeError):
        gate.flush()


# -- any requests, any room


class Asked(NamedTuple):
    parts: list[bytes]
    questions: int | None  # how often its permit says yes; None: it needs none


REQUESTS = st.lists(
    st.builds(
        Asked,
        st.lists(st.binary(max_size=6), min_size=1, max_size=5).filter(any),
        st.one_of(st.none(), st.integers(0, 4), st.just(1000)),
    ),
    min_size=1,
    max_size=6,
)


@given(requests=REQUESTS, rooms=st.lists(st.integers(0, 12)), later=st.integers(0, 6))
def test_whatever_the_room_bytes_leave_in_order_and_whole_requests_only_right_after_a_yes(
    requests: list[Asked], rooms: list[int], later: int
) -> None:
    """`later`: so many requests come while others may be held."""
    kernel = Kernel(0)
    gate = Gate(kernel)
    stream = b"".join(b"".join(asked.parts) for asked in requests)
    refused_at: list[int] = []

    def permit_of(nth: int) -> Permit | None:
        left = requests[nth].questions
        if left is None:
            return None

        def permit() -> bool:
            nonlocal left
            assert left is not None
            kernel.calls.append("permit")
            left -= 1
            if left < 0:
                refused_at.append(nth)
            return left >= 0

        return permit

    grants = iter(rooms)
    waiting = list(range(len(requests)))
    flow = Flow.OPEN
    while flow is not Flow.REFUSED:
        at_once = len(waiting) - later if len(waiting) > later else 1
        for nth in waiting[:at_once]:
            gate.push(requests[nth].parts, permit_of(nth))
        del waiting[:at_once]
        flow = gate.flush()
        assert stream.startswith(kernel.taken + kernel.kept)
        if flow is Flow.HELD:  # a transport calls only when it has become empty
            assert kernel.kept
            while kernel.kept:
                kernel.drain(next(grants, 1000))
        elif flow is Flow.FULL:
            kernel.drain(next(grants, 1000))
        elif flow is Flow.OPEN and not waiting:
            kernel.drain(1000)
            break
    if flow is Flow.REFUSED:
        kernel.drain(1000)  # what the transport still has may leave: it is not whole
        (nth,) = refused_at
        ends_at = len(b"".join(b"".join(asked.parts) for asked in requests[: nth + 1]))
        assert len(kernel.taken) < ends_at
    else:
        assert kernel.taken == stream
    assert stream.startswith(kernel.taken)
