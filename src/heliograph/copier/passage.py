"""Which way a source batch goes, decided when it is its turn. No I/O, no state.

Pass      its header is rewritten in place, its records are never looked at
Merge     the small ones that wait with it go as one batch (copier/merging.py)
Reencode  its records can be copied, the batch as it is cannot: others take its place (copier/recoding.py)
Missing   before it are offsets without a record: a gap takes its place, and it is looked at again
Gap       offsets that hold no record to copy: they are filled with markers (copier/fill.py)
Stop      nothing can be made of it: stops the partition with what was met and at which offset (P6)
"""

from __future__ import annotations

from dataclasses import dataclass

from heliograph.copier.batches import Append, SourceBatch, SourceGap
from heliograph.copier.spec import PRODUCER_EPOCH, CopySpec
from heliograph.copier.target_takes import TargetTakes
from heliograph.model.errors import CorruptBatch, DecompressionLimit, PartitionStop
from heliograph.model.fill_way import OFFSETS_PER_S, FillWay
from heliograph.model.hints import AFRESH, THEN_RESUME
from heliograph.model.position import Position
from heliograph.model.producer_id import mirrored_from
from heliograph.model.states import StopReason
from heliograph.wire.batch import MAGIC, rewrite, verify_crc
from heliograph.wire.runs import Run

# Of one gap that compaction left: a minute of markers, or an hour and a half of empty transactions.
MOST_HOLES = 1_000_000


@dataclass(frozen=True, slots=True)
class Pass:
    pass


@dataclass(frozen=True, slots=True)
class Merge:
    pass


@dataclass(frozen=True, slots=True)
class Reencode:
    pass


@dataclass(frozen=True, slots=True)
class Missing:
    """No record is before `next_offset`."""

    next_offset: int


@dataclass(frozen=True, slots=True)
class Gap:
    """[from, next_offset) of the source. It ends at a header that was seen, or where the source says that its log
    starts; never where an answer or the last stable offset ends: a partition that got no room in an answer looks the
    same."""

    next_offset: int


@dataclass(frozen=True, slots=True)
class Stop:
    why: PartitionStop


Way = Pass | Merge | Reencode | Missing | Gap | Stop
PASS = Pass()
MERGE = Merge()
REENCODE = Reencode()


def way_of(
    waiting: SourceBatch | SourceGap, next_offset: int, spec: CopySpec, takes: TargetTakes | None = None
) -> Way:
    """The way of the batch that comes next, where `next_offset` is the next one of the source to copy.

    A batch that is to go on is verified here, unless it was when it was fetched, before its checksum is computed anew:
    a corrupt one never gets a valid checksum. So is one before which a gap is to end.
    """
    if isinstance(waiting, SourceGap):
        missing = waiting.first_offset > next_offset
        return _missing(next_offset, waiting.first_offset, spec) if missing else Gap(waiting.next_offset)
    run = waiting.run
    if waiting.recoded and run.header.base_offset == next_offset:
        return PASS
    way = way_by_header(run, next_offset, spec, takes)
    if not isinstance(way, Merge | Stop) and not run.verified and run.header.magic == MAGIC:
        try:
            verify_crc(run.header, run.view)
        except CorruptBatch as problem:
            return Stop(corrupt(problem))
    return way


def way_by_header(run: Run, next_offset: int, spec: CopySpec, takes: TargetTakes | None = None) -> Way:
    """As far as its header tells. Of several batches it tells as much as of each: they are alike, and small. `takes`:
    what the target takes now, if that is not what it took when the partition was planned."""
    header = run.header
    at = header.base_offset
    takes = takes or spec.target_takes
    if header.magic != MAGIC:
        return REENCODE  # where a compressed set of messages begins is not in its header
    if mirrored_from(header.producer_id, spec.target_cluster_id):
        return Stop(mirrored_back(at))
    if at > next_offset:
        return _missing(next_offset, at, spec)
    if at < next_offset or header.is_log_append_time or not header.is_dense or takes.clamps(header):
        return REENCODE
    if run.batches > 1:
        return MERGE
    return PASS if header.size_bytes <= takes.batch_bytes else REENCODE


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


def corrupt(problem: CorruptBatch | DecompressionLimit) -> PartitionStop:
    return PartitionStop(
        StopReason.CORRUPT,
        f"the source holds a corrupt batch: {problem.message}",
        hint="check the source broker's disk; if another replica is whole, move the leadership there"
        + THEN_RESUME,
    )


def _missing(next_offset: int, first_offset: int, spec: CopySpec) -> Missing | Stop:
    if first_offset - next_offset <= MOST_HOLES:
        return Missing(first_offset)
    return Stop(too_many_holes(next_offset, first_offset, spec))


def too_many_holes(first_offset: int, next_offset: int, spec: CopySpec) -> PartitionStop:
    offsets = next_offset - first_offset
    seconds = offsets / OFFSETS_PER_S.get(spec.fill_way, OFFSETS_PER_S[FillWay.MARKERS])
    return PartitionStop(
        StopReason.HOLES,
        f"the source holds no records at offsets [{first_offset}, {next_offset}): to fill {offsets} offsets that"
        f" compaction has emptied would take {seconds:.0f} s or more, and more than {MOST_HOLES} in a"
        " row are not filled",
        hint=f"a compacted topic that is new on the target is built with such gaps; {AFRESH}",
        first_offset=first_offset,
        next_offset=next_offset,
    )


def mirrored_back(offset: int) -> PartitionStop:
    return PartitionStop(
        StopReason.LOOP,
        f"the batch at offset {offset} was mirrored from the target itself",
        hint="two links mirror one topic in both directions: exclude it from one of them",
    )
