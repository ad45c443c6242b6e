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
from heliograph.copier.batches import Append, SourceBatch, SourceGap
from heliograph.copier.passage import corrupt, mirrored_back
from heliograph.copier.recoding import Changed, too_large
from heliograph.copier.source_queue import SourceQueue
from heliograph.copier.spec import PRODUCER_EPOCH, CopySpec
from heliograph.model.errors import CorruptBatch, DecompressionLimit, PartitionStop
from heliograph.model.partition_status import Aligning
from heliograph.model.policy import Oversize
from heliograph.model.position import SEQUENCES, Position
from heliograph.model.producer_id import mirrored_from
from heliograph.model.states import BuildPhase
from heliograph.wire.batch import MAGIC, BatchHeader, Codec, read_header, split_batches
from heliograph.wire.dense import MOST_OFFSETS, Dense, dense_batch
from heliograph.wire.filler import last_filler_offset
from heliograph.wire.kernels.loading import Kernels, loaded
from heliograph.wire.old_messages import plain_batch
from heliograph.wire.recode import TooLarge

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
    """Of one partition. `begun_at`: where the target ended when it was asked. `build_to`: where the last hole ends;
    None: there is none, and nothing to fill. `now_ms`: the time of day."""

    def __init__(self, spec: CopySpec, begun_at: Position, build_to: int | None, now_ms: int) -> None:
        self._spec = spec
        self._begun_at = begun_at
        self._fill_to = None if build_to is None else build_to - 1
        self._date(now_ms)
        self.ready: Append | None = None  # what goes next
        self._fills_first: bool | None = None
        self.problem: PartitionStop | None = None  # why nothing does
        self._left_out: int | None = None  # the offset of the last record that is too large
        self._first_seen: tuple[float, int] | None = None

    def _date(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._time_ms = filler_time_ms(self._spec, now_ms)

    def fills(self, position: Position) -> bool:
        """Whether offsets are to be filled there, with records or with fillers."""
        return self._fill_to is not None and position.source < self._fill_to

    def marker(self, position: Position) -> int | None:
        """Up to where a marker is to be put there; None: nothing is."""
        marked = self._fill_to is not None and position.source in (self._fill_to, self._left_out)
        return position.source + 1 if marked else None

    def end(self, waiting: SourceQueue, position: Position) -> None:
        """Nothing is left to fill but the last offset of the last hole, if that: a gap, which gets a marker. What is
        behind it waits until the topic is built."""
        waiting.drop()
        waiting.start(position.source, leader_epoch=-1)
        marker_to = self.marker(position)
        if marker_to is not None:
            waiting.lose(marker_to, contested=True)

    def prepare(
        self, waiting: SourceQueue, start: Position, now_ms: int, *, aim_bytes: int, most_bytes: int
    ) -> list[Changed]:
        """Make the batch that is next, of `aim_bytes` at most, or one record of `most_bytes`, if enough is here for
        one; or find out why none can be made. To be called whenever something is new. What is to be told of it."""
        if self.ready is not None or self.problem is not None or not self.fills(start):
            return []
        if now_ms - self._now_ms > self._spec.state_lasts_ms // 4:
            self._date(now_ms)  # seldom: each time is the beginning of a segment
        if start.source == self._left_out:
            return []  # a marker is next
        waiting.taken_to(start.source)  # a record that was left out, and its batch with it
        made = self._make(waiting, start, aim_bytes, most_bytes)
        if isinstance(made, Append):
            self.ready, self._fills_first = made, None
        elif isinstance(made, PartitionStop):
            self.problem = made
        elif made is not None:
            return [self._leave_out(waiting, made)]
        return []

    def _leave_out(self, waiting: SourceQueue, record: TooLarge) -> Changed:
        """It gets a marker, as in any other copy: where the source holds a record a filler would not be expected."""
        self._left_out = record.first_offset
        waiting.replace_first(
            [SourceGap(record.first_offset, record.next_offset, contested=True)], whole=False
        )
        return Changed(first_offset=record.first_offset, next_offset=record.next_offset, skipped=record)

    def peek(self) -> Filler | None:
        ready = self.ready
        return None if ready is None else Filler(ready.perishable, len(ready.batch))

    @property
    def old_next(self) -> bool:
        """What goes next is perishable: a stretch of old records without a hole, and so without a filler of today."""
        return self.ready is not None and self.ready.perishable

    def may_be_marked(self, position: Position, *, aligns: bool) -> bool:
        """Whether a filler is to go where the target ended when it was asked. Whoever held the partition before may
        have taken that for the last offset of the last hole: its marker is compared with no filler. `aligns`: fillers
        are next that align the target."""
        return position == self._begun_at and (aligns or self._begins_with_filler())

    def _begins_with_filler(self) -> bool:
        """What goes next."""
        if self.ready is None:
            return False
        if self._fills_first is None:  # read once: it is asked for while it waits
            kernels, batch = loaded(), self.ready.batch
            assert kernels is not None
            filler = last_filler_offset(kernels, read_header(batch), batch, next_offset=1)
            self._fills_first = filler is not None
        return self._fills_first

    def drop(self) -> None:
        """What was made ready is not wanted any more: it is made again from where the target ends."""
        self.ready = None

    def take(self) -> Append:
        assert self.ready is not None
        taken, self.ready = self.ready, None
        return taken

    def _make(
        self, waiting: SourceQueue, start: Position, aim_bytes: int, most_bytes: int
    ) -> Append | TooLarge | PartitionStop | None:
        try:
            found = self._next_range(waiting, start)
            if not isinstance(found, _Range):
                return found
            made = self._dense(waiting, start, found, aim_bytes)
            if isinstance(made, TooLarge) and made.size_bytes <= most_bytes:
                made = self._dense(waiting, start, found, made.size_bytes)  # a record is as large as it is
        except (CorruptBatch, DecompressionLimit) as problem:
            return corrupt(problem)
        if isinstance(made, TooLarge):
            skips = self._spec.policy.oversize is Oversize.SKIP
            return made if skips else too_large(made, most_bytes)
        waiting.taken_to(made.next_offset)
        count = made.next_offset - start.source
        end = start.after(source_offsets=count, records=count)
        old = self._spec.is_perishable(made.max_timestamp, self._now_ms)
        return Append(start, end, made.records, old, made.max_timestamp, made.batch, of_no_budget())

    def _dense(
        self, waiting: SourceQueue, start: Position, found: _Range, limit_bytes: int
    ) -> Dense | TooLarge:
        kernels = loaded()
        assert kernels is not None, "loaded when the target was asked where the copy stands"
        return dense_batch(
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

    def _next_range(self, waiting: SourceQueue, position: Position) -> _Range | PartitionStop | None:
        """As far as headers were seen, of one codec, and up to where sequences begin again at 0."""
        assert self._fill_to is not None
        most = min(MOST_OFFSETS, SEQUENCES - position.sequence)
        end = min(position.source + most, self._fill_to, waiting.fetch_offset)
        codec: Codec | None = None
        for header, _ in _headers(waiting):
            first_offset = max(header.base_offset, position.source)
            if first_offset >= end and header.magic == MAGIC:
                break
            if mirrored_from(header.producer_id, self._spec.target_cluster_id):
                if first_offset == position.source:
                    return mirrored_back(header.base_offset)
                end = first_offset
                break
            if codec is not None and header.codec is not codec:
                end = min(end, first_offset)
                break
            codec = header.codec
        if end <= position.source:
            return None
        return _Range(end, Codec.ZSTD if codec is None else codec)  # a codec for fillers alone: they go again

    def progress(self, position: Position, now: float) -> Aligning:
        """For reports, of which the first one begins to count. That all is filled is said by who has asked the target
        since: before that nobody knows whether brokers will clean it (copier/sealing.py)."""
        done = position.source
        if self._fill_to is None:
            return Aligning(BuildPhase.FILLED, done, done)
        if self._first_seen is None:
            self._first_seen = (now, done)
        since, done_then = self._first_seen
        left = self._fill_to + 1 - done
        eta_s = round(left * (now - since) / (done - done_then), 1) if done > done_then else None
        return Aligning(BuildPhase.FILLING, done, self._fill_to + 1, eta_s)


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
