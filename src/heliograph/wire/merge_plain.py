"""The records of uncompressed runs written as those of one batch, up to a size that is kept to the byte.

The kernel is called once for each run: runs may lie in the buffers of several fetch answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from heliograph.wire.batch_layout import HEADER_BYTES
from heliograph.wire.kernels import progress as of
from heliograph.wire.kernels.loading import Kernels
from heliograph.wire.plain import not_its_records
from heliograph.wire.runs import Run

NO_LIMIT = 2**62
# What a record can grow by: 9 bytes of timestamp delta, 4 of offset delta, 4 of its own size.
GROWTH_BYTES = 17


class Joined(NamedTuple):
    """A batch whose header is still to be written, and what is in it."""

    batch: memoryview
    batches: int
    records: int
    base_timestamp: int
    max_timestamp: int
    runs: int
    rest: Run | None


def join_plain(kernels: Kernels, runs: Sequence[Run], limit_bytes: int, max_records: int) -> Joined | None:
    bound = HEADER_BYTES + sum(len(run.view) + GROWTH_BYTES * run.header.records_count for run in runs)
    target = np.empty(min(limit_bytes, bound), np.uint8)
    progress = new_progress()
    whole = batches = records = 0
    rest = None
    for run in runs:
        batches, records = int(progress[of.BATCHES]), int(progress[of.RECORDS])
        progress[of.READ_AT] = 0
        well = kernels.join(np.frombuffer(run.view, np.uint8), target, progress, max_records, NO_LIMIT)
        read = int(progress[of.READ_AT])
        if read < len(run.view):
            if not well and not progress[of.BATCHES]:
                raise not_its_records(run.header.base_offset)
            if read:
                taken = int(progress[of.BATCHES]) - batches
                rest = run.after(batches=taken, records=int(progress[of.RECORDS]) - records, size_bytes=read)
            break
        whole += 1
    if not progress[of.BATCHES]:
        return None
    written, batches, records, base_timestamp, max_timestamp = progress[of.WRITTEN_TO :].tolist()
    batch = target[:written].data
    return Joined(batch, batches, records, base_timestamp, max_timestamp, whole, rest)


def new_progress() -> npt.NDArray[np.int64]:
    progress = np.zeros(of.NUMBERS, np.int64)
    progress[of.WRITTEN_TO] = HEADER_BYTES
    return progress
