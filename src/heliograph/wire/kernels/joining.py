"""The kernel that writes the records of several plain batches as those of one.

A record keeps its attributes, key, value and headers byte by byte; its offset delta and timestamp delta count from the
new batch's first record. Nothing is trusted but that source and target are arrays: the checksum says that bytes are as
they were written, not that they were written well.
"""

from __future__ import annotations

from numba import types

from heliograph.wire.batch_layout import (
    ATTRIBUTES_AT,
    BASE_TIMESTAMP_AT,
    COUNT_AT,
    HEADER_BYTES,
    LENGTH_AT,
    LENGTH_COUNTS_FROM,
    LOG_APPEND_TIME,
    MAX_TIMESTAMP_AT,
    MIN_LENGTH,
)
from heliograph.wire.kernels.compiler import I64, NUMBERS, READ, WRITE, Numbers, Octets, kernel
from heliograph.wire.kernels.memory import copy, load16, load32, load64, store8
from heliograph.wire.kernels.progress import (
    BASE_TIMESTAMP,
    BATCHES,
    MAX_TIMESTAMP,
    READ_AT,
    RECORDS,
    WRITTEN_TO,
)
from heliograph.wire.kernels.records import read_head
from heliograph.wire.kernels.varints import BROKEN, varint_size, write_varint


@kernel(types.boolean(READ, WRITE, NUMBERS, I64, I64))
def join(source: Octets, target: Octets, progress: Numbers, max_records: int, max_batches: int) -> bool:
    """Appends whole batches of `source` from `progress[READ_AT]` on, until one does not fit what is left of the target
    or is one too many. False: the batch at READ_AT is not what a producer writes; all before it is there."""
    at = progress[READ_AT]
    end = len(source)
    room = len(target)
    while at < end:
        if end - at < HEADER_BYTES:
            return False
        length = load32(source, at + LENGTH_AT)
        count = load32(source, at + COUNT_AT)
        behind = at + LENGTH_COUNTS_FROM + length
        if length < MIN_LENGTH or behind > end or count < 1:
            return False
        records = progress[RECORDS]
        if records + count > max_records or progress[BATCHES] == max_batches:
            return True
        stamped = load16(source, at + ATTRIBUTES_AT) & LOG_APPEND_TIME != 0
        batch_timestamp = load64(source, at + (MAX_TIMESTAMP_AT if stamped else BASE_TIMESTAMP_AT))
        base_timestamp = progress[BASE_TIMESTAMP]
        max_timestamp = progress[MAX_TIMESTAMP]
        to = progress[WRITTEN_TO]
        read = at + HEADER_BYTES
        for nth in range(count):
            attributes, timestamp_delta, offset_delta, rest_at, record_end = read_head(source, read, behind)
            if rest_at == BROKEN or offset_delta != nth:
                return False
            timestamp = batch_timestamp if stamped else batch_timestamp + timestamp_delta
            if records == 0:
                base_timestamp = max_timestamp = timestamp
            max_timestamp = max(max_timestamp, timestamp)
            timestamp_delta = timestamp - base_timestamp
            rest = record_end - rest_at
            size = 1 + varint_size(timestamp_delta) + varint_size(records) + rest
            if to + varint_size(size) + size > room:
                return True
            to = write_varint(target, to, size)
            store8(target, to, attributes)
            to = write_varint(target, to + 1, timestamp_delta)
            to = write_varint(target, to, records)
            copy(target, to, source, rest_at, rest)
            to += rest
            records += 1
            read = record_end
        if read != behind:
            return False
        progress[BATCHES] += 1
        progress[RECORDS] = records
        progress[WRITTEN_TO] = to
        progress[BASE_TIMESTAMP] = base_timestamp
        progress[MAX_TIMESTAMP] = max_timestamp
        at = behind
        progress[READ_AT] = at
    return True
