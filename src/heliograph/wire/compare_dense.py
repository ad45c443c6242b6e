"""Whether a target batch of records and fillers (wire/dense.py) still fits the source's log (P1, P2, P4, P5).

    the source holds    a record          nothing, by compaction      a marker, or aborted records
    the target may hold the same record   a filler, or any record     a filler

A record that only the target holds is one that compaction took at the source since. What a record is, and what is not
compared, wire/compare.py says.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

import numpy as np

from heliograph.model.errors import CorruptBatch
from heliograph.wire.batch import BatchHeader
from heliograph.wire.codecs import DEFAULT_LIMIT_BYTES
from heliograph.wire.compare import Differs
from heliograph.wire.kernels.loading import Kernels
from heliograph.wire.kernels.verdicts import CORRUPT_A, CORRUPT_B, EQUAL
from heliograph.wire.plain import plain_batches


def dense_difference(
    kernels: Kernels,
    target: memoryview,
    source: Iterable[tuple[BatchHeader, memoryview]],
    *,
    first_offset: int,
    next_offset: int,
    holes: Container[int] = (),
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
) -> Differs | None:
    """The first offset of [first_offset, next_offset) at which they do not fit; None: they do. `target` is whole
    batches, `source` all of its batches that hold offsets in the range, in order. Those that begin at an offset in
    `holes`, and all control batches, hold nothing to copy, as for `dense_batch`. Checksums are not looked at; what
    cannot be read is a `CorruptBatch`."""
    barren: list[tuple[int, int]] = []
    views: list[memoryview] = []
    for header, view in source:
        if header.is_control or header.base_offset in holes:
            barren.append((header.base_offset, header.next_offset))
        else:
            views.append(view)
    verdict, offset = kernels.match_dense(
        np.frombuffer(plain_batches([target], limit_bytes=limit_bytes), np.uint8),
        np.frombuffer(plain_batches(views, limit_bytes=limit_bytes), np.uint8),
        np.array(barren, np.int64).reshape(-1, 2),
        first_offset,
        next_offset,
    )
    if verdict in (CORRUPT_A, CORRUPT_B):
        name = "the target" if verdict == CORRUPT_A else "the source"
        raise CorruptBatch(f"{name} holds a batch whose records cannot be read")
    return None if verdict == EQUAL else Differs(offset=int(offset))
