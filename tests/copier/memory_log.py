"""A partition's log in memory that takes and refuses batches as a broker does (compare-and-append included)."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from heliograph.cluster.list_offsets import DatedRecord
from heliograph.cluster.log_reads import LogSpan
from heliograph.cluster.producer_states import ProducerState
from heliograph.copier.sealing import SEGMENT_MS
from heliograph.model.marker_label import MarkerLabel
from heliograph.wire.batch import BatchHeader, read_header, verify_crc
from heliograph.wire.error_codes import ErrorCode
from tests.wire.batches import ABORT, make_control_batch

SEQUENCES = 1 << 31
REMEMBERED = 5
REMEMBERED_MS = 86_400_000


class Stored(NamedTuple):
    header: BatchHeader
    data: bytes


class Appended(NamedTuple):
    """`time_ms`: of a duplicate, that of the batch that is there, as brokers answer."""

    error: int
    base_offset: int
    time_ms: int = -1


@dataclass(slots=True)
class _Remembered:
    epoch: int
    last_sequence: int
    last_timestamp: int
    batches: deque[tuple[int, int, int]]  # first and last sequence, base offset


@dataclass(slots=True)
class MemoryLog:
    start: int = 0
    end: int = 0
    held_back: int = 0  # how far the high watermark is behind the end
    open_at: int | None = None  # where a transaction is open: read_committed ends there
    forgets_by: int | None = None  # a clock: after each append, producers a day older than it are forgotten
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000  # of the broker, for its markers
    batches: list[Stored] = field(default_factory=list)
    producers: dict[int, _Remembered] = field(default_factory=dict)
    markers: dict[int, MarkerLabel] = field(default_factory=dict)  # the last one of each producer id
    aborted: list[tuple[int, int]] = field(default_factory=list)  # producer id and first offset

    @property
    def span(self) -> LogSpan:
        return LogSpan(start=self.start, high_watermark=self.end - self.held_back, end=self.end)

    def remembered(self) -> dict[int, ProducerState]:
        """All producers, as DescribeProducers tells them."""
        own = {
            producer_id: ProducerState(
                epoch=known.epoch, last_sequence=known.last_sequence, last_timestamp=known.last_timestamp
            )
            for producer_id, known in self.producers.items()
        }
        marks = {
            producer_id: ProducerState(
                epoch=label.producer_epoch,
                last_sequence=-1,
                last_timestamp=0,
                coordinator_epoch=label.coordinator_epoch,
            )
            for producer_id, label in self.markers.items()
        }
        return own | marks

    def write_marker(self, label: MarkerLabel) -> int:
        """One marker of a WriteTxnMarkers request; the code it is answered with."""
        last = self.markers.get(label.producer_id)
        if last is not None and label.producer_epoch < last.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if last is not None and label.coordinator_epoch < last.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        self.markers[label.producer_id] = label
        self.store(
            make_control_batch(
                ABORT,
                producer_id=label.producer_id,
                producer_epoch=label.producer_epoch,
                coordinator_epoch=label.coordinator_epoch,
                timestamp=self.now_ms(),
            )
        )
        return ErrorCode.NONE

    def aborted_from(self, offset: int) -> tuple[tuple[int, int], ...]:
        """As a broker lists them: those that end at this offset or later."""
        return tuple(each for each in self.aborted if self._abort_of(*each) >= offset)

    def _abort_of(self, producer_id: int, first_offset: int) -> int:
        """Where the transaction ends."""
        return next(
            (
                stored.header.base_offset
                for stored in self.batches
                if stored.header.is_control
                and stored.header.producer_id == producer_id
                and stored.header.base_offset > first_offset
            ),
            self.end,
        )

    @property
    def stable_end(self) -> int:
        watermark = self.end - self.held_back
        return watermark if self.open_at is None else min(self.open_at, watermark)

    def truncate(self, end: int) -> None:
        """An unclean election: the new leader has no more than this, and remembers accordingly."""
        self.batches = [stored for stored in self.batches if stored.header.next_offset <= end]
        self.end = self.batches[-1].header.next_offset if self.batches else self.start
        assert self.end == end
        for known in self.producers.values():
            known.last_sequence = (end - 1) % SEQUENCES
            known.batches = deque((b for b in known.batches if b[2] < end), maxlen=REMEMBERED)
        if end == self.start:
            self.producers.clear()

    def delete_before(self, offset: int) -> None:
        assert offset <= self.end
        self.start = max(self.start, offset)
        self.batches = [stored for stored in self.batches if stored.header.next_offset > self.start]

    def store(self, batch: bytes | bytearray) -> None:
        """Put a batch at the end without a question, as a log that was written before."""
        data = bytearray(batch)
        data[:8] = self.end.to_bytes(8, "big")
        header = read_header(memoryview(data))
        self.batches.append(Stored(header, bytes(data)))
        self.end = header.next_offset

    def leave_out(self, offsets: int) -> None:
        """As compaction does: no batch holds the next ones."""
        self.end += offsets

    def store_as_it_is(self, messages: bytes | bytearray) -> None:
        """At the offset that it says, an old message format for example."""
        header = read_header(memoryview(messages))
        self.batches.append(Stored(header, bytes(messages)))
        self.end = header.next_offset

    def append(self, batch: memoryview) -> Appended:
        """A produce request's batch."""
        header = read_header(batch)
        verify_crc(header, batch)
        if header.base_offset != 0 or not header.is_dense or header.is_control:
            return Appended(ErrorCode.INVALID_RECORD, -1)
        first = header.base_sequence
        last = (first + header.last_offset_delta) % SEQUENCES
        known = self.producers.get(header.producer_id)
        if known is not None:
            for seen_first, seen_last, base_offset in known.batches:
                if (seen_first, seen_last) == (first, last):
                    there = self.holding(base_offset)
                    time_ms = there.header.max_timestamp if there is not None else -1
                    return Appended(ErrorCode.NONE, base_offset, time_ms)
            if first != (known.last_sequence + 1) % SEQUENCES:
                return Appended(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        else:
            known = self.producers[header.producer_id] = _Remembered(
                header.producer_epoch, last, header.max_timestamp, deque(maxlen=REMEMBERED)
            )
        known.last_sequence, known.last_timestamp = last, header.max_timestamp
        known.batches.append((first, last, self.end))
        base_offset = self.end
        self.store(bytes(batch))
        if self.forgets_by is not None:
            oldest_ms = self.forgets_by - REMEMBERED_MS
            self.producers = {n: k for n, k in self.producers.items() if k.last_timestamp >= oldest_ms}
        return Appended(ErrorCode.NONE, base_offset)

    def first_since(self, time_ms: int) -> DatedRecord | None:
        """By batches: the first one that holds such a record, or a marker, with its newest time."""
        return next(
            (
                DatedRecord(stored.header.base_offset, stored.header.max_timestamp)
                for stored in self.batches
                if stored.header.max_timestamp >= time_ms
            ),
            None,
        )

    def segment_end(self, offset: int) -> int:
        """By the time of what a segment begins with. As a broker writes it, none is ever full."""
        first_ms: int | None = None
        for stored in self.batches:
            rolls = first_ms is None or stored.header.max_timestamp - first_ms > SEGMENT_MS
            if rolls and first_ms is not None and stored.header.base_offset > offset:
                return stored.header.base_offset
            first_ms = stored.header.max_timestamp if rolls else first_ms
        return self.end

    def holding(self, offset: int) -> Stored | None:
        return next((stored for stored in self.batches if stored.header.next_offset > offset), None)

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool) -> bytes:
        found: list[bytes] = []
        size_bytes = 0
        for stored in self.batches:
            if stored.header.next_offset <= offset or stored.header.next_offset > self.stable_end:
                continue
            if size_bytes + len(stored.data) > max_bytes and (found or not at_least_one):
                break
            found.append(stored.data)
            size_bytes += len(stored.data)
        return b"".join(found)
