"""Where the last hole ends that compaction made in a source partition. Sans I/O.

    │ batch │ batch ·· ·│ ···· │ batch │ marker │ aborted │ batch │◀── the high watermark
                               ▲ the last hole ends here            · an offset without a record

A hole is offsets between two batches, or inside of one that holds fewer records than offsets: which of them lack a
record its header does not say, so it is decoded. The offset before the end of what is found has no record, for certain:
it gets a marker (copier/building.py). Markers and aborted records are no holes: those offsets are filled in another way
(copier/fill.py).

Read backwards: compaction leaves the end of a log alone, and everything behind the last hole is dense. No request
reads headers alone: brokers send whole batches. So all that is behind the last hole is read, once: what was found, or
how far the search came, is kept for as long as the partition is with one lane and its source with one leader.
"""

from __future__ import annotations

from heliograph.cluster.log_reads import Batches
from heliograph.cluster.metadata import Leader
from heliograph.copier.backward_steps import FIRST_OFFSETS, next_step
from heliograph.copier.questions import Asking, ReadSourceBatches, ReadSourceGap
from heliograph.model.partition_status import Aligning
from heliograph.model.states import BuildPhase
from heliograph.wire.aborted import AbortedFilter
from heliograph.wire.batch import MAGIC, BatchHeader, read_header
from heliograph.wire.decode import offsets_in
from heliograph.wire.kernels.loading import Kernels
from heliograph.wire.old_messages import plain_batch


class HoleSearch:
    """How far a search is, for whoever asks again after an interruption. What compaction empties behind a hole that was
    found is not looked for: those offsets get markers."""

    def __init__(self) -> None:
        self.hole_end: int | None = None  # as it was found
        self.first_offset = 0
        self._next_offset: int | None = None  # where it began; None: it has not
        self._dense_from = 0  # no hole from here on up to there
        self._step = FIRST_OFFSETS

    def begin(self, first_offset: int, next_offset: int) -> None:
        """Anew, or again: then the log may have grown, and be copied further. One that is shorter is another one."""
        self.first_offset = first_offset
        if self._next_offset is None or next_offset < self._next_offset:
            self._next_offset = self._dense_from = next_offset
            self.hole_end, self._step = None, FIRST_OFFSETS

    def next_step(self) -> tuple[int, int] | None:
        """The offsets to look at now, the last ones of which nothing is known; None: it is over."""
        if self.hole_end is not None or self._dense_from <= self.first_offset:
            return None
        return max(self._dense_from - self._step, self.first_offset), self._dense_from

    def stepped(self, dense_from: int, answer: Batches) -> None:
        """No hole is from there on."""
        self._step = next_step(self._dense_from - dense_from, answer)
        self._dense_from = dense_from

    @property
    def progress(self) -> Aligning | None:
        """For reports: of so many offsets, at the most; None: it is over, or has not begun."""
        if self._next_offset is None or self.next_step() is None:
            return None
        done, total = self._next_offset - self._dense_from, self._next_offset - self.first_offset
        return Aligning(BuildPhase.SEARCHING, done, total)


class HoleSearches:
    """Of one partition, as long as its source has one leader: another one may hold what that has compacted, or have
    lost what was behind it."""

    def __init__(self) -> None:
        self.current = HoleSearch()
        self._leader: Leader | None = None

    def of(self, leader: Leader | None) -> HoleSearch:
        if leader != self._leader:
            self.current, self._leader = HoleSearch(), leader
        return self.current


def last_hole_end(
    kernels: Kernels, search: HoleSearch, first_offset: int, next_offset: int, *, committed: bool
) -> Asking[int | None]:
    """Exclusive, of holes in [first_offset, next_offset); None: there is none. `next_offset` is the high watermark at
    the most: below it an offset that the leader's answer lacks is one that the log lacks. `committed`: aborted records
    are not copied. A batch that cannot be read is a `CorruptBatch`."""
    search.begin(first_offset, next_offset)
    while (step := search.next_step()) is not None:
        search.hole_end = yield from _last_in(kernels, search, *step, committed=committed)
    return search.hole_end if search.hole_end is not None and search.hole_end > first_offset else None


def _last_in(
    kernels: Kernels, search: HoleSearch, first_offset: int, next_offset: int, *, committed: bool
) -> Asking[int | None]:
    """Where the last hole ends of these offsets, and of those before them that the first batch holds, too."""
    at = next_offset
    answer = yield ReadSourceBatches(first_offset, next_offset)
    assert isinstance(answer, Batches)
    for header, view in zip(reversed(answer.headers), reversed(answer.views), strict=True):
        if header.next_offset < at:
            return at
        missing = _last_missing(kernels, header, view, search.first_offset, at)
        if missing is not None and not (committed and (yield from _is_aborted(header))):
            return missing + 1
        at = _first_of(kernels, header, view)
    if at > first_offset:
        return at
    search.stepped(max(at, search.first_offset), answer)
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
