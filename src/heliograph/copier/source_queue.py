"""The batches of a partition that wait to be taken, as they came from the source, and where the next fetch goes on.

Owns what is held of the source: the order, the bytes, the way of the first batch once somebody has asked, what took
the place of a batch that cannot go as it is, what was met behind them, and whether old records were left at the source
because they may not be sent yet. Must not know phases, leases or the target, but for what that takes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

from heliograph.copier.batches import SourceBatch, SourceGap
from heliograph.copier.budget import Parcel, Share
from heliograph.copier.merging_rule import is_worth_merging, merging_pays
from heliograph.copier.passage import (
    Gap,
    Merge,
    Missing,
    Pass,
    Reencode,
    Stop,
    Way,
    corrupt,
    way_by_header,
    way_of,
)
from heliograph.copier.spec import CopySpec
from heliograph.model.errors import CorruptBatch, PartitionStop
from heliograph.model.producer_id import id_prefix
from heliograph.wire.aborted import AbortedFilter
from heliograph.wire.batch import BatchHeader, split_batches, verify_crc
from heliograph.wire.batch_layout import CONTROL, TRANSACTIONAL
from heliograph.wire.fetch import FetchedPartition
from heliograph.wire.merge import Merged
from heliograph.wire.runs import PACKED_BYTES, PLAIN_BYTES, Run, split_runs

GOES = (Pass, Merge)
IN_TRANSACTIONS = CONTROL | TRANSACTIONAL


class SourceQueue:
    """`left_old`: a perishable batch is next at the source, and was left there: what may not be sent yet holds no
    memory. `old_next`: the same, until it is here: meanwhile the lease that it needs must not run out."""

    def __init__(self, spec: CopySpec) -> None:
        self._spec = spec
        self.takes = spec.target_takes  # what the target takes, as of the last that was heard of it
        self._stop_id_prefix = id_prefix(spec.target_cluster_id)
        self._batches: deque[SourceBatch | SourceGap] = deque()
        self._way: Way | None = None  # of the first one
        self.fetch_offset = 0
        self.size_bytes = 0
        self.last_epoch = -1  # the leader epoch of the last batch that came
        self.obstacle: PartitionStop | None = None  # met behind all that waits
        self.left_old = False
        self.old_next = False

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[SourceBatch | SourceGap]:
        return iter(self._batches)

    @property
    def head(self) -> SourceBatch | None:
        """The first batch, if no gap is before it."""
        first = self._batches[0] if self._batches else None
        return first if isinstance(first, SourceBatch) else None

    @property
    def has_old(self) -> bool:
        return any(isinstance(waiting, SourceBatch) and waiting.perishable for waiting in self._batches)

    # -- the source's side

    def start(self, next_offset: int, leader_epoch: int) -> None:
        """Empty, from here on."""
        assert not self._batches
        self.fetch_offset = next_offset
        self.last_epoch = leader_epoch
        self.obstacle = None

    def lose(self, next_offset: int, *, contested: bool = False) -> None:
        """What comes next, up to there, is gone from the source and not to be waited for: a gap like any other."""
        assert not self._batches
        self._batches.append(SourceGap(self.fetch_offset, next_offset, contested))
        self.fetch_offset = next_offset

    def take_in(
        self,
        reply: FetchedPartition,
        parcel: Parcel,
        share: Share | None,
        now_ms: int,
        *,
        old_may_go: bool,
    ) -> None:
        """The answer to a fetch from `fetch_offset`. `old_may_go`: perishable batches may be sent now."""
        self.left_old = self.old_next = False  # this answer tells anew
        aborted = AbortedFilter(reply.aborted)
        try:
            runs = split_runs(
                _from_offset(reply.records, self.fetch_offset),
                # What the target would not take by itself, or was mirrored from there, is looked at by itself.
                plain_bytes=min(PLAIN_BYTES, self.takes.batch_bytes),
                packed_bytes=min(PACKED_BYTES, self.takes.batch_bytes),
                old_before=self._spec.perishable_before(now_ms),
                stop_id_prefix=self._stop_id_prefix,
            )
            for run in runs:
                # What is in no transaction is the rule, and a run of several batches never is in one.
                if run.header.attributes & IN_TRANSACTIONS and _holds_nothing(run, aborted):
                    verify_crc(run.header, run.view)  # a gap must not end where a corrupt header says
                    self._widen_gap(run.header)
                elif run.old and not old_may_go and self._would_go(run):
                    self.left_old = self.old_next = True
                    break
                else:
                    self._batches.append(SourceBatch(run, parcel.hold(share)))
                    self.size_bytes += len(run.view)
                self.last_epoch = run.header.leader_epoch
                self.fetch_offset = run.header.next_offset
        except CorruptBatch as problem:
            self.obstacle = corrupt(problem)

    def _widen_gap(self, header: BatchHeader) -> None:
        """Offsets up to the end of this batch hold no record to copy. The copy may be inside of it already."""
        first_offset = max(header.base_offset, self.fetch_offset)
        last = self._batches[-1] if self._batches else None
        contested = False
        if isinstance(last, SourceGap) and last.next_offset == first_offset:
            self._batches.pop()
            first_offset, contested = last.first_offset, last.contested
            self._way = self._way if self._batches else None
        self._batches.append(SourceGap(first_offset, header.next_offset, contested))

    def _would_go(self, run: Run) -> bool:
        """What stops the partition need not wait for a lease to do so."""
        return not isinstance(way_by_header(run, self.fetch_offset, self._spec, self.takes), Stop)

    def leave_old(self, next_offset: int) -> None:
        """Old records may not be sent any more: they are left at the source, with all behind them."""
        old = (
            (at, waiting)
            for at, waiting in enumerate(self._batches)
            if isinstance(waiting, SourceBatch) and waiting.perishable
        )
        first, _ = next(old, (None, None))
        if first is None:
            return
        before = self._batches[first - 1] if first else None
        # Not its base offset: of an old message format that may be its last one, and of a batch that is taken apart
        # what is before it has taken some of it already.
        self.fetch_offset = _end_of(before) if before is not None else next_offset
        self.left_old = self.old_next = True
        self.obstacle = None  # it is met again
        while len(self._batches) > first:
            self._let_go(self._batches.pop())

    # -- the target's side

    def may_go(self, next_offset: int) -> bool:
        """Whether something can be appended of the first one, at this source offset."""
        return bool(self._batches) and isinstance(self._way or self._way_of_head(next_offset), GOES)

    def gap(self, next_offset: int) -> int | None:
        """Where the gap ends that is next; None: a batch is, or nothing."""
        way = self._way_of_head(next_offset) if self._batches else None
        return way.next_offset if isinstance(way, Gap) else None

    def is_contested(self, next_offset: int) -> bool:
        """Whether a gap is next that must not be filled before all is clear."""
        first = self._batches[0] if self.gap(next_offset) is not None else None
        return isinstance(first, SourceGap) and first.contested

    def filled(self, next_offset: int) -> None:
        """The gap that was next is behind us up to there; it may have grown since."""
        gap = self._batches.popleft()
        assert isinstance(gap, SourceGap)
        if gap.next_offset > next_offset:
            self._batches.appendleft(gap._replace(first_offset=next_offset))
        self._way = None

    # -- what cannot go as it is (copier/recoding.py)

    def to_recode(self, next_offset: int) -> SourceBatch | None:
        """The first batch, if others must take its place."""
        if not self._batches or not isinstance(self._way_of_head(next_offset), Reencode):
            return None
        return self._first()

    def behind_first(self) -> Iterator[SourceBatch | SourceGap]:
        return islice(self._batches, 1, None)

    def take_apart(self) -> None:
        """The first of several batches is to be looked at by itself."""
        waiting = self._first()
        first, rest = waiting.run.apart()
        self._batches[0] = SourceBatch(rest, waiting.hold)
        self._batches.appendleft(SourceBatch(first, waiting.hold.again()))
        self._way = None

    def replace_first(self, parts: Sequence[SourceBatch | SourceGap], *, whole: bool) -> None:
        """These go before the first batch; `whole`: nothing of it is left, and it is let go."""
        if whole:
            self._let_go(self._batches.popleft())
        for part in reversed(parts):
            self._batches.appendleft(part)
            self.size_bytes += part.size_bytes if isinstance(part, SourceBatch) else 0
        self._way = None

    def stop_first(self, why: PartitionStop) -> None:
        """Nothing can be made of the first batch."""
        self._way = Stop(why)

    def together(self, limit_bytes: int) -> list[Run]:
        """The first ones, as many as may go as one batch of that size, by what they have now; empty where merging does
        not pay."""
        first = self._first().run
        second = self._batches[1] if len(self._batches) > 1 else None
        if not merging_pays(first, second.run if isinstance(second, SourceBatch) else None):
            return []
        runs = [first]
        size_bytes = len(first.view)
        for waiting in islice(self._batches, 1, None):
            if isinstance(waiting, SourceGap):
                break
            size_bytes += waiting.size_bytes
            if size_bytes > limit_bytes or not is_worth_merging(waiting.run):
                break
            runs.append(waiting.run)
        return runs

    def taken(self, made: Merged) -> None:
        """What `together` gave was merged, as far as this says; the memory behind it is not needed any more."""
        for _ in range(made.runs):
            self._let_go(self._batches.popleft())
        if made.rest is not None:
            waiting = self._first()
            self.size_bytes -= waiting.size_bytes - len(made.rest.view)
            self._batches[0] = waiting._replace(run=made.rest)
        self._way = None

    def taken_to(self, next_offset: int) -> None:
        """All offsets up to there were taken, whatever held them; a batch that ends later stays."""
        while self._batches and _end_of(self._batches[0]) <= next_offset:
            self._let_go(self._batches.popleft())
        self._way = None

    def pop(self, next_offset: int) -> SourceBatch:
        """The first batch, which passes through; of a run the first one."""
        assert isinstance(self._way_of_head(next_offset), GOES)
        waiting = self._first()
        self._batches.popleft()
        self._way = None
        if waiting.run.batches > 1:
            first, rest = waiting.run.apart()
            self._batches.appendleft(SourceBatch(rest, waiting.hold))
            waiting = SourceBatch(first, waiting.hold.again())
        self.size_bytes -= waiting.size_bytes
        return waiting

    def blocked_by(self, next_offset: int) -> PartitionStop | None:
        """Why nothing more can be copied, once all before it is there."""
        if not self._batches:
            return self.obstacle
        way = self._way_of_head(next_offset)
        return way.why if isinstance(way, Stop) else None

    def _first(self) -> SourceBatch:
        first = self._batches[0]
        assert isinstance(first, SourceBatch)
        return first

    def _way_of_head(self, next_offset: int) -> Way:
        if self._way is None:
            self._way = way_of(self._batches[0], next_offset, self._spec, self.takes)
        if isinstance(self._way, Missing):
            self._fill_up(next_offset, self._way.next_offset)
            self._way = Gap(self._first_gap().next_offset)
        return self._way

    def _fill_up(self, next_offset: int, first_offset: int) -> None:
        """What comes first begins behind offsets that hold nothing."""
        first = self._batches[0]
        if isinstance(first, SourceGap):
            self._batches.popleft()
            first_offset = first.next_offset
        self._batches.appendleft(SourceGap(next_offset, first_offset, contested=True))

    def _first_gap(self) -> SourceGap:
        first = self._batches[0]
        assert isinstance(first, SourceGap)
        return first

    # -- its end

    def drop(self) -> None:
        """Nothing of it is wanted any more."""
        self.left_old = self.old_next = False
        while self._batches:
            self._let_go(self._batches.pop())

    def _let_go(self, waiting: SourceBatch | SourceGap) -> None:
        if not self._batches:
            self._way = None
        if isinstance(waiting, SourceBatch):
            self.size_bytes -= waiting.size_bytes
            waiting.release()


def _end_of(waiting: SourceBatch | SourceGap) -> int:
    return waiting.next_offset if isinstance(waiting, SourceGap) else waiting.header.next_offset


def _holds_nothing(run: Run, aborted: AbortedFilter) -> bool:
    """No record to copy is in it: a transaction's marker, or records of a transaction that was aborted. The filter is
    asked of markers, too: they tell it where a transaction ends."""
    return aborted.is_aborted(run.header, run.view) or run.header.is_control


def _from_offset(records: memoryview, next_offset: int) -> memoryview:
    """Without the batches before what was asked for."""
    before_bytes = 0
    for header, batch in split_batches(records):
        if header.next_offset > next_offset:
            break
        before_bytes += len(batch)
    return records[before_bytes:]
