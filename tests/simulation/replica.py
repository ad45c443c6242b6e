"""One broker's copy of the partition: its log, leader epochs and producer state. No idea of the other replicas.

A log is read again after a restart and after a truncation: producer state then comes from the last snapshot on disk,
without what has expired, plus the batches behind it, however old they are.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from heliograph.wire.batch import BatchHeader

from .producer_states import ProducerStates

_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_EPOCH_AT = 12
UNDEFINED = -1


class Stored(NamedTuple):
    header: BatchHeader
    data: bytes


class Snapshot(NamedTuple):
    offset: int
    states: ProducerStates


class EpochEnd(NamedTuple):
    epoch: int
    end: int


@dataclass(slots=True)
class Replica:
    start: int = 0
    high_watermark: int = 0
    batches: list[Stored] = field(default_factory=list)
    next_offsets: list[int] = field(default_factory=list)  # of the batches, for searching
    producers: ProducerStates = field(default_factory=ProducerStates)
    epoch_starts: list[tuple[int, int]] = field(default_factory=list)  # epoch, its first offset
    snapshots: list[Snapshot] = field(default_factory=list)
    emptied_to: int = 0  # where the log ends when it holds no batch

    @property
    def end(self) -> int:
        return self.next_offsets[-1] if self.next_offsets else self.emptied_to

    # -- writing

    def append(self, header: BatchHeader, batch: bytes | memoryview, epoch: int, *, hole: int = 0) -> Stored:
        """As leader: the batch gets its place and the epoch. `hole`: offsets before it that hold no record, as
        compaction leaves them."""
        data = bytearray(batch)
        offset = self.end + hole
        _OFFSET.pack_into(data, 0, offset)
        _EPOCH.pack_into(data, _EPOCH_AT, epoch)
        stored = Stored(header._replace(base_offset=offset, leader_epoch=epoch), bytes(data))
        self.store(stored)
        return stored

    def store(self, stored: Stored) -> None:
        """As follower: the batch as the leader has it."""
        header = stored.header
        self.begin_epoch(header.leader_epoch)
        self.batches.append(stored)
        self.next_offsets.append(header.next_offset)
        self.producers.note(header, header.base_offset)

    def begin_epoch(self, epoch: int) -> None:
        if not self.epoch_starts or self.epoch_starts[-1][0] < epoch:
            self.epoch_starts.append((epoch, self.end))

    def truncate(self, end: int, now_ms: int, expiration_ms: int) -> None:
        """Drop whole batches until the log ends at or before `end`."""
        while self.next_offsets and self.next_offsets[-1] > end:
            self.next_offsets.pop()
            self.batches.pop()
        self.epoch_starts = [entry for entry in self.epoch_starts if entry[1] < self.end]
        self.high_watermark = min(self.high_watermark, self.end)
        self._read_again(now_ms, expiration_ms)

    def delete_before(self, offset: int) -> None:
        self.start = offset
        while self.batches and self.next_offsets[0] <= offset:
            self.emptied_to = self.next_offsets.pop(0)
            self.batches.pop(0)

    # -- what a disk keeps

    def take_snapshot(self) -> None:
        """When a segment is rolled, and at the end of a recovery."""
        self.snapshots.append(Snapshot(self.end, self.producers.snapshot()))

    def restart(self, now_ms: int, expiration_ms: int) -> None:
        self.take_snapshot()
        self._read_again(now_ms, expiration_ms)

    def _read_again(self, now_ms: int, expiration_ms: int) -> None:
        self.snapshots = [each for each in self.snapshots if self.start < each.offset <= self.end]
        from_offset, self.producers = self.start, ProducerStates()
        if self.snapshots:
            from_offset = self.snapshots[-1].offset
            self.producers = self.snapshots[-1].states.snapshot()
            self.producers.expire(now_ms, expiration_ms)
        for stored in self.batches[self.index_of(from_offset) :]:
            self.producers.note(stored.header, stored.header.base_offset)

    # -- reading

    def holding(self, offset: int) -> Stored | None:
        """The batch that holds the offset."""
        at = self.index_of(offset)
        return self.batches[at] if at < len(self.batches) else None

    def read(self, offset: int, limit: int, max_bytes: int) -> list[Stored]:
        """Batches from the one that holds `offset` on, below `limit`; the first one however large it is."""
        found: list[Stored] = []
        size_bytes = 0
        for stored in self.batches[self.index_of(offset) :]:
            size_bytes += len(stored.data)
            if stored.header.next_offset > limit or (found and size_bytes > max_bytes):
                break
            found.append(stored)
        return found

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """Where the log's last epoch up to this one ends: how a reader learns that its history is not ours."""
        if not self.epoch_starts or epoch > self.epoch_starts[-1][0]:
            return EpochEnd(UNDEFINED, UNDEFINED)
        if epoch == self.epoch_starts[-1][0]:
            return EpochEnd(epoch, self.end)
        higher = next(i for i, (each, _) in enumerate(self.epoch_starts) if each > epoch)
        return EpochEnd(self.epoch_starts[higher - 1][0] if higher else epoch, self.epoch_starts[higher][1])

    def common_end(self, other: Replica) -> int:
        """Up to where both logs are the same."""
        common = min(self.end, other.end)
        for at in range(len(self.batches) - 1, -1, -1):
            stored = self.batches[at]
            if stored.header.next_offset <= common and other.holding(stored.header.base_offset) == stored:
                return stored.header.next_offset
        return max(self.start, other.start) if common else 0

    def index_of(self, offset: int) -> int:
        return bisect_right(self.next_offsets, offset)
