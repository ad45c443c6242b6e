"""Whether the kernels that were loaded do what they should: two batches whose result is known.

Machine code comes from a cache that another program or CPU may have filled, and numba can be told not to compile at
all. What fails here is not used: batches then go as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from heliograph.wire.kernels import progress as of
from heliograph.wire.kernels.rows import BASE_OFFSET, BATCHES, COLUMNS, COUNT, VERIFIED
from heliograph.wire.kernels.verdicts import EQUAL

if TYPE_CHECKING:
    from heliograph.wire.kernels.loading import Kernels

# One record each, at offsets 7 and 8; the second is older and has a header.
_BATCHES = bytes.fromhex(
    "00000000000000070000003e0000000002b0b5ca8400000000000000000000000003e800000000000003e8ffffffffffffffffff"
    "ffffffffff0000000118000000026b0a666972737400"
    "00000000000000080000004100000000020c52fbea00000000000000000000000003de00000000000003deffffffffffffffffff"
    "ffffffffff000000011e000000010c7365636f6e6402026801"
)
_FIRST_BYTES = 74
_JOINED = bytes.fromhex("18000000026b0a6669727374001e001302010c7365636f6e6402026801")


def prove(kernels: Kernels) -> None:
    data = np.frombuffer(_BATCHES, np.uint8)
    rows = np.zeros((2, COLUMNS), np.int64)
    _demand("scan", kernels.scan(data, 0, 1000, 1000, 0, -2, rows) == (1, len(data)))
    _demand("scan", rows[0, [BATCHES, VERIFIED, BASE_OFFSET, COUNT]].tolist() == [2, 1, 7, 2])
    damaged = data.copy()
    damaged[-1] ^= 1
    kernels.scan(damaged, 0, 1000, 1000, 0, -2, rows)
    _demand("scan", rows[:, VERIFIED].tolist() == [1, 0])
    target = np.zeros(len(_JOINED), np.uint8)
    progress = np.zeros(of.NUMBERS, np.int64)
    _demand("join", bool(kernels.join(data, target, progress, 9, 9)))
    _demand("join", progress.tolist() == [len(data), len(_JOINED), 2, 2, 1000, 1000])
    _demand("join", target.tobytes() == _JOINED)
    _demand("match", kernels.match(data, data, 7, 9) == (EQUAL, 9))
    _demand("match", kernels.match(data, data[:_FIRST_BYTES], 7, 9) != (EQUAL, 9))
    columns = np.zeros((7, 1), np.int64)
    headers = np.zeros((4, 1), np.int64)
    _demand("split", kernels.split(data[_FIRST_BYTES:], columns, headers) == 1)
    _demand("split", columns[:4, 0].tolist() == [0, 990, 66, -1])


def _demand(kernel: str, right: bool) -> None:
    if not right:
        raise RuntimeError(f"the kernel {kernel} does not do what it should on this machine")
