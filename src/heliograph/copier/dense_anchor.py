"""The anchor of a target topic that is being built (copier/building.py): its last batch holds the source's records at
the same offsets, and fillers where the source holds none. Sans I/O."""

from __future__ import annotations

from heliograph.cluster.log_reads import Batches, LogSpan
from heliograph.copier.anchor import differs
from heliograph.copier.ports import Batch
from heliograph.copier.questions import Asking, LoadKernels, ReadSourceGap
from heliograph.copier.spec import CopySpec
from heliograph.model.errors import CorruptBatch, DecompressionLimit, PartitionStop
from heliograph.model.hints import RESUME
from heliograph.model.policy import Isolation
from heliograph.model.states import StopReason
from heliograph.wire.aborted import AbortedFilter
from heliograph.wire.batch import MAGIC, read_header
from heliograph.wire.compare_dense import dense_difference
from heliograph.wire.kernels.loading import loaded
from heliograph.wire.old_messages import plain_batch


def compare_dense_anchor(spec: CopySpec, last: Batch, source: LogSpan, target: LogSpan) -> Asking[int]:
    """The source's leader epoch of what was compared last, -1 where it holds none of it any more."""
    header, view = last
    first_offset = max(header.base_offset, source.start, target.start)
    if first_offset >= header.next_offset:
        return -1
    yield LoadKernels()
    committed = spec.policy.isolation is Isolation.READ_COMMITTED
    batches = yield ReadSourceGap(first_offset, header.next_offset, committed)
    assert isinstance(batches, Batches)
    found = _first_difference(view, batches, first_offset, header.next_offset)
    if found is not None:
        raise differs(header, found)
    return batches.headers[-1].leader_epoch if batches.headers else -1


def _first_difference(view: memoryview, batches: Batches, first_offset: int, next_offset: int) -> int | None:
    kernels = loaded()
    assert kernels is not None
    aborted = AbortedFilter(batches.aborted)
    pairs = list(zip(batches.headers, batches.views, strict=True))
    holes = {header.base_offset for header, each in pairs if aborted.is_aborted(header, each)}
    try:
        theirs = [
            (header, each)
            if header.magic == MAGIC
            else (read_header(plain := plain_batch(kernels, header, each).plain), plain)
            for header, each in pairs
        ]
        found = dense_difference(
            kernels, view, theirs, first_offset=first_offset, next_offset=next_offset, holes=holes
        )
    except (CorruptBatch, DecompressionLimit) as problem:
        raise PartitionStop(
            StopReason.ANCHOR,
            f"the last batch of the target cannot be compared with the source's: {problem.message}",
            hint=f"see the source broker's disk; when the source is mended: {RESUME}",
        ) from problem
    return None if found is None else found.offset
