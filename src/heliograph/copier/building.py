"""A compacted partition is copied to a target topic that is being built: holes get fillers, which the target's brokers
remove when all are there (controller/builds.py). Sans I/O.

    source    3 · · 6 · · · · 11 · 13 14 15      · an offset that compaction, a marker or an abort left without a record
    target    3 f f 6 f f f f 11 M               f a filler, M a marker; 13 and later come when the fillers are gone
                                 ▲ the last hole that compaction made (copier/last_hole.py)

Batches of records and fillers (wire/dense.py) are appended like any others, with the offset as sequence number: copiers
that race, and successors, append each offset once. What one of them holds and another does not any more is what
compaction took at the source in between. Ranges without a hole go as in any other copy.

The last offset of the last hole gets a marker, which bears the broker's time. Fillers are dated back, so that the
marker begins a new segment, and no filler is left in one that brokers do not clean. It is filled under an exclusive
lease when all is clear: a successor may know of a later hole, and put a filler where the marker was to be.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from heliograph.copier.alignment import Filler, of_no_budget
from heliograph.copier.batches import Append, SourceBatch
from heliograph.copier.passage import corrupt
from heliograph.copier.source_queue import SourceQueue
from heliograph.copier.spec import PRODUCER_EPOCH, CopySpec
from heliograph.model.errors import CorruptBatch, DecompressionLimit, PartitionStop
from heliograph.model.hints import THEN_RESUME
from heliograph.model.partition_status import Aligning
from heliograph.model.position import SEQUENCES, Position
from heliograph.model.states import StopReason
from heliograph.wire.batch import MAGIC, BatchHeader, Codec, read_header, split_batches
from heliograph.wire.batch_layout import CODEC_BITS
from heliograph.wire.dense import MOST_OFFSETS, dense_batch
from heliograph.wire.kernels.loading import Kernels, loaded
from heliograph.wire.old_messages import plain_batch

FILLING, FILLED = "filling", "filled"
BACKDATED_MS = 600_000  # above what clocks may differ by, and far below what brokers remember by default


def filler_time_ms(spec: CopySpec, now_ms: int) -> int:
    """Of fillers in a topic that is being built, also of those that align it: the first record of a segment decides
    whether the marker begins another one. Never perishable."""
    return now_ms - min(BACKDATED_MS, spec.state_lasts_ms // 4)


class _Range(NamedTuple):
    """Offsets that go as one batch."""

    next_offset: int
    codec: Codec


class Building:
    """Of one partition. `build_to`: where the last hole ends; None: there is none, and nothing to fill. `now_ms`: the
    time of day."""

    def __init__(self, spec: CopySpec, build_to: int | None, now_ms: int) -> None:
        self._spec = spec
        self._fill_to = None if build_to is None else build_to - 1
        self._time_ms = filler_time_ms(spec, now_ms)
        self._now_ms = now_ms
        self.ready: Append | None = None  # what goes next
        self.problem: PartitionStop | None = None  # why nothing does
        self._first_seen: tuple[float, int] | None = None

    def fills(self, position: Position) -> bool:
        """Whether offsets are to be filled there, with records or with fillers."""
        return self._fill_to is not None and position.source < self._fill_to

    def marker(self, position: Position) -> int | None:
        """Up to where a marker is to be put there; None: nothing is."""
        return self._fill_to + 1 if self._fill_to is not None and position.source == self._fill_to else None

    def prepare(self, waiting: SourceQueue, start: Position, limit_bytes: int) -> None:
        """Make the batch that is next, of so many bytes at most, if enough is here for one; or find out why none can be
        made. To be called whenever something is new."""
        if self.ready is None and self.problem is None and self.fills(start):
            made = self._make(waiting, start, limit_bytes)
            if isinstance(made, PartitionStop):
                self.problem = made
            else:
                self.ready = made

    def peek(self) -> Filler | None:
        ready = self.ready
        return None if ready is None else Filler(ready.perishable, len(ready.batch))

    @property
    def old_next(self) -> bool:
        """What goes next is perishable: a stretch of old records without a hole, and so without a filler of today."""
        return self.ready is not None and self.ready.perishable

    def drop(self) -> None:
        """What was made ready is not wanted any more: it is made again from where the target ends."""
        self.ready = None

    def take(self) -> Append:
        assert self.ready is not None
        taken, self.ready = self.ready, None
        return taken

    def _make(self, waiting: SourceQueue, start: Position, limit_bytes: int) -> Append | PartitionStop | None:
        kernels, found = loaded(), self._next_range(waiting, start)
        assert kernels is not None, "loaded when the target was asked where the copy stands"
        if found is None:
            return None
        try:
            made = dense_batch(
                kernels,
                _batches(kernels, waiting, found.next_offset),
                first_offset=start.source,
                next_offset=found.next_offset,
                filler_time_ms=self._time_ms,
                codec=found.codec,
                limit_bytes=limit_bytes,
                producer_id=self._spec.producer_id,
                producer_epoch=PRODUCER_EPOCH,
                base_sequence=start.sequence,
            )
        except (CorruptBatch, DecompressionLimit) as problem:
            return corrupt(problem)
        if made is None:
            return _too_large(start.source, limit_bytes)
        waiting.taken_to(made.next_offset)
        count = made.next_offset - start.source
        end = start.after(source_offsets=count, records=count)
        old = self._spec.is_perishable(made.max_timestamp, self._now_ms)
        return Append(start, end, made.records, old, made.max_timestamp, made.batch, of_no_budget())

    def _next_range(self, waiting: SourceQueue, position: Position) -> _Range | None:
        """As far as headers were seen, of one codec, and up to where sequences begin again at 0."""
        assert self._fill_to is not None
        most = min(MOST_OFFSETS, SEQUENCES - position.sequence)
        end = min(position.source + most, self._fill_to, waiting.fetch_offset)
        codec: Codec | None = None
        for header, _ in _headers(waiting):
            if header.base_offset >= end and header.magic == MAGIC:
                break
            own = Codec(header.attributes & CODEC_BITS)
            if codec is not None and own is not codec:
                end = min(end, max(header.base_offset, position.source))
                break
            codec = own
        if end <= position.source:
            return None
        return _Range(end, Codec.ZSTD if codec is None else codec)  # a codec for fillers alone: they go again

    def progress(self, position: Position, now: float) -> Aligning:
        """For reports, of which the first one begins to count."""
        done = position.source
        if self._fill_to is None or done > self._fill_to:
            return Aligning(FILLED, done, done)
        if self._first_seen is None:
            self._first_seen = (now, done)
        since, done_then = self._first_seen
        left = self._fill_to + 1 - done
        eta_s = round(left * (now - since) / (done - done_then), 1) if done > done_then else None
        return Aligning(FILLING, done, self._fill_to + 1, eta_s)


def _headers(waiting: SourceQueue) -> Iterator[tuple[BatchHeader, memoryview]]:
    for each in waiting:
        if isinstance(each, SourceBatch):
            yield from split_batches(each.run.view)


def _batches(
    kernels: Kernels, waiting: SourceQueue, next_offset: int
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """As the current format has them."""
    for header, view in _headers(waiting):
        if header.base_offset >= next_offset and header.magic == MAGIC:
            return
        if header.magic == MAGIC:
            yield header, view
        else:
            plain = plain_batch(kernels, header, view).plain
            yield read_header(plain), plain


def _too_large(offset: int, limit_bytes: int) -> PartitionStop:
    return PartitionStop(
        StopReason.TOO_LARGE,
        f"the record at offset {offset} makes a batch larger than the {limit_bytes} bytes that the target takes",
        hint="raise max.message.bytes (and segment.bytes) on the target topic" + THEN_RESUME,
        first_offset=offset,
        next_offset=offset + 1,
    )
