"""Where the last hole ends that compaction made in a source partition. Sans I/O.

    │ batch │ batch ·· ·│ ···· │ batch │ marker │ aborted │ batch │◀── the high watermark
                               ▲ the last hole ends here            · an offset without a record

A hole is offsets between two batches, or inside of one that holds fewer records than offsets: which of them lack a
record its header does not say, so it is decoded. The offset before the end of what is found has no record, for certain:
it gets a marker (copier/building.py). Markers and aborted records are no holes: those offsets are filled in another way
(copier/fill.py).

Read backwards: compaction leaves the end of a log alone, and everything behind the last hole is dense.
"""

from __future__ import annotations

from heliograph.cluster.log_reads import Batches
from heliograph.copier.backward_steps import FIRST_OFFSETS, next_step
from heliograph.copier.questions import Asking, ReadSourceBatches, ReadSourceGap
from heliograph.wire.aborted import AbortedFilter
from heliograph.wire.batch import MAGIC, BatchHeader, read_header
from heliograph.wire.decode import offsets_in
from heliograph.wire.kernels.loading import Kernels
from heliograph.wire.old_messages import plain_batch


def last_hole_end(
    kernels: Kernels, first_offset: int, next_offset: int, *, committed: bool
) -> Asking[int | None]:
    """Exclusive, of holes in [first_offset, next_offset); None: there is none. `next_offset` is the high watermark at
    the most: below it an offset that the leader's answer lacks is one that the log lacks. `committed`: aborted records
    are not copied. A batch that cannot be read is a `CorruptBatch`."""
    at, step = next_offset, FIRST_OFFSETS  # no hole from here on
    while at > first_offset:
        end, step_first = at, max(at - step, first_offset)
        answer = yield ReadSourceBatches(step_first, end)
        assert isinstance(answer, Batches)
        for header, view in zip(reversed(answer.headers), reversed(answer.views), strict=True):
            if header.next_offset < at:
                return at
            missing = _last_missing(kernels, header, view, first_offset, at)
            if missing is not None and not (committed and (yield from _is_aborted(header))):
                return missing + 1
            at = _first_of(kernels, header, view)
        if at > step_first:
            return at
        step = next_step(end - at, answer)
    return None


def _last_missing(
    kernels: Kernels, header: BatchHeader, view: memoryview, first_offset: int, next_offset: int
) -> int | None:
    """The highest offset of the batch in this range that has no record."""
    if header.is_control or (header.magic == MAGIC and header.is_dense):
        return None
    held = set(_offsets_of(kernels, header, view))
    # Of a compressed set of messages of an older format the header says the last offset only.
    first = header.base_offset if header.magic == MAGIC else min(held)
    offsets = reversed(range(max(first, first_offset), next_offset))
    return next((offset for offset in offsets if offset not in held), None)


def _first_of(kernels: Kernels, header: BatchHeader, view: memoryview) -> int:
    return header.base_offset if header.magic == MAGIC else min(_offsets_of(kernels, header, view))


def _offsets_of(kernels: Kernels, header: BatchHeader, view: memoryview) -> list[int]:
    plain = plain_batch(kernels, header, view).plain
    decoded = read_header(plain)
    return offsets_in(kernels, plain, decoded.base_offset, decoded.next_offset)


def _is_aborted(header: BatchHeader) -> Asking[bool]:
    """Asked for few batches only: the cleaner leaves an aborted one, empty, where it is its producer's last."""
    if not header.is_transactional:
        return False
    answer = yield ReadSourceGap(header.base_offset, header.next_offset, committed=True)
    assert isinstance(answer, Batches)
    aborted = AbortedFilter(answer.aborted)
    # All are given to the filter, in order: an abort marker in front of the batch ends an earlier transaction.
    found = [
        (each.base_offset, aborted.is_aborted(each, view))
        for each, view in zip(answer.headers, answer.views, strict=True)
    ]
    return (header.base_offset, True) in found
