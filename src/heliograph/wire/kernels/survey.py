"""The numbers that `gather` and `convert` leave behind; no numba."""

from __future__ import annotations

END_AT = 0  # behind the last message
MESSAGES = 1
FIRST_OFFSET = 2
LAST_OFFSET = 3
MAX_TIMESTAMP = 4
BASE_TIMESTAMP = 5  # of `convert`: the first message's
WRITTEN_TO = 6  # of `convert`
NUMBERS = 7
