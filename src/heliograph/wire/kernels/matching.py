"""The kernel that compares the records of two sequences of plain batches, wherever their borders are.

It stops at a batch that is compressed, and leaves it to Python to decompress all that there is.
"""

from __future__ import annotations

import numpy as np
from numba import types

from heliograph.wire.batch_layout import (
    ATTRIBUTES_AT,
    BASE_OFFSET_LIMIT,
    BASE_TIMESTAMP_AT,
    CODEC_BITS,
    CONTROL,
    COUNT_AT,
    HEADER_BYTES,
    LAST_OFFSET_DELTA_AT,
    LENGTH_AT,
    LENGTH_COUNTS_FROM,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    MIN_LENGTH,
)
from heliograph.wire.kernels.compiler import I64, READ, Numbers, Octets, kernel, part
from heliograph.wire.kernels.memory import load8, load16, load32, load64
from heliograph.wire.kernels.records import read_head
from heliograph.wire.kernels.varints import BROKEN
from heliograph.wire.kernels.verdicts import COMPRESSED, CORRUPT_A, CORRUPT_B, DIFFERENT, EQUAL

# A cursor: where the next record or batch is, of the batch it is in, and what the last record was.
_AT, _BEHIND, _LEFT, _BASE_OFFSET, _TIMESTAMP, _STAMPED = 0, 1, 2, 3, 4, 5
_OFFSET, _RECORD_TIMESTAMP, _ATTRIBUTES, _REST, _REST_END = 6, 7, 8, 9, 10
_BASE_TIMESTAMP, _MAX_TIMESTAMP = 11, 12  # of the batch
_CURSOR = 13
_FOUND, _END, _CORRUPT, _COMPRESSED = 1, 0, -1, -2


@part
def _next_record(data: Octets, cursor: Numbers, first: int, stop: int) -> int:
    """The next record of [first, stop). Those of control batches are no records."""
    while True:
        while cursor[_LEFT] == 0:
            if cursor[_AT] != cursor[_BEHIND]:
                return _CORRUPT  # bytes behind the last record
            at = cursor[_AT]
            end = len(data)
            if at == end:
                return _END
            if end - at < HEADER_BYTES:
                return _CORRUPT
            length = load32(data, at + LENGTH_AT)
            behind = at + LENGTH_COUNTS_FROM + length
            count = load32(data, at + COUNT_AT)
            base_offset = load64(data, at)
            attributes = load16(data, at + ATTRIBUTES_AT)
            if load8(data, at + MAGIC_AT) != MAGIC or length < MIN_LENGTH or behind > end or count < 0:
                return _CORRUPT
            last_delta = load32(data, at + LAST_OFFSET_DELTA_AT)
            if last_delta < 0 or base_offset < 0 or base_offset >= BASE_OFFSET_LIMIT:
                return _CORRUPT
            next_offset = base_offset + last_delta + 1
            cursor[_BEHIND] = behind
            if attributes & CONTROL or next_offset <= first or base_offset >= stop:
                cursor[_AT] = behind
                continue
            if attributes & CODEC_BITS:
                return _COMPRESSED
            stamped = attributes & LOG_APPEND_TIME != 0
            cursor[_AT] = at + HEADER_BYTES
            cursor[_LEFT] = count
            cursor[_BASE_OFFSET] = base_offset
            cursor[_STAMPED] = 1 if stamped else 0
            cursor[_BASE_TIMESTAMP] = load64(data, at + BASE_TIMESTAMP_AT)
            cursor[_MAX_TIMESTAMP] = load64(data, at + MAX_TIMESTAMP_AT)
            cursor[_TIMESTAMP] = cursor[_MAX_TIMESTAMP if stamped else _BASE_TIMESTAMP]
        behind = cursor[_BEHIND]
        attributes, timestamp_delta, offset_delta, at, record_end = read_head(data, cursor[_AT], behind)
        if at == BROKEN:
            return _CORRUPT
        cursor[_AT] = record_end
        cursor[_LEFT] -= 1
        offset = cursor[_BASE_OFFSET] + offset_delta
        if offset <= cursor[_OFFSET]:
            return _CORRUPT  # offsets only grow
        cursor[_OFFSET] = offset
        if first <= offset < stop:
            stamped = cursor[_STAMPED] != 0
            cursor[_RECORD_TIMESTAMP] = cursor[_TIMESTAMP] + (0 if stamped else timestamp_delta)
            cursor[_ATTRIBUTES] = attributes
            cursor[_REST] = at
            cursor[_REST_END] = record_end
            return _FOUND


@part
def _same_rest(a: Octets, b: Octets, at_a: int, at_b: int, size: int) -> bool:
    done = 0
    while size - done >= 8:
        if load64(a, at_a + done) != load64(b, at_b + done):
            return False
        done += 8
    while done < size:
        if load8(a, at_a + done) != load8(b, at_b + done):
            return False
        done += 1
    return True


@part
def _is_clamped(cursor: Numbers, timestamp: int) -> bool:
    """Whether its record can have had this time before (carving.py): one that was lowered has the largest of its batch,
    one that was raised the base timestamp."""
    now = cursor[_RECORD_TIMESTAMP]
    lowered = now < timestamp and now == cursor[_MAX_TIMESTAMP]
    raised = now > timestamp and now == cursor[_BASE_TIMESTAMP]
    return lowered or raised  # type: ignore[no-any-return]


@kernel(types.UniTuple(I64, 2)(READ, READ, I64, I64, types.boolean, types.boolean, types.boolean))
def match(
    a: Octets, b: Octets, first: int, stop: int, clamped: bool, holes_a: bool, holes_b: bool
) -> tuple[int, int]:
    """EQUAL or not, and then the first offset of [first, stop) at which only one has a record, or another one.
    `clamped`: times of `a` may have been. `holes_a`, `holes_b`: records of that one may be missing."""
    of_a = np.zeros(_CURSOR, np.int64)
    of_b = np.zeros(_CURSOR, np.int64)
    of_a[_OFFSET] = of_b[_OFFSET] = -1
    next_a = next_b = True
    found_a = found_b = _END
    while True:
        if next_a:
            found_a = _next_record(a, of_a, first, stop)
        if next_b:
            found_b = _next_record(b, of_b, first, stop)
        if found_a == _COMPRESSED or found_b == _COMPRESSED:
            return COMPRESSED, 0
        if found_a == _CORRUPT:
            return CORRUPT_A, of_a[_AT]
        if found_b == _CORRUPT:
            return CORRUPT_B, of_b[_AT]
        if found_a == _END and found_b == _END:
            return EQUAL, stop
        only_a = found_b == _END or (found_a == _FOUND and of_a[_OFFSET] < of_b[_OFFSET])
        only_b = found_a == _END or (found_b == _FOUND and of_b[_OFFSET] < of_a[_OFFSET])
        next_a = not only_b
        next_b = not only_a
        if only_a:
            if not holes_b:
                return DIFFERENT, of_a[_OFFSET]
            continue
        if only_b:
            if not holes_a:
                return DIFFERENT, of_b[_OFFSET]
            continue
        size = of_a[_REST_END] - of_a[_REST]
        timestamp = of_b[_RECORD_TIMESTAMP]
        if (
            (of_a[_RECORD_TIMESTAMP] != timestamp and not (clamped and _is_clamped(of_a, timestamp)))
            or of_a[_ATTRIBUTES] != of_b[_ATTRIBUTES]
            or size != of_b[_REST_END] - of_b[_REST]
            or not _same_rest(a, b, of_a[_REST], of_b[_REST], size)
        ):
            return DIFFERENT, of_a[_OFFSET]
