"""The batches of a partition that wait to be taken, as they came from the source, and where the next fetch goes on.

Owns what is held of the source: the order, the bytes, the way of the first batch once somebody has asked, what was met
behind them, and whether old records were left at the source because they may not be sent yet. Must not know phases,
leases or the target.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from heliograph.copier.batches import SourceBatch
from heliograph.copier.budget import Parcel, Share
from heliograph.copier.passage import PASS, Merge, Pass, Way, corrupt, way_by_header, way_of
from heliograph.copier.spec import CopySpec
from heliograph.model.errors import CorruptBatch, PartitionStop
from heliograph.wire.batch import BatchHeader, split_batches

GOES = (Pass, Merge)


class SourceQueue:
    """`left_old`: a perishable batch is next at the source, and was left there: what may not be sent yet holds no
    memory. `old_next`: the same, until it is here: meanwhile the lease that it needs must not run out."""

    def __init__(self, spec: CopySpec) -> None:
        self._spec = spec
        self._batches: deque[SourceBatch] = deque()
        self._way: Way | None = None  # of the first one
        self.fetch_offset = 0
        self.size_bytes = 0
        self.last_epoch = -1  # the leader epoch of the last batch that came
        self.obstacle: PartitionStop | None = None  # met behind all that waits
        self.left_old = False
        self.old_next = False

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[SourceBatch]:
        return iter(self._batches)

    @property
    def head(self) -> SourceBatch | None:
        return self._batches[0] if self._batches else None

    @property
    def has_old(self) -> bool:
        return any(waiting.perishable for waiting in self._batches)

    # -- the source's side

    def start(self, next_offset: int, leader_epoch: int) -> None:
        """Empty, from here on."""
        assert not self._batches
        self.fetch_offset = next_offset
        self.last_epoch = leader_epoch
        self.obstacle = None

    def take_in(
        self, records: memoryview, parcel: Parcel, share: Share | None, now_ms: int, *, old_may_go: bool
    ) -> None:
        """The answer to a fetch from `fetch_offset`. `old_may_go`: perishable batches may be sent now."""
        self.old_next = False
        try:
            for header, batch in split_batches(records):
                if header.next_offset <= self.fetch_offset:
                    continue  # before what was asked for
                perishable = self._spec.is_perishable(header.max_timestamp, now_ms)
                if perishable and not old_may_go and self._would_pass(header):
                    self.left_old = self.old_next = True
                    break
                self._batches.append(SourceBatch(header, batch, perishable, parcel.hold(share)))
                self.size_bytes += len(batch)
                self.last_epoch = header.leader_epoch
                self.fetch_offset = header.next_offset
        except CorruptBatch as problem:
            self.obstacle = corrupt(problem)

    def _would_pass(self, header: BatchHeader) -> bool:
        """What stops the partition need not wait for a lease to do so."""
        return way_by_header(header, self.fetch_offset, self._spec) is PASS

    def leave_old(self, next_offset: int) -> None:
        """Old records may not be sent any more: they are left at the source, with all behind them."""
        while self.has_old:
            self.obstacle = None  # it is met again
            waiting = self._batches.pop()
            self.fetch_offset = max(waiting.header.base_offset, next_offset)
            self._let_go(waiting)
            self.left_old = self.old_next = True

    # -- the target's side

    def may_go(self, next_offset: int) -> bool:
        """Whether something can be appended of the first one, at this source offset."""
        return bool(self._batches) and isinstance(self._way or self._way_of_head(next_offset), GOES)

    def pop(self, next_offset: int) -> SourceBatch:
        """The first one, which passes through."""
        assert self._way_of_head(next_offset) is PASS, "merging is not built yet"
        waiting = self._batches.popleft()
        self._way = None
        self.size_bytes -= waiting.size_bytes
        return waiting

    def blocked_by(self, next_offset: int) -> PartitionStop | None:
        """Why nothing more can be copied, once all before it is there."""
        if not self._batches:
            return self.obstacle
        way = self._way_of_head(next_offset)
        return None if isinstance(way, Pass | Merge) else way.why

    def _way_of_head(self, next_offset: int) -> Way:
        if self._way is None:
            self._way = way_of(self._batches[0], next_offset, self._spec)
        return self._way

    # -- its end

    def drop(self) -> None:
        """Nothing of it is wanted any more."""
        self.left_old = self.old_next = False
        while self._batches:
            self._let_go(self._batches.pop())

    def _let_go(self, waiting: SourceBatch) -> None:
        if not self._batches:
            self._way = None
        self.size_bytes -= waiting.size_bytes
        waiting.release()
