"""Whether two logs hold the same records, however they are put into batches (P1, P2, P4, P5).

A record is its offset, timestamp, attributes, key, value and headers; batches, codecs, producers and timestamp types
are not compared. Control batches hold no records. Who compares says where one log may differ from the other: records
that compaction took, and times that were clamped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heliograph.model.errors import CorruptBatch
from heliograph.wire.codecs import DEFAULT_LIMIT_BYTES
from heliograph.wire.kernels.loading import Kernels
from heliograph.wire.kernels.verdicts import COMPRESSED, CORRUPT_A, CORRUPT_B, EQUAL
from heliograph.wire.plain import plain_batches


@dataclass(frozen=True, slots=True, kw_only=True)
class Differs:
    """`offset` is the first one at which the records differ, or only one side has one."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """`clamped`: a time of the first log may be what a limit left of the second's (wire/recode.py). `holes`: whether
    records that the other one holds may be missing, in the first log and in the second."""

    clamped: bool = False
    holes: tuple[bool, bool] = (False, False)


NOTHING = Allowed()


def first_difference(
    kernels: Kernels,
    a: Iterable[memoryview],
    b: Iterable[memoryview],
    *,
    first_offset: int,
    next_offset: int,
    allowed: Allowed = NOTHING,
    names: tuple[str, str] = ("the first of two logs", "the second of two logs"),
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
) -> Differs | None:
    """Of the records in [first_offset, next_offset); None: they are equal. `a` and `b` are whole batches in order, as
    many in a view as there are. Their checksums are not looked at; what is no batch is a `CorruptBatch`. `names`: what
    errors call them."""
    of_a, of_b = list(a), list(b)
    how = (first_offset, next_offset, allowed.clamped, *allowed.holes)
    verdict, offset = kernels.match(_joined(of_a), _joined(of_b), *how)
    if verdict == COMPRESSED:
        plain_a, plain_b = (
            plain_batches(of_a, limit_bytes=limit_bytes),
            plain_batches(of_b, limit_bytes=limit_bytes),
        )
        verdict, offset = kernels.match(_joined([plain_a]), _joined([plain_b]), *how)
    if verdict in (CORRUPT_A, CORRUPT_B):
        raise CorruptBatch(f"{names[verdict == CORRUPT_B]} holds a batch whose records cannot be read")
    return None if verdict == EQUAL else Differs(offset=int(offset))


def _joined(views: Sequence[memoryview]) -> npt.NDArray[np.uint8]:
    return np.frombuffer(views[0] if len(views) == 1 else b"".join(views), np.uint8)
