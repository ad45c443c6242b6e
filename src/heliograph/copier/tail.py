"""The target's tail: its last data batch, and the markers behind it that fill a gap of the source. Sans I/O.

    ... │ data │ data │ marker │ marker │◀── the log's end          the same offsets of the source: control batches,
        source's records        no record to copy                  and batches of aborted transactions; offsets that
                                                                   compaction took; records that are left out
A marker too many would make us skip a record of the source, and look identical again. So where markers stand, the
source must hold nothing to copy; whatever their labels say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from heliograph.cluster.log_reads import Batches, LogSpan
from heliograph.cluster.producer_states import ProducerState
from heliograph.copier.own_markers import OwnMarkers
from heliograph.copier.ports import Batch
from heliograph.copier.questions import Asking, LoadKernels, ReadSourceGap, ReadTargetBatches, Unsettled
from heliograph.copier.spec import CopySpec
from heliograph.model import marker_label
from heliograph.model.admission import KEEP
from heliograph.model.errors import CorruptBatch, DecompressionLimit, PartitionStop
from heliograph.model.hints import AFRESH, RESUME
from heliograph.model.marker_label import MarkerLabel, ReadLabel, is_marker_id, marker_id, read_label
from heliograph.model.policy import Isolation, Oversize
from heliograph.model.states import StopReason
from heliograph.wire.aborted import AbortedFilter
from heliograph.wire.batch import MAGIC, BatchHeader
from heliograph.wire.control_batch import read_marker
from heliograph.wire.decode import offsets_in
from heliograph.wire.kernels.loading import loaded
from heliograph.wire.old_messages import plain_batch
from heliograph.wire.recode import TooLarge, recode

WIDEN = 16  # how much further back each look at the target goes than the one before: few gaps are longer than one batch
MOST_OFFSETS = 1 << 16  # of one look: markers have 78 bytes each
# Of the source, to be compared with the end of a long row of markers. A request holds 1,000 of them, so that two
# copiers that both filled the gap cannot have gone further beyond its end.
COMPARED_OFFSETS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What the target's leader remembers of markers of ours around the log's end; -1: of none. `any`: of some,
    wherever.

    `attempt`: the highest that was used. `offset`: the highest that a label stands for; at or above the log's end it
    says that a marker was refused and a later one taken in its place. `repair_offset`: the same of repairs."""

    attempt: int = -1
    offset: int = -1
    repair_offset: int = -1
    any: bool = False


NO_MARKS = Marks()


def marks_of(spec: CopySpec, producers: Mapping[int, ProducerState], end: int) -> Marks:
    # A partition may have thousands of ids, one for each block of a day: those that can be read are looked up.
    blocks = (end - marker_label.BLOCK_OFFSETS, end, end + marker_label.BLOCK_OFFSETS)
    ids = {
        marker_id(spec.producer_id, offset, repair=repair)
        for offset in blocks
        if offset >= 0
        for repair in (False, True)
    }
    labels = [
        label
        for number in ids & producers.keys()
        if (label := _read(spec, end, _label_of(number, producers[number])))
    ]
    return Marks(
        attempt=max((label.attempt for label in labels), default=-1),
        offset=max((label.offset for label in labels if not label.repair), default=-1),
        repair_offset=max((label.offset for label in labels if label.repair), default=-1),
        any=any(is_marker_id(spec.producer_id, number) for number in producers),
    )


def _label_of(number: int, state: ProducerState) -> MarkerLabel:
    return MarkerLabel(number, state.epoch, state.coordinator_epoch)


class Tail(NamedTuple):
    """`data`: the last data batch, None where the log holds none, or none was looked for. From `markers_from` on there
    are markers only."""

    data: Batch | None
    markers_from: int


class ForeignMarker(PartitionStop):
    """One of which nothing shows that it is ours."""


def read_tail(spec: CopySpec, target: LogSpan, own: OwnMarkers, *, enough_at: int = 0) -> Asking[Tail]:
    """`enough_at`: below this offset a data batch tells nothing: the source has nothing to compare it with, and the
    leader remembers our sequence number. Before a long row of markers it is not looked for there: a loss of millions of
    offsets would be read again with every resynchronisation."""
    at, width = target.end, 1
    while at > target.start:
        answer = yield ReadTargetBatches(max(at - width, target.start), at)
        assert isinstance(answer, Batches)
        if not answer.headers or answer.headers[-1].next_offset != at:
            raise _unreadable(at)
        for header, view in zip(reversed(answer.headers), reversed(answer.views), strict=True):
            if not header.is_control:
                return Tail((header, view), header.next_offset)
            _check_marker(spec, header, view, own)
            at = header.base_offset
        if at <= enough_at and target.end - at >= COMPARED_OFFSETS:
            return Tail(None, at)
        width = min(width * WIDEN, MOST_OFFSETS)
    return Tail(None, target.start)


