"""The records of compressed runs as those of one batch with the same codec.

How large the result is shows only when it is compressed. One batch compresses no worse than its parts as a rule, so
parts are taken up to the limit; if the result is too large, fewer are taken. What is decompressed at a time is
bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from heliograph.model.errors import ProtocolError
from heliograph.wire.batch import BatchHeader, Codec, split_batches
from heliograph.wire.batch_layout import HEADER_BYTES
from heliograph.wire.codecs import compress
from heliograph.wire.kernels import progress as of
from heliograph.wire.kernels.loading import Kernels
from heliograph.wire.merge_plain import GROWTH_BYTES, Joined, new_progress
from heliograph.wire.plain import not_its_records, plain_parts
from heliograph.wire.runs import Run

# For one merged batch, which is made in one go, on the event loop, from memory that nobody accounts for: so many bytes
# of records, and so many batches, that others wait for less than 10 ms (`python -m bench.kernels`).
MOST_BATCHES = 400
INFLATED_BYTES = {Codec.LZ4: 4 << 20, Codec.SNAPPY: 4 << 20, Codec.ZSTD: 1 << 20, Codec.GZIP: 256 << 10}
_LESS = 0.9  # of what would fit if fewer batches compressed as well as many: they do not quite


def join_compressed(
    kernels: Kernels, runs: Sequence[Run], limit_bytes: int, max_records: int
) -> Joined | None:
    batches = list(islice(_batches(runs, limit_bytes, max_records), MOST_BATCHES))
    if not batches:
        return None
    codec = batches[0][0].codec
    plain = _inflate(batches, INFLATED_BYTES[codec])
    records = sum(header.records_count for header, _ in batches)
    target = np.empty(HEADER_BYTES + len(plain) + GROWTH_BYTES * records, np.uint8)
    allowed = len(batches)
    while True:
        progress = new_progress()
        well = kernels.join(plain, target, progress, max_records, allowed)
        taken = int(progress[of.BATCHES])
        if not taken:
            if not well:
                raise not_its_records(batches[0][0].base_offset)
            return None
        body = compress(codec, target[HEADER_BYTES : int(progress[of.WRITTEN_TO])].data)
        size = HEADER_BYTES + len(body)
        if size <= limit_bytes:
            break
        if taken == 1:
            return None
        allowed = max(1, min(taken - 1, int(taken * limit_bytes / size * _LESS)))
    whole, rest = _left(runs, batches[:taken])
    base_timestamp, max_timestamp = progress[of.BASE_TIMESTAMP :].tolist()
    batch = memoryview(bytearray(HEADER_BYTES) + body)
    return Joined(batch, taken, int(progress[of.RECORDS]), base_timestamp, max_timestamp, whole, rest)


def _batches(
    runs: Sequence[Run], limit_bytes: int, max_records: int
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Those that may fit, by what they have now; the first in any case."""
    size = HEADER_BYTES
    records = 0
    for run in runs:
        for header, batch in split_batches(run.view):
            size += len(batch) - HEADER_BYTES
            records += header.records_count
            if records > max_records or (size > limit_bytes and records > header.records_count):
                return
            yield header, batch


def _inflate(batches: list[tuple[BatchHeader, memoryview]], limit_bytes: int) -> npt.NDArray[np.uint8]:
    """Plain batches one behind the other. `batches` is cut to those that are there."""
    parts: list[bytearray | memoryview] = []
    size = 0
    for nth, (header, batch) in enumerate(batches):
        try:
            plain = plain_parts(header, batch, limit_bytes)
        except ProtocolError:
            if not nth:
                raise
            del batches[nth:]
            break
        size += sum(map(len, plain))
        if nth and size > limit_bytes:
            del batches[nth:]
            break
        parts.extend(plain)
    return np.frombuffer(b"".join(parts), np.uint8)


def _left(runs: Sequence[Run], taken: Sequence[tuple[BatchHeader, memoryview]]) -> tuple[int, Run | None]:
    """How many runs were taken wholly, and what is left of the next one if some of it was taken."""
    first = 0
    for whole, run in enumerate(runs):
        mine = taken[first : first + run.batches]
        if len(mine) < run.batches:
            records = sum(header.records_count for header, _ in mine)
            size_bytes = sum(len(batch) for _, batch in mine)
            return whole, run.after(
                batches=len(mine), records=records, size_bytes=size_bytes
            ) if mine else None
        first += run.batches
    return len(runs), None
