"""Which way a source batch goes, decided when it is its turn. No I/O, no state.

Pass      its header is rewritten in place, its records are never looked at
Merge     the small ones that wait with it go as one batch (copier/merging.py)
Reencode  its records can be copied, the batch as it is cannot: not built yet, stops the partition
Gap       offsets that hold no record to copy: they are filled with markers (copier/fill.py)
Stop      nothing can be made of it: stops the partition with what was met and at which offset (P6)
"""

from __future__ import annotations

from dataclasses import dataclass

from heliograph.copier.batches import Append, SourceBatch, SourceGap
from heliograph.copier.spec import PRODUCER_EPOCH, CopySpec
from heliograph.model.errors import CorruptBatch, PartitionStop
from heliograph.model.hints import THEN_RESUME
from heliograph.model.position import Position
from heliograph.model.producer_id import mirrored_from
from heliograph.model.states import StopReason
from heliograph.wire.batch import MAGIC, BatchHeader, rewrite, verify_crc
from heliograph.wire.runs import Run

_NOT_YET = "exclude the topic for now: copying this is not built yet"


@dataclass(frozen=True, slots=True)
class Pass:
    pass


@dataclass(frozen=True, slots=True)
class Merge:
    pass


@dataclass(frozen=True, slots=True)
class Reencode:
    why: PartitionStop


@dataclass(frozen=True, slots=True)
class Gap:
    """[from, next_offset) of the source. It ends at a header that was seen, or where the source says that its log
    starts; never where an answer or the last stable offset ends: a partition that got no room in an answer looks the
    same."""

    next_offset: int


@dataclass(frozen=True, slots=True)
class Stop:
    why: PartitionStop


Way = Pass | Merge | Reencode | Gap | Stop
PASS = Pass()
MERGE = Merge()


def way_of(waiting: SourceBatch | SourceGap, next_offset: int, spec: CopySpec) -> Way:
    """The way of the batch that comes next, where `next_offset` is the next one of the source to copy.

    A batch that is to go on is verified here, unless it was when it was fetched, before its checksum is computed anew:
    a corrupt one never gets a valid checksum.
    """
    if isinstance(waiting, SourceGap):
        hole = waiting.first_offset > next_offset
        return _hole(next_offset, waiting.first_offset) if hole else Gap(waiting.next_offset)
    run = waiting.run
    way = way_by_header(run, next_offset, spec)
    if way is PASS and not run.verified:
        try:
            verify_crc(run.header, run.view)
        except CorruptBatch as problem:
            return Stop(corrupt(problem))
    return way


def way_by_header(run: Run, next_offset: int, spec: CopySpec) -> Way:
    """As far as its header tells. Of several batches it tells as much as of each: they are alike, and small."""
    header = run.header
    at = header.base_offset
    if header.magic != MAGIC:
        return Reencode(_met(StopReason.OLD_FORMAT, f"a message of format {header.magic} at offset {at}"))
    if header.is_log_append_time:
        return Reencode(_met(StopReason.LOG_APPEND_TIME, f"a batch with log append time at offset {at}"))
    if at > next_offset:
        return _hole(next_offset, at)
    if at < next_offset:
        around = f"a batch [{at}, {header.next_offset}) around the position {next_offset}"
        return Reencode(_met(StopReason.HOLES, around))
    if not header.is_dense:
        holes = f"a batch with holes at offsets [{at}, {header.next_offset})"
        return Reencode(_met(StopReason.HOLES, holes))
    if mirrored_from(header.producer_id, spec.target_cluster_id):
        return Stop(_mirrored_back(at))
    if run.batches > 1:
        return MERGE
    if header.size_bytes > spec.max_batch_bytes:
        return Reencode(_too_large(header, spec))
    return PASS


def pass_through(waiting: SourceBatch, start: Position, spec: CopySpec) -> Append:
    """Make a batch whose way is `Pass` ready to be appended at `start`, in place."""
    header, batch = waiting.run.header, waiting.run.view
    rewrite(
        batch,
        producer_id=spec.producer_id,
        producer_epoch=PRODUCER_EPOCH,
        base_sequence=start.sequence,
    )
    records = header.records_count
    end = start.after(source_offsets=header.next_offset - header.base_offset, records=records)
    return Append(start, end, records, waiting.perishable, header.max_timestamp, batch, waiting.hold)


def corrupt(problem: CorruptBatch) -> PartitionStop:
    return PartitionStop(
        StopReason.CORRUPT,
        f"the source holds a corrupt batch: {problem.message}",
        hint="check the source broker's disk; if another replica is whole, move the leadership there"
        + THEN_RESUME,
    )


def _met(reason: StopReason, met: str) -> PartitionStop:
    return PartitionStop(reason, f"the source holds {met}", hint=_NOT_YET)


def _hole(next_offset: int, first_offset: int) -> Stop:
    return Stop(_met(StopReason.HOLES, f"no records at offsets [{next_offset}, {first_offset})"))


def _mirrored_back(offset: int) -> PartitionStop:
    return PartitionStop(
        StopReason.LOOP,
        f"the batch at offset {offset} was mirrored from the target itself",
        hint="two links mirror one topic in both directions: exclude it from one of them",
    )


def _too_large(header: BatchHeader, spec: CopySpec) -> PartitionStop:
    return PartitionStop(
        StopReason.TOO_LARGE,
        f"the batch at offset {header.base_offset} has {header.size_bytes} bytes, the target takes"
        f" {spec.max_batch_bytes}",
        hint="raise max.message.bytes (and segment.bytes) on the target topic" + THEN_RESUME,
    )
