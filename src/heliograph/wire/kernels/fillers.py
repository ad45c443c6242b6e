"""Filler records inside kernels: where they are among 100,000 encoded ones, and how one is known; and the kernel that
finds them among others."""

from __future__ import annotations

from numba import types

from heliograph.wire.kernels.compiler import I64, READ, Octets, kernel, part
from heliograph.wire.kernels.cursor import (
    ATTRIBUTES,
    FOUND,
    NO_MORE,
    OFFSET,
    REST,
    REST_END,
    new_cursor,
    next_record,
)
from heliograph.wire.kernels.density import (
    BROKEN,
    FILLER_MARK,
    FIXED_BYTES,
    THREE_BYTES_FROM,
    TWO_BYTES_FROM,
)
from heliograph.wire.kernels.varints import BROKEN as NO_NUMBER
from heliograph.wire.kernels.varints import read_varint

_ONE, _TWO, _THREE = FIXED_BYTES + 1, FIXED_BYTES + 2, FIXED_BYTES + 3
_TWO_AT = _ONE * TWO_BYTES_FROM
_THREE_AT = _TWO_AT + _TWO * (THREE_BYTES_FROM - TWO_BYTES_FROM)
_NULL = -1


@part
def filler_at(delta: int) -> int:
    """Where the filler with this offset delta begins, if the first one begins at 0."""
    if delta < TWO_BYTES_FROM:
        return _ONE * delta
    if delta < THREE_BYTES_FROM:
        return _TWO_AT + _TWO * (delta - TWO_BYTES_FROM)
    return _THREE_AT + _THREE * (delta - THREE_BYTES_FROM)


@part
def fillers_in(size: int) -> int:
    """How many whole fillers so many bytes hold, from the first on."""
    if size < _TWO_AT:
        return size // _ONE
    if size < _THREE_AT:
        return TWO_BYTES_FROM + (size - _TWO_AT) // _TWO
    return THREE_BYTES_FROM + (size - _THREE_AT) // _THREE


@part
def is_filler(data: Octets, attributes: int, at: int, end: int) -> bool:
    """Of a record whose key begins at `at`: neither key, value nor headers, and the mark."""
    if attributes != FILLER_MARK:
        return False
    key, at = read_varint(data, at, end)
    if at == NO_NUMBER or key != _NULL:
        return False
    value, at = read_varint(data, at, end)
    if at == NO_NUMBER or value != _NULL:
        return False
    headers, at = read_varint(data, at, end)
    return headers == 0 and at == end


@kernel(types.UniTuple(I64, 2)(READ, I64, I64))
def find_fillers(data: Octets, first: int, stop: int) -> tuple[int, int]:
    """How many records of plain batches are fillers at offsets in [first, stop), and the last one's offset (-1: none).
    BROKEN instead of the number where a batch cannot be read."""
    cursor = new_cursor()
    count = 0
    last = -1
    while True:
        found = next_record(data, cursor, first, stop)
        if found == NO_MORE:
            return count, last
        if found != FOUND:
            return BROKEN, -1
        if is_filler(data, cursor[ATTRIBUTES], cursor[REST], cursor[REST_END]):
            count += 1
            last = cursor[OFFSET]
