"""Whether the kernels for dense batches do what they should: the part of proof.py that is about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from heliograph.wire.batch_layout import HEADER_BYTES
from heliograph.wire.kernels import density as of
from heliograph.wire.kernels.verdicts import DIFFERENT, EQUAL

if TYPE_CHECKING:
    from heliograph.wire.kernels.loading import Kernels

_Octets = npt.NDArray[np.uint8]
_FILLERS = bytes.fromhex("0c4800000101000c4800020101000c4800040101000c480006010100")
# Offsets 6 to 9: a filler, both records of the batches given, another filler; their time is 1000.
_DENSE = bytes.fromhex(
    "0c48000001010018000002026b0a6669727374001e001304010c7365636f6e64020268010c480006010100"
)
# A header for them as a plain batch: offset, length, magic, last offset delta, times, count.
_HEADER = bytes.fromhex(
    "00000000000000060000005c00000000020000000000000000000300000000000003e800000000000003e8ffffffffffffffffff"
    "ffffffffff00000004"
)


def prove_dense(kernels: Kernels, data: _Octets, demand: Callable[[str, bool], None]) -> None:
    """`data`: the two batches of proof.py, with one record each at offsets 7 and 8."""
    target = np.zeros(HEADER_BYTES + len(_DENSE), np.uint8)
    numbers = np.zeros(of.NUMBERS, np.int64)
    fillers = np.frombuffer(_FILLERS, np.uint8)
    demand("densify", kernels.densify(data, fillers, target, numbers, 6, 10, 1000) == of.END)
    demand("densify", numbers.tolist() == [4, 2, len(target), 1000])
    demand("densify", target[HEADER_BYTES:].tobytes() == _DENSE)
    target[:HEADER_BYTES] = np.frombuffer(_HEADER, np.uint8)
    demand("find_fillers", kernels.find_fillers(target, 6, 10) == (2, 9))
    demand("find_fillers", kernels.find_fillers(target, 7, 9) == (0, -1))
    nowhere = np.zeros((0, 2), np.int64)
    demand("match_dense", kernels.match_dense(target, data, nowhere, 6, 10) == (EQUAL, 10))
    target[-8] ^= 1  # the last byte of the second record
    demand("match_dense", kernels.match_dense(target, data, nowhere, 6, 10) == (DIFFERENT, 8))
