"""A partition's log in memory that takes and refuses batches as a broker does (compare-and-append included)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from heliograph.cluster.log_reads import LogSpan, ProducerState
from heliograph.wire.batch import BatchHeader, read_header, verify_crc
from heliograph.wire.error_codes import ErrorCode

SEQUENCES = 1 << 31
REMEMBERED = 5


class Stored(NamedTuple):
    header: BatchHeader
    data: bytes


class Appended(NamedTuple):
    error: int
    base_offset: int


@dataclass(slots=True)
class _Remembered:
    epoch: int
    last_sequence: int
    batches: deque[tuple[int, int, int]]  # first and last sequence, base offset


@dataclass(slots=True)
class MemoryLog:
    start: int = 0
    end: int = 0
    held_back: int = 0  # how far the high watermark is behind the end
    batches: list[Stored] = field(default_factory=list)
    producers: dict[int, _Remembered] = field(default_factory=dict)

    @property
    def span(self) -> LogSpan:
        return LogSpan(start=self.start, high_watermark=self.end - self.held_back, end=self.end)

    def producer(self, producer_id: int) -> ProducerState | None:
        known = self.producers.get(producer_id)
        if known is None:
            return None
        return ProducerState(epoch=known.epoch, last_sequence=known.last_sequence, last_timestamp=0)

    def store(self, batch: bytes | bytearray) -> None:
        """Put a batch at the end without a question, as a log that was written before."""
        data = bytearray(batch)
        data[:8] = self.end.to_bytes(8, "big")
        header = read_header(memoryview(data))
        self.batches.append(Stored(header, bytes(data)))
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
                    return Appended(ErrorCode.NONE, base_offset)
            if first != (known.last_sequence + 1) % SEQUENCES:
                return Appended(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        else:
            known = self.producers[header.producer_id] = _Remembered(
                header.producer_epoch, last, deque(maxlen=REMEMBERED)
            )
        known.last_sequence = last
        known.batches.append((first, last, self.end))
        base_offset = self.end
        self.store(bytes(batch))
        return Appended(ErrorCode.NONE, base_offset)

    def holding(self, offset: int) -> Stored | None:
        return next((stored for stored in self.batches if stored.header.next_offset > offset), None)

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool) -> bytes:
        found: list[bytes] = []
        size_bytes = 0
        for stored in self.batches:
            if stored.header.next_offset <= offset or stored.header.next_offset > self.end - self.held_back:
                continue
            if size_bytes + len(stored.data) > max_bytes and (found or not at_least_one):
                break
            found.append(stored.data)
            size_bytes += len(stored.data)
        return b"".join(found)
