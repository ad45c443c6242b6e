"""The kernel that writes a batch without holes: the source's records at their offsets, fillers at all others.

A record keeps its attributes, key, value and headers byte by byte, and its time: its timestamp delta counts from the
fillers' time and is negative where the record is older. Fillers are copied from encoded ones, all that follow each
other in one go. Nothing is trusted but that arrays are arrays, and that the fillers are encoded well.
"""

from __future__ import annotations

from heliograph.wire.batch_layout import HEADER_BYTES
from heliograph.wire.kernels.compiler import I64, NUMBERS, READ, WRITE, Numbers, Octets, kernel
from heliograph.wire.kernels.cursor import (
    ATTRIBUTES,
    FOUND,
    NO_MORE,
    OFFSET,
    REST,
    REST_END,
    TIMESTAMP,
    new_cursor,
    next_record,
)
from heliograph.wire.kernels.density import (
    BROKEN,
    END,
    FULL,
    MAX_TIMESTAMP,
    MOST_OFFSETS,
    OFFSETS,
    RECORDS,
    WRITTEN_TO,
)
from heliograph.wire.kernels.fillers import filler_at, fillers_in
from heliograph.wire.kernels.memory import copy, store8
from heliograph.wire.kernels.varints import varint_size, write_varint


@kernel(I64(READ, READ, WRITE, NUMBERS, I64, I64, I64))
def densify(
    source: Octets, fillers: Octets, target: Octets, numbers: Numbers, first: int, stop: int, filler_time: int
) -> int:
    """Writes the offsets [first, stop) behind the place of a header, as far as there is room. `source` is plain
    batches, `fillers` encoded ones from offset delta 0 on. How it ended: one of density.py."""
    room = len(target)
    wanted = stop - first
    if wanted < 0 or wanted > MOST_OFFSETS or filler_at(wanted) > len(fillers) or room < HEADER_BYTES:
        return BROKEN
    cursor = new_cursor()
    numbers[OFFSETS] = numbers[RECORDS] = 0
    numbers[WRITTEN_TO] = HEADER_BYTES
    while True:
        found = next_record(source, cursor, first, stop)
        if found != FOUND and found != NO_MORE:
            return BROKEN
        delta = numbers[OFFSETS]
        to = numbers[WRITTEN_TO]
        hole_end = cursor[OFFSET] - first if found == FOUND else wanted
        if delta < hole_end:
            begin = filler_at(delta)
            end = min(hole_end, fillers_in(begin + room - to))
            if end > delta:
                size = filler_at(end) - begin
                copy(target, to, fillers, begin, size)
                if delta == 0:
                    numbers[MAX_TIMESTAMP] = filler_time
                numbers[MAX_TIMESTAMP] = max(numbers[MAX_TIMESTAMP], filler_time)
                to += size
                numbers[OFFSETS] = end
                numbers[WRITTEN_TO] = to
            if end < hole_end:
                return FULL
        if found == NO_MORE:
            return END
        timestamp = cursor[TIMESTAMP]
        timestamp_delta = timestamp - filler_time
        rest = cursor[REST_END] - cursor[REST]
        size = 1 + varint_size(timestamp_delta) + varint_size(hole_end) + rest
        if to + varint_size(size) + size > room:
            return FULL
        to = write_varint(target, to, size)
        store8(target, to, cursor[ATTRIBUTES])
        to = write_varint(target, to + 1, timestamp_delta)
        to = write_varint(target, to, hole_end)
        copy(target, to, source, cursor[REST], rest)
        if hole_end == 0:
            numbers[MAX_TIMESTAMP] = timestamp
        numbers[MAX_TIMESTAMP] = max(numbers[MAX_TIMESTAMP], timestamp)
        numbers[OFFSETS] = hole_end + 1
        numbers[RECORDS] += 1
        numbers[WRITTEN_TO] = to + rest
