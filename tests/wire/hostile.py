"""Bytes that no honest broker sends, made from bytes that one does."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable

from hypothesis import strategies as st

from heliograph.model.errors import ProtocolError

Mutation = Callable[[bytes], bytes]

_NASTY = [
    *(struct.pack(">i", n) for n in (-1, -2, -(2**31), 2**31 - 1, 2**24, 0)),
    *(struct.pack(">h", n) for n in (-1, -2, -(2**15), 2**15 - 1)),
    b"\xff\xff\xff\xff\x0f",  # the largest 32-bit variable-length integer
    b"\xff\xff\xff\xff\x7f",  # beyond 32 bits
    b"\xff\xff\xff\xff\xff\xff",  # one that does not end in time
    b"\xc3\x28",  # not UTF-8
]


def _overwrite(where: int, content: bytes) -> Mutation:
    def mutate(body: bytes) -> bytes:
        at = where % (len(body) + 1)
        return body[:at] + content + body[at + len(content) :]

    return mutate


def _cut(where: int) -> Mutation:
    return lambda body: body[: where % (len(body) + 1)]


def _repeat_a_slice(where: int, size: int) -> Mutation:
    def mutate(body: bytes) -> bytes:
        at = where % (len(body) + 1)
        return body[:at] + body[at : at + size] + body[at:]

    return mutate


def _all(steps: list[Mutation]) -> Mutation:
    def mutate(body: bytes) -> bytes:
        for step in steps:
            body = step(body)
        return body

    return mutate


_anywhere = st.integers(0, 5000)
mutations = st.lists(
    st.builds(_overwrite, _anywhere, st.sampled_from(_NASTY) | st.binary(min_size=1, max_size=1))
    | st.builds(_cut, _anywhere)
    | st.builds(_repeat_a_slice, _anywhere, st.integers(1, 40)),
    min_size=1,
    max_size=4,
).map(_all)


def assert_value_or_protocol_error(
    decode: Callable[[int, memoryview], object], version: int, body: bytes
) -> None:
    """Any other exception leaves this function and fails the test."""
    with contextlib.suppress(ProtocolError):
        decode(version, memoryview(body))
