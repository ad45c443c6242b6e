"""One broker's copy of the partition: its log, leader epochs, producer state. No idea of the other replicas.

A log is read again after a restart and after a truncation: producer state then comes from the last snapshot on disk,
without what has expired, plus the batches behind it, however old they are. What was deleted at the log's start is gone
for readers at once, and for good when the broker has noted it.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from heliograph.wire.batch import BatchHeader

from .leader_epochs import LeaderEpochs
from .offset_index import OffsetIndex
from .producer_states import ProducerStates
from .transactions import Transactions

_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_EPOCH_AT = 12


class Stored(NamedTuple):
    header: BatchHeader
    data: bytes


class Snapshot(NamedTuple):
    offset: int
    states: ProducerStates


@dataclass(slots=True)
class Replica:
    start: int = 0
    high_watermark: int = 0
    batches: list[Stored] = field(default_factory=list)
    next_offsets: list[int] = field(default_factory=list)  # of the batches, for searching
    producers: ProducerStates = field(default_factory=ProducerStates)
    transactions: Transactions = field(default_factory=Transactions)
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    index: OffsetIndex = field(default_factory=OffsetIndex)
    snapshots: list[Snapshot] = field(default_factory=list)
    emptied_to: int = 0  # where the log ends when it holds no batch
    segment_ms: int | None = None  # after which a batch begins a new segment; None: none ever does
    _positions: list[int] = field(default_factory=list)  # of the batches, in the file
    _size_bytes: int = 0  # of the file
    _noted_start: int = 0
    _deleted: list[Stored] = field(default_factory=list)  # since the start was noted
    _segments: list[tuple[int, int]] = field(
        default_factory=list
    )  # where each begins, and the time it begins with

    @classmethod
    def beginning_at(cls, offset: int) -> Replica:
        return cls(start=offset, high_watermark=offset, emptied_to=offset, _noted_start=offset)

    @property
    def end(self) -> int:
        return self.next_offsets[-1] if self.next_offsets else self.emptied_to

    @property
    def stable_end(self) -> int:
        """The last stable offset: up to where a read_committed consumer may read."""
        undecided = self.transactions.first_undecided(self.producers, self.high_watermark)
        if undecided is None:
            return self.high_watermark
        if (
            undecided < self.start
        ):  # it has lost its beginning; a broker then names a batch, not the offset in it
            held = self.holding(self.start)
            undecided = self.start if held is None else held.header.base_offset
        return min(undecided, self.high_watermark)

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
        header, data = stored
        self.epochs.begin(header.leader_epoch, self.end)
        self._place(stored)
        self.index.appended(header.next_offset - 1, self._positions[-1], len(data))
        ended = self.producers.note(header, data)
        if ended is not None:
            self.transactions.ended(ended, self.producers)

    def _place(self, stored: Stored) -> None:
        time_ms = stored.header.max_timestamp
        if not self._segments or (
            self.segment_ms is not None and time_ms - self._segments[-1][1] > self.segment_ms
        ):
            self._segments.append((stored.header.base_offset, time_ms))
        self.batches.append(stored)
        self.next_offsets.append(stored.header.next_offset)
        self._positions.append(self._size_bytes)
        self._size_bytes += len(stored.data)

    def truncate(self, end: int, now_ms: int, expiration_ms: int) -> None:
        """Drop whole batches until the log ends at or before `end`."""
        while self.next_offsets and self.next_offsets[-1] > end:
            self.next_offsets.pop()
            self.batches.pop()
            self._size_bytes = self._positions.pop()
        while self._segments and self._segments[-1][0] >= self.end:
            self._segments.pop()
        if not self.next_offsets:
            self.emptied_to = min(self.emptied_to, end)
        self.start = min(self.start, self.end)
        self._noted_start = min(self._noted_start, self.start)
        self.epochs.truncate(self.end)
        self.index.truncate(self.end)
        self.transactions.truncate(self.end)
        self.high_watermark = min(self.high_watermark, self.end)
        self._read_again(now_ms, expiration_ms)

    def delete_before(self, offset: int) -> None:
        """DeleteRecords and retention: the start moves, never back."""
        if offset <= self.start:
            return
        self.start = offset
        while self.batches and self.next_offsets[0] <= offset:
            self.emptied_to = self.next_offsets.pop(0)
            self._deleted.append(self.batches.pop(0))
            self._positions.pop(0)
        self.epochs.begin_log_at(offset)

    # -- what a disk keeps

    def take_snapshot(self) -> None:
        """When a segment is rolled, and at the end of a recovery."""
        self.snapshots.append(Snapshot(self.end, self.producers.snapshot()))

    def note_start(self) -> None:
        """Once a minute, and when a broker ends in good order."""
        self._noted_start = self.start
        self._deleted.clear()

    def forget_start(self) -> None:
        """It was killed: the log starts where it was noted last, and what was deleted since is there again."""
        if self._noted_start < self.start:
            self.start = self._noted_start
            kept, self.batches = self.batches, []
            self.next_offsets, self._positions, self._size_bytes = [], [], 0
            self._segments = []
            self.emptied_to = self.start
            self.index = OffsetIndex(self.index.interval_bytes)
            for stored in [*self._deleted, *kept]:
                self._place(stored)
            self._deleted = []

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
            self.producers.note(*stored)

    # -- segments

    @property
    def written_from(self) -> int:
        """Where the segment begins that is written: what a cleaner leaves alone."""
        return self._segments[-1][0] if self._segments else self.end

    def segment_end(self, offset: int) -> int:
        """Where the segment ends that holds the offset, as far as consumers see."""
        begins = (at for at, _ in self._segments if at > offset)
        return min(next(begins, self.end), self.high_watermark)

    def keep(self, batches: list[Stored]) -> None:
        """What a cleaner has left of the log."""
        positions = {
            stored.header.base_offset: at for stored, at in zip(self.batches, self._positions, strict=True)
        }
        self.batches = batches
        self.next_offsets = [stored.header.next_offset for stored in batches]
        self._positions = [positions[stored.header.base_offset] for stored in batches]

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

    def aborted_in(self, offset: int, limit: int, max_bytes: int) -> tuple[tuple[int, int], ...]:
        """What a read_committed fetch tells beside what `read` finds: of all that may overlap it, as far as the broker
        can say where it ends."""
        first, behind = self.index_of(offset), self.index_of(limit)
        if offset >= limit or first >= len(self.batches):
            return ()
        begins = self._positions[first]
        limit_position = self._positions[behind] if behind < len(self._positions) else self._size_bytes
        wanted_bytes = max(max_bytes, len(self.batches[first].data))
        bound = self.index.bound_of(min(limit_position, begins + wanted_bytes))
        return self.transactions.aborted_in(offset, self.end if bound is None else bound)

    def common_end(self, other: Replica) -> int:
        """Up to where both logs are the same."""
        common = min(self.end, other.end)
        for at in range(len(self.batches) - 1, -1, -1):
            stored = self.batches[at]
            there = other.holding(stored.header.base_offset)
            if stored.header.next_offset <= common and there is not None and _is_same(stored, there):
                return stored.header.next_offset
        return min(common, max(self.start, other.start)) if common else 0

    def index_of(self, offset: int) -> int:
        return bisect_right(self.next_offsets, offset)


def _is_same(stored: Stored, there: Stored) -> bool:
    """In one leader epoch one broker appends: but for what cleaners leave of it a batch is the same everywhere."""
    ours, theirs = stored.header, there.header
    return (ours.base_offset, ours.next_offset, ours.leader_epoch) == (
        theirs.base_offset,
        theirs.next_offset,
        theirs.leader_epoch,
    )
