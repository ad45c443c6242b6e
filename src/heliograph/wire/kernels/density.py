"""What a filler record is made of, the numbers that `densify` leaves behind, and how it ends; no numba.

size | attributes 0x48 | timestamp delta 0 | offset delta | key -1 | value -1 | headers 0      all zigzag varints
"""

from __future__ import annotations

# The attributes of a record, which the protocol has no use for and no producer sets: a record that somebody wrote
# without key and value is not taken for a filler.
FILLER_MARK = 0x48
MOST_OFFSETS = 100_000  # of one batch: a broker makes an object of each record while it checks a batch

# How many bytes the offset deltas from one number to another take: zigzag leaves 6 bits of the first for the number.
TWO_BYTES_FROM = 1 << 6
THREE_BYTES_FROM = 1 << 13
FIXED_BYTES = 6  # of a filler: all but its offset delta

OFFSETS = 0  # that are in the batch
RECORDS = 1  # those of them that are the source's
WRITTEN_TO = 2
MAX_TIMESTAMP = 3  # of all records, fillers included
NUMBERS = 4

END = 0  # all offsets are in the batch
FULL = 1  # the next one does not fit
BROKEN = -1  # a source batch is not what a producer writes
