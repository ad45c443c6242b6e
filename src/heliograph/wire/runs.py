"""A fetch answer as runs: consecutive batches that may be merged together, and all others each by itself.

Owns which batches stand together (`kernels/scanning.py` is the rule) and what is said of them. Must not know what
becomes of a run. Until the kernels are loaded every batch is a run of its own. Messages of the formats before Kafka
0.11 that are not compressed stand together, too: there each is a record (wire/old_messages.py).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import NamedTuple

import numpy as np

from heliograph.wire.batch import BatchHeader, Codec, read_header, whole_batch_at
from heliograph.wire.batch_layout import CODEC_BITS, DELETE_HORIZON, LENGTH_COUNTS_FROM, MAGIC
from heliograph.wire.kernels import survey
from heliograph.wire.kernels.loading import Kernels, loaded
from heliograph.wire.kernels.rows import COLUMNS

# What is larger is never merged (copier/merging_rule.py has the reason), so it need not be looked at for that.
PLAIN_BYTES = 128 << 10
PACKED_BYTES = 16 << 10
NO_ID_PREFIX = -(2**31)  # no producer id has it: they are never below -1
_OLDEST = -(2**63)
_ROWS = 64  # of the table that the kernel fills: a call for each so many runs, 10 KB
_OTHERS = 1  # batches as large as the first that there must be room for behind it


class Run(NamedTuple):
    """`header` is the batch's own where it is one. Of several it describes them as if they were one batch: from the
    first one's base offset and timestamp to the last one's end, with the largest timestamp, all records, the first
    one's producer and checksum. `mergeable`: small, dense and ordinary, as far as the header tells. `verified`: the
    checksums were found to be right; `merge` does that where it is still due. `old`: no record is as young as was
    asked for."""

    header: BatchHeader
    batches: int
    view: memoryview
    mergeable: bool
    verified: bool
    old: bool

    def apart(self) -> tuple[Run, Run]:
        """The first of several batches, and the others."""
        header = read_header(self.view)
        size_bytes = header.size_bytes
        first = Run(header, 1, self.view[:size_bytes], self.mergeable, self.verified, self.old)
        rest = self.after(batches=1, records=header.records_count, size_bytes=size_bytes)
        assert rest is not None
        return first, rest

    def after(self, *, batches: int, records: int, size_bytes: int) -> Run | None:
        """What is left when that many were taken from its beginning. Its `max_timestamp` may be that of a batch that
        was taken, unless only one is left."""
        if batches == self.batches:
            return None
        view = self.view[size_bytes:]
        header = read_header(view)
        left = self.batches - batches
        if left > 1:
            header = header._replace(
                batch_length=len(view) - LENGTH_COUNTS_FROM,
                attributes=self.header.attributes,
                last_offset_delta=self.header.next_offset - header.base_offset - 1,
                max_timestamp=self.header.max_timestamp,
                records_count=self.header.records_count - records,
            )
        return Run(header, left, view, self.mergeable, self.verified, self.old)


def split_runs(
    records: memoryview,
    *,
    plain_bytes: int = PLAIN_BYTES,
    packed_bytes: int = PACKED_BYTES,
    old_before: int = _OLDEST,
    stop_id_prefix: int = NO_ID_PREFIX,
) -> Iterator[Run]:
    """Whole batches in order; a last one that was cut is dropped. A header that cannot be is a `CorruptBatch` when it
    is its turn; a wrong checksum is not: its batch comes by itself, not verified.

    `plain_bytes` and `packed_bytes`: up to which size a batch is small, uncompressed or compressed. `old_before`:
    batches whose largest timestamp is below and those above never share a run. `stop_id_prefix`: batches whose producer
    id has these upper 32 bits come by themselves.
    """
    kernels = loaded()
    at = 0
    while found := whole_batch_at(records, at):
        header, behind = found
        # The kernel's call costs as much as two batches in Python (4.5 us): one small batch, or large ones, go without.
        alone = behind + _OTHERS * (behind - at) > len(records)
        small = behind - at <= (packed_bytes if header.attributes & CODEC_BITS else plain_bytes)
        if kernels is not None and not alone and small and header.magic == MAGIC:
            limits = (plain_bytes, packed_bytes, old_before, stop_id_prefix)
            scanned = yield from _scan(kernels, records, at, limits)
            if scanned > at:
                at = scanned
                continue
        if kernels is not None and header.magic != MAGIC and not header.attributes & CODEC_BITS:
            run = _gather(kernels, records, at, header, plain_bytes, old_before)
            yield run
            at += len(run.view)
            continue
        mergeable = small and _is_ordinary(header, stop_id_prefix)
        yield Run(header, 1, records[at:behind], mergeable, False, header.max_timestamp < old_before)
        at = behind


def _gather(
    kernels: Kernels, records: memoryview, at: int, header: BatchHeader, most_bytes: int, old_before: int
) -> Run:
    """Messages of an old format, as many as follow each other; the first in any case. Their checksums are not verified
    before somebody reads them."""
    numbers = np.zeros(survey.NUMBERS, np.int64)
    end = at + header.size_bytes
    if kernels.gather(np.frombuffer(records, np.uint8), at, header.magic, most_bytes, numbers):
        end, messages, first, last, max_timestamp = numbers[: survey.MAX_TIMESTAMP + 1].tolist()
        header = header._replace(
            base_offset=first,
            batch_length=end - at - LENGTH_COUNTS_FROM,
            last_offset_delta=last - first,
            max_timestamp=max_timestamp,
            records_count=messages,
        )
    return Run(header, 1, records[at:end], False, False, header.max_timestamp < old_before)


def _is_ordinary(header: BatchHeader, stop_id_prefix: int) -> bool:
    """As the kernel has it."""
    return (
        header.magic == MAGIC
        and not header.attributes & ~(CODEC_BITS | DELETE_HORIZON)
        and header.attributes & CODEC_BITS <= Codec.ZSTD
        and header.is_dense
        and header.producer_id >> 32 != stop_id_prefix
    )


def _scan(
    kernels: Kernels, records: memoryview, at: int, limits: tuple[int, int, int, int]
) -> Generator[Run, None, int]:
    """As far as the kernel can tell batches apart; returns where that ends."""
    data = np.frombuffer(records, np.uint8)
    rows = np.empty((_ROWS, COLUMNS), np.int64)
    while True:
        count, at = kernels.scan(data, at, *limits, rows)
        for start, batches, verified, old, base_offset, length, epoch, *rest in rows[:count].tolist():
            header = BatchHeader(base_offset, length, epoch, MAGIC, *rest)
            view = records[start : start + length + LENGTH_COUNTS_FROM]
            yield Run(header, batches, view, bool(verified), bool(verified), bool(old))
        if count < _ROWS:
            return at
