"""Several batches made one, ready to be produced (P1, P2, P5): records in order, each with its timestamp, key, value
and headers as they were.

Owns which runs go together and what the new header says. Must not know where they came from or go to. A merged batch
has CreateTime, whatever its batches had: brokers take no other, and the records keep their times. A cleaner's delete
horizon is not carried on: it is the business of the log that the batch was in.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from crc32c import crc32c

from heliograph.model.errors import CorruptBatch
from heliograph.wire.batch import HEADER, Codec, verify_crc
from heliograph.wire.batch_layout import CRC_AT, CRC_FROM, LENGTH_COUNTS_FROM, MAGIC
from heliograph.wire.kernels.loading import Kernels
from heliograph.wire.merge_compressed import join_compressed
from heliograph.wire.merge_plain import Joined, join_plain
from heliograph.wire.runs import Run

_CRC = struct.Struct(">I")


class Merged(NamedTuple):
    """`runs` of those given are in it wholly, and of the next one all but `rest`, if there is one."""

    batch: memoryview
    batches: int
    records: int
    next_offset: int  # of the source, behind the last record
    max_timestamp: int
    runs: int
    rest: Run | None


def merge(
    kernels: Kernels,
    runs: Iterable[Run],
    *,
    limit_bytes: int,
    max_records: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
) -> Merged | None:
    """As many of the first batches as make a batch of `limit_bytes` and `max_records` at most; None if not even the
    first fits, or the first run may not be merged. It ends at a run that does not go on from the one before, or has
    another codec or age.

    It also ends before a batch that is not what a producer writes: a wrong checksum, records that are not numbered
    from 0 on, or are not records. If that is the first one it is a `CorruptBatch` (a `DecompressionLimit` if it holds
    too much).
    """
    together = list(_together(runs))
    if not together:
        return None
    codec = together[0].header.codec
    if codec is Codec.NONE:
        joined = join_plain(kernels, together, limit_bytes, max_records)
    else:
        joined = join_compressed(kernels, together, limit_bytes, max_records)
    if joined is None:
        return None
    _write_header(joined, codec, producer_id, producer_epoch, base_sequence)
    return Merged(
        joined.batch,
        joined.batches,
        joined.records,
        together[0].header.base_offset + joined.records,
        joined.max_timestamp,
        joined.runs,
        joined.rest,
    )


def goes_on(last: Run, run: Run) -> bool:
    """Whether a run may be in one batch with the one before it."""
    return (
        run.mergeable
        and run.header.base_offset == last.header.next_offset
        and run.header.codec is last.header.codec
        and run.old is last.old
    )


def _together(runs: Iterable[Run]) -> Iterator[Run]:
    last: Run | None = None
    for run in runs:
        if not run.mergeable or (last is not None and not goes_on(last, run)):
            return
        if not run.verified:
            try:
                verify_crc(run.header, run.view)
            except CorruptBatch:
                if last is None:
                    raise
                return
        yield run
        last = run


def _write_header(
    joined: Joined, codec: Codec, producer_id: int, producer_epoch: int, base_sequence: int
) -> None:
    batch = joined.batch
    HEADER.pack_into(
        batch,
        0,
        0,  # base offset: the broker demands 0
        len(batch) - LENGTH_COUNTS_FROM,
        -1,  # leader epoch: the broker's to set
        MAGIC,
        0,
        codec,
        joined.records - 1,
        joined.base_timestamp,
        joined.max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        joined.records,
    )
    _CRC.pack_into(batch, CRC_AT, crc32c(batch[CRC_FROM:]))
