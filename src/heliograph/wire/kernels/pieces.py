"""The numbers that `carve` goes on from and leaves behind, and how it ends; no numba."""

from __future__ import annotations

READ_AT = 0  # where the next record of the source is
READ = 1  # records that were read, or passed over
LAST_DELTA = 2  # the offset delta of the last of them; -1 before the first
WRITTEN_TO = 3
RECORDS = 4  # in the piece
FIRST_DELTA = 5  # the source's offset delta of the piece's first record
BASE_TIMESTAMP = 6
MAX_TIMESTAMP = 7
LOWERED = 8  # records of the piece whose time was above the latest that is allowed
RAISED = 9  # below the earliest
NUMBERS = 10

# How a call ends. The record at READ_AT is not in the piece, in any case but the first.
END = 0  # all records were read
HOLE = 1  # the next one does not follow the last one
FULL = 2  # the next one does not fit, or is one too many
BROKEN = -1  # what is at READ_AT is not what a producer writes

# Times that bound nothing.
NO_EARLIEST = -(2**63)
NO_LATEST = 2**63 - 1
