"""The numbers that `join` goes on from and leaves behind; no numba."""

from __future__ import annotations

READ_AT = 0
WRITTEN_TO = 1
BATCHES = 2
RECORDS = 3
BASE_TIMESTAMP = 4
MAX_TIMESTAMP = 5
NUMBERS = 6
