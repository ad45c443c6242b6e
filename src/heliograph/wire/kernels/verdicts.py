"""What `match` says; no numba."""

from __future__ import annotations

DIFFERENT = 0
EQUAL = 1
CORRUPT_A = -1
CORRUPT_B = -2
COMPRESSED = -3
