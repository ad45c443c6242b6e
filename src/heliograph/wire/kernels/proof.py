"""Whether the kernels that were loaded do what they should: two batches whose result is known.

Machine code comes from a cache that another program or CPU may have filled, and numba can be told not to compile at
all. What fails here is not used: batches then go as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from heliograph.wire.batch_layout import HEADER_BYTES
from heliograph.wire.kernels import pieces, survey
from heliograph.wire.kernels import progress as of
from heliograph.wire.kernels.dense_proof import prove_dense
from heliograph.wire.kernels.rows import BASE_OFFSET, BATCHES, COLUMNS, COUNT, VERIFIED
from heliograph.wire.kernels.verdicts import DIFFERENT, EQUAL

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
# One of format 1, at offset 5 and time 1000: key "k", value "v".
_MESSAGE = bytes.fromhex("000000000000000500000018e4e321bc010000000000000003e8000000016b0000000176")
_CONVERTED = bytes.fromhex("10000000026b027600")
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
    _demand("match", kernels.match(data, data, 7, 9, False, False, False) == (EQUAL, 9))
    first = data[:_FIRST_BYTES]
    _demand("match", kernels.match(data, first, 7, 9, False, False, False) == (DIFFERENT, 8))
    _demand("match", kernels.match(data, first, 7, 9, False, False, True) == (EQUAL, 9))
    columns = np.zeros((7, 1), np.int64)
    headers = np.zeros((4, 1), np.int64)
    _demand("split", kernels.split(data[_FIRST_BYTES:], columns, headers) == 1)
    _demand("split", columns[:4, 0].tolist() == [0, 990, 66, -1])
    _prove_carving(kernels, data[_FIRST_BYTES:])
    _prove_converting(kernels)
    prove_dense(kernels, data, _demand)


def _prove_carving(kernels: Kernels, data: npt.NDArray[np.uint8]) -> None:
    """The second batch by itself, with its time raised by two."""
    target = np.zeros(len(data), np.uint8)
    numbers = np.zeros(pieces.NUMBERS, np.int64)
    numbers[[pieces.READ_AT, pieces.LAST_DELTA]] = HEADER_BYTES, -1
    _demand("carve", kernels.carve(data, target, numbers, 0, 9, 992, pieces.NO_LATEST) == pieces.END)
    _demand("carve", numbers.tolist() == [len(data), 1, 0, len(data) - HEADER_BYTES, 1, 0, 992, 992, 0, 1])
    _demand("carve", target[: len(data) - HEADER_BYTES].tobytes() == data[HEADER_BYTES:].tobytes())


def _prove_converting(kernels: Kernels) -> None:
    message = np.frombuffer(_MESSAGE, np.uint8)
    numbers = np.zeros(survey.NUMBERS, np.int64)
    _demand("gather", kernels.gather(message, 0, 1, 1000, numbers) == 1)
    _demand("gather", numbers[: survey.BASE_TIMESTAMP].tolist() == [len(message), 1, 5, 5, 1000])
    damaged = message.copy()
    damaged[-1] ^= 1
    _demand("gather", kernels.gather(damaged, 0, 1, 1000, numbers) == 0)
    target = np.zeros(HEADER_BYTES + len(_CONVERTED), np.uint8)
    _demand("convert", kernels.convert(message, 1, target, False, 0, numbers) == 1)
    _demand("convert", target[HEADER_BYTES:].tobytes() == _CONVERTED)
    _demand("convert", numbers[survey.BASE_TIMESTAMP :].tolist() == [1000, len(target)])


def _demand(kernel: str, right: bool) -> None:
    if not right:
        raise RuntimeError(f"the kernel {kernel} does not do what it should on this machine")
