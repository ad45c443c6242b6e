"""The kernel that writes a dense stretch of a plain batch's records as those of a batch of its own: a *piece*.

A record keeps its attributes, key, value and headers byte by byte. Its offset delta and timestamp delta count from the
piece's first record; with log append time all records have the batch's. A time outside of what is allowed is replaced
by the nearest one that is, but for -1, which says that there is none. Nothing is trusted but that source and target are
arrays and that the source is as long as a header.
"""

from __future__ import annotations

from heliograph.wire.batch_layout import (
    ATTRIBUTES_AT,
    BASE_TIMESTAMP_AT,
    COUNT_AT,
    LAST_OFFSET_DELTA_AT,
    LOG_APPEND_TIME,
    MAX_TIMESTAMP_AT,
)
from heliograph.wire.kernels.compiler import I64, NUMBERS, READ, WRITE, Numbers, Octets, kernel
from heliograph.wire.kernels.memory import copy, load16, load32, load64, store8
from heliograph.wire.kernels.pieces import (
    BASE_TIMESTAMP,
    END,
    FIRST_DELTA,
    FULL,
    HOLE,
    LAST_DELTA,
    LOWERED,
    MAX_TIMESTAMP,
    NO_EARLIEST,
    RAISED,
    READ_AT,
    RECORDS,
    WRITTEN_TO,
)
from heliograph.wire.kernels.pieces import BROKEN as NOT_RECORDS
from heliograph.wire.kernels.pieces import READ as RECORDS_READ
from heliograph.wire.kernels.records import read_head
from heliograph.wire.kernels.varints import BROKEN, varint_size, write_varint

_NO_TIME = -1


@kernel(I64(READ, WRITE, NUMBERS, I64, I64, I64, I64))
def carve(
    source: Octets,
    target: Octets,
    progress: Numbers,
    first_delta: int,
    max_records: int,
    earliest: int,
    latest: int,
) -> int:
    """Adds records of `source`, one plain batch, to the piece in `target`, from `progress[READ_AT]` on. Those with an
    offset delta below `first_delta` are passed over. A piece with an earliest time has that for its base timestamp, so
    that a record that has it can be known again (matching.py). How it ended: one of pieces.py."""
    end = len(source)
    room = len(target)
    stamped = load16(source, ATTRIBUTES_AT) & LOG_APPEND_TIME != 0
    batch_timestamp = load64(source, MAX_TIMESTAMP_AT if stamped else BASE_TIMESTAMP_AT)
    last_delta = load32(source, LAST_OFFSET_DELTA_AT)
    count = load32(source, COUNT_AT)
    while progress[RECORDS_READ] < count:
        at = progress[READ_AT]
        attributes, timestamp_delta, offset_delta, rest_at, record_end = read_head(source, at, end)
        if rest_at == BROKEN or offset_delta <= progress[LAST_DELTA] or offset_delta > last_delta:
            return NOT_RECORDS
        if offset_delta >= first_delta:
            records = progress[RECORDS]
            if records > 0 and offset_delta != progress[FIRST_DELTA] + records:
                return HOLE
            if records == max_records:
                return FULL
            timestamp = batch_timestamp if stamped else batch_timestamp + timestamp_delta
            lowered = timestamp > latest
            raised = timestamp < earliest and timestamp != _NO_TIME
            if lowered:
                timestamp = latest
            elif raised:
                timestamp = earliest
            if records == 0:
                progress[BASE_TIMESTAMP] = timestamp if earliest == NO_EARLIEST else earliest
            timestamp_delta = timestamp - progress[BASE_TIMESTAMP]
            rest = record_end - rest_at
            size = 1 + varint_size(timestamp_delta) + varint_size(records) + rest
            to = progress[WRITTEN_TO]
            if size > room or to + varint_size(size) + size > room:
                return FULL
            to = write_varint(target, to, size)
            store8(target, to, attributes)
            to = write_varint(target, to + 1, timestamp_delta)
            to = write_varint(target, to, records)
            copy(target, to, source, rest_at, rest)
            progress[WRITTEN_TO] = to + rest
            if records == 0:
                progress[FIRST_DELTA] = offset_delta
                progress[MAX_TIMESTAMP] = timestamp
            progress[MAX_TIMESTAMP] = max(progress[MAX_TIMESTAMP], timestamp)
            progress[LOWERED] += 1 if lowered else 0
            progress[RAISED] += 1 if raised else 0
            progress[RECORDS] = records + 1
        progress[LAST_DELTA] = offset_delta
        progress[RECORDS_READ] += 1
        progress[READ_AT] = record_end
    return END if progress[READ_AT] == end else NOT_RECORDS