def _check_marker(spec: CopySpec, header: BatchHeader, view: memoryview, own: OwnMarkers) -> None:
    """It must be ours: by its label, or of an empty transaction. A partition may have been filled in both ways."""
    try:
        marker = read_marker(header, view)
    except CorruptBatch as problem:
        raise _unreadable(header.next_offset) from problem
    label = MarkerLabel(header.producer_id, header.producer_epoch, marker.coordinator_epoch)
    if _read(spec, header.base_offset, label) is None and not own.holds(marker):
        unknown = (
            f"if gaps were filled by empty transactions before, grant WRITE on transactional id {spec.transactional_id}"
            f" again, then: {RESUME}; else "
        )
        raise ForeignMarker(
            StopReason.FOREIGN,
            f"the target holds a transaction's marker at offset {header.base_offset} that this link did not write"
            f" (producer id {header.producer_id})",
            hint=(unknown if own.producer_id is None else "")
            + f"only the link may write to a mirrored topic: find the other writer; {KEEP}; {AFRESH}",
        )


def check_gap(spec: CopySpec, source: LogSpan, first_offset: int, next_offset: int) -> Asking[int]:
    """The source's leader epoch at the end of the gap, -1 where retention took it there. Raises where markers stand at
    an offset of which the source holds a record to copy."""
    first_offset = max(first_offset, source.start, next_offset - COMPARED_OFFSETS)
    if first_offset >= next_offset:
        return -1
    committed = spec.policy.isolation is Isolation.READ_COMMITTED
    while True:
        answer = yield ReadSourceGap(first_offset, next_offset, committed)
        assert isinstance(answer, Batches)
        if answer.read_to >= next_offset:
            break
        yield Unsettled()  # a new leader does not show all that the old one had shown
    aborted = AbortedFilter(answer.aborted)
    holding = [
        (header, view)
        for header, view in zip(answer.headers, answer.views, strict=True)
        if not (aborted.is_aborted(header, view) or header.is_control)
    ]
    for header, _ in holding:
        if header.magic == MAGIC and header.is_dense and not _may_be_meant(spec):
            raise _too_many(max(header.base_offset, first_offset), next_offset)
    if holding:
        yield LoadKernels()
    for header, view in holding:
        for offset in _not_too_large(spec, header, view, first_offset, next_offset):
            if not (yield from _is_meant(spec, offset)):
                raise _too_many(offset, next_offset)
    return answer.headers[-1].leader_epoch if answer.headers else -1


def _may_be_meant(spec: CopySpec) -> bool:
    """Whether a gap may have been filled rightly where the source has a record now: one that is too large is left out,
    and the target may take larger ones by now; and what compaction took from one replica another one may still hold."""
    return spec.policy.oversize is Oversize.SKIP or spec.source_compacts


def _is_meant(spec: CopySpec, offset: int) -> Asking[bool]:
    """Whether the target's marker there was meant for this very offset, and not for one before it."""
    if not _may_be_meant(spec):
        return False
    answer = yield ReadTargetBatches(offset, offset + 1)
    assert isinstance(answer, Batches)
    if not answer.headers or not answer.headers[0].is_control:
        return False
    marker = read_marker(answer.headers[0], answer.views[0])
    label = _read(spec, offset, MarkerLabel(*marker[1:]))
    return label is not None and label.offset == offset


def _not_too_large(
    spec: CopySpec, header: BatchHeader, view: memoryview, first_offset: int, next_offset: int
) -> list[int]:
    """The offsets of [first_offset, next_offset) at which the batch has a record to copy: compaction may have taken
    those there, and one that is too large for the target may be left out."""
    kernels = loaded()
    assert kernels is not None
    try:
        plain, codec = plain_batch(kernels, header, view)
        found = offsets_in(kernels, plain, first_offset, next_offset)
        if spec.policy.oversize is not Oversize.SKIP:
            return found
        limit_bytes = spec.target_takes.batch_bytes
        recoded = (
            (at, recode(kernels, plain, codec, first_offset=at, limit_bytes=limit_bytes)) for at in found
        )
        return [at for at, made in recoded if not isinstance(made.parts[0], TooLarge)]
    except (CorruptBatch, DecompressionLimit) as problem:
        raise PartitionStop(
            StopReason.ANCHOR,
            f"the source's batch at offset {header.base_offset}, beside markers of the target, cannot be read:"
            f" {problem.message}",
            hint=f"see the source broker's disk; when the source is mended: {RESUME}",
        ) from problem


def _read(spec: CopySpec, near_offset: int, label: MarkerLabel) -> ReadLabel | None:
    return read_label(spec.producer_id, near_offset, label)


def _unreadable(end: int) -> PartitionStop:
    return PartitionStop(
        StopReason.ANCHOR,
        f"the target's batch that ends at {end} cannot be read",
        hint=f"compaction or another tool changed the target topic: see its cleanup.policy; {AFRESH}",
    )


def _too_many(offset: int, target_end: int) -> PartitionStop:
    return PartitionStop(
        StopReason.ANCHOR,
        f"the target has markers up to {target_end}, and the source holds a record to copy at offset {offset}",
        hint=f"two mirrors filled one gap, or the source was truncated or recreated: compare both topics; {AFRESH}",
    )
