"""A receive buffer is used again when nobody looks at it any more, and never before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from heliograph.cluster.receive_buffers import BUFFERS, POOLED_FROM_BYTES, ReceiveBuffers

LARGE = POOLED_FROM_BYTES


def address(view: memoryview) -> int:
    return id(view.obj)


def test_a_buffer_nobody_looks_at_is_used_again() -> None:
    buffers = ReceiveBuffers()
    view = buffers.take(LARGE)
    where = address(view)
    del view
    assert address(buffers.take(LARGE)) == where


def test_the_smallest_slice_keeps_its_buffer() -> None:
    buffers = ReceiveBuffers()
    view = buffers.take(LARGE)
    view[-1] = 7
    last = view[-1:]
    where = address(view)
    del view
    other = buffers.take(LARGE)
    other[:] = b"\1" * LARGE
    assert address(other) != where
    assert last[0] == 7


def test_every_view_has_the_size_that_was_asked_for() -> None:
    buffers = ReceiveBuffers()
    for size in (1, LARGE - 1, LARGE, LARGE + 1, 3 * LARGE, LARGE):
        assert len(buffers.take(size)) == size


@given(st.lists(st.tuples(st.integers(1, 4 * LARGE), st.booleans()), max_size=20))
def test_what_is_looked_at_is_never_overwritten_and_few_are_kept(takes: list[tuple[int, bool]]) -> None:
    buffers, held = ReceiveBuffers(), []
    for number, (size, keep) in enumerate(takes):
        view = buffers.take(size)
        view[0] = number
        if keep:
            held.append((number, view))
        assert len(buffers._kept) <= BUFFERS
    assert all(view[0] == number for number, view in held)
