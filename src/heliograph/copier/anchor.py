"""The anchor: the target's last data batch holds the source's records at the same offsets. Sans I/O.

Compared record by record where its borders are not the source's, and only at offsets that both logs still hold: neither
retention nor compaction makes a difference. Times are compared as they would be written: those of a source with log
append time are its records' own, and a link that clamps times may have changed some.
"""

from __future__ import annotations

from heliograph.cluster.log_reads import Batches, LogSpan
from heliograph.copier.ports import Batch
from heliograph.copier.questions import Asking, LoadKernels, ReadSourceBatch, ReadSourceBatches
from heliograph.copier.spec import CopySpec
from heliograph.model.errors import CorruptBatch, DecompressionLimit, PartitionStop
from heliograph.model.hints import AFRESH, RESUME
from heliograph.model.policy import Timestamps
from heliograph.model.states import StopReason
from heliograph.wire.batch import MAGIC, BatchHeader, payload_equal
from heliograph.wire.compare import NOTHING, Allowed, first_difference
from heliograph.wire.decode import offsets_in
from heliograph.wire.kernels.loading import loaded
from heliograph.wire.old_messages import plain_batch


def compare_anchor(spec: CopySpec, last: Batch, source: LogSpan, target: LogSpan) -> Asking[int]:
    """The source's leader epoch of the last record that both hold, -1 where it holds none of them any more. Compared
    are the offsets that both still hold."""
    header, view = last
    first_offset = max(header.base_offset, source.start, target.start)
    if first_offset >= header.next_offset:
        return -1  # retention took the source's copy: the producer id and the sequence must do
    answer = yield ReadSourceBatch(first_offset)
    differs_at = first_offset
    if isinstance(answer, tuple):
        source_header, source_view = answer
        if source_header.base_offset == header.base_offset and payload_equal(view, source_view):
            return source_header.leader_epoch
        yield LoadKernels()
        batches = yield ReadSourceBatches(first_offset, header.next_offset)
        assert isinstance(batches, Batches)
        allowed = Allowed(
            clamped=spec.policy.timestamps is Timestamps.CLAMP,
            holes=(not header.is_dense, _has_holes(batches, header, first_offset)),
        )
        found = _first_difference(view, batches, first_offset, header.next_offset, allowed)
        if found is None:
            found = _first_at_marker(header, view, batches)
        if found is None:
            return batches.headers[-1].leader_epoch if batches.headers else -1
        differs_at = found
    raise differs(header, differs_at)


def differs(header: BatchHeader, offset: int) -> PartitionStop:
    """The target's last batch is not the source's at this offset."""
    return PartitionStop(
        StopReason.ANCHOR,
        f"the target's last batch [{header.base_offset}, {header.next_offset}) differs from the source's records at"
        f" offset {offset}",
        hint=f"the source was truncated or recreated, or the target changed: compare both topics; {AFRESH}",
    )


def _has_holes(batches: Batches, ours: BatchHeader, first_offset: int) -> bool:
    """Whether the source shows by its headers that compaction was there. Where it has a transaction's marker it has no
    hole, and a batch of ours that is dense cannot be there. One that the target has compacted can: a marker's offset
    held a filler (copier/building.py)."""
    next_offset = ours.next_offset
    if batches.read_to < next_offset:
        return False
    if ours.is_dense and any(header.is_control for header in batches.headers):
        return False
    at = first_offset
    for header in batches.headers:
        if header.base_offset > at or not header.is_dense:
            return True
        at = header.next_offset
    return at < next_offset


def _first_at_marker(header: BatchHeader, view: memoryview, batches: Batches) -> int | None:
    """The first offset of the target's batch, if it is compacted, that holds a record where the source has a marker."""
    markers = {each.base_offset for each in batches.headers if each.is_control}
    if header.is_dense or not markers:
        return None
    kernels = loaded()
    assert kernels is not None, "asked for batches to compare, without the kernels for it"
    plain = plain_batch(kernels, header, view).plain
    return min(
        markers.intersection(offsets_in(kernels, plain, header.base_offset, header.next_offset)), default=None
    )


def _first_difference(
    view: memoryview, batches: Batches, first_offset: int, next_offset: int, allowed: Allowed = NOTHING
) -> int | None:
    kernels = loaded()
    assert kernels is not None, "asked for batches to compare, without the kernels for it"
    try:
        theirs = [
            each if header.magic == MAGIC else plain_batch(kernels, header, each).plain
            for header, each in zip(batches.headers, batches.views, strict=True)
        ]
        differs = first_difference(
            kernels,
            [view],
            theirs,
            first_offset=first_offset,
            next_offset=next_offset,
            allowed=allowed,
            names=("the target", "the source"),
        )
    except (CorruptBatch, DecompressionLimit) as problem:
        raise PartitionStop(
            StopReason.ANCHOR,
            f"the target's last batch, up to {next_offset}, cannot be compared with the source's records:"
            f" {problem.message}",
            hint="one of the logs is damaged: read these offsets of both topics with a consumer; if it was the source,"
            f" and is mended: {RESUME}; if it is the target, {AFRESH}",
        ) from problem
    return differs.offset if differs is not None else None
