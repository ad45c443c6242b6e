"""The kernel that compares a batch of records and fillers with the source's plain batches.

Where the source holds a record the target must hold the same one. Where it holds none the target may hold whatever it
likes, a filler or a record that compaction took at the source since; but in a *barren* range, of a transaction's marker
or of aborted records, nothing but fillers.
"""

from __future__ import annotations

from numba import types

from heliograph.wire.kernels.compiler import I64, READ, TABLE, Octets, Table, kernel
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
    same_rest,
)
from heliograph.wire.kernels.fillers import is_filler
from heliograph.wire.kernels.verdicts import CORRUPT_A, CORRUPT_B, DIFFERENT, EQUAL


@kernel(types.UniTuple(I64, 2)(READ, READ, TABLE, I64, I64))
def match_dense(target: Octets, source: Octets, barren: Table, first: int, stop: int) -> tuple[int, int]:
    """EQUAL or not, and then the first offset of [first, stop) at which they differ. `barren`: ranges in order, a row
    each, at which the source holds no record."""
    ours = new_cursor()
    theirs = new_cursor()
    row = 0
    found = next_record(source, theirs, first, stop)
    while True:
        if found != FOUND and found != NO_MORE:
            return CORRUPT_B, 0
        held = next_record(target, ours, first, stop)
        if held != FOUND and held != NO_MORE:
            return CORRUPT_A, 0
        if held == NO_MORE:
            return (EQUAL, stop) if found == NO_MORE else (DIFFERENT, theirs[OFFSET])
        offset = ours[OFFSET]
        if found == FOUND and theirs[OFFSET] < offset:
            return DIFFERENT, theirs[OFFSET]
        if found == NO_MORE or offset < theirs[OFFSET]:
            while row < len(barren) and barren[row, 1] <= offset:
                row += 1
            if (
                row < len(barren)
                and barren[row, 0] <= offset
                and not is_filler(target, ours[ATTRIBUTES], ours[REST], ours[REST_END])
            ):
                return DIFFERENT, offset
            continue
        size = ours[REST_END] - ours[REST]
        if (
            ours[TIMESTAMP] != theirs[TIMESTAMP]
            or ours[ATTRIBUTES] != theirs[ATTRIBUTES]
            or size != theirs[REST_END] - theirs[REST]
            or not same_rest(target, source, ours[REST], theirs[REST], size)
        ):
            return DIFFERENT, offset
        found = next_record(source, theirs, first, stop)
