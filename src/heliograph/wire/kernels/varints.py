"""Kafka's variable-length integers, signed (zigzag), inside kernels.

Reading stops at `end` and gives the place behind the number, or BROKEN: cut, or longer than its type allows.
"""

from __future__ import annotations

import numpy as np

from heliograph.wire.kernels.compiler import Octets, part
from heliograph.wire.kernels.memory import load8, store8

BROKEN = -1
_VARINT_BITS = 35  # 5 bytes
_VARLONG_BITS = 70  # 10 bytes


@part
def _read(data: Octets, at: int, end: int, bits: int) -> tuple[int, int]:
    raw = np.uint64(0)
    shift = 0
    while at < end and shift < bits:
        byte = load8(data, at)
        at += 1
        raw |= np.uint64(byte & 0x7F) << np.uint64(shift)
        if byte < 0x80:
            value = np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1))
            return value, at  # type: ignore[return-value]
        shift += 7
    return 0, BROKEN


@part
def read_varint(data: Octets, at: int, end: int) -> tuple[int, int]:
    """32 bits."""
    if at < end:  # most of them have one byte
        byte = load8(data, at)
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), at + 1
    value, behind = _read(data, at, end, _VARINT_BITS)
    if not -0x80000000 <= value <= 0x7FFFFFFF:
        return 0, BROKEN
    return value, behind


@part
def read_varlong(data: Octets, at: int, end: int) -> tuple[int, int]:
    """64 bits."""
    return _read(data, at, end, _VARLONG_BITS)


@part
def varint_size(value: int) -> int:
    raw = np.uint64((value << 1) ^ (value >> 63))
    size = 1
    while raw >= np.uint64(0x80):
        raw >>= np.uint64(7)
        size += 1
    return size


@part
def write_varint(data: Octets, at: int, value: int) -> int:
    """Of either width; the place behind it."""
    raw = np.uint64((value << 1) ^ (value >> 63))
    while raw >= np.uint64(0x80):
        store8(data, at, np.int64(raw & np.uint64(0x7F)) | 0x80)
        raw >>= np.uint64(7)
        at += 1
    store8(data, at, np.int64(raw))
    return at + 1
