"""The columns of the table that `scan` fills, for it and for who reads it; no numba.

The columns from BASE_OFFSET on are the fields of a batch header but its magic, in their order.
"""

from __future__ import annotations

AT = 0
BATCHES = 1
VERIFIED = 2
OLD = 3
BASE_OFFSET = 4
LENGTH = 5
LEADER_EPOCH = 6
CHECKSUM = 7
ATTRIBUTES = 8
LAST_OFFSET_DELTA = 9
BASE_TIMESTAMP = 10
MAX_TIMESTAMP = 11
PRODUCER_ID = 12
PRODUCER_EPOCH = 13
BASE_SEQUENCE = 14
COUNT = 15
COLUMNS = 16
