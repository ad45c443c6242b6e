"""A gap of the source on the target: which markers fill it, and under which right. Sans I/O.

Offsets that hold no record to copy are filled with control markers, one for each offset: no consumer sees them, and the
next record lands at its source offset (P4). A marker's label (model/marker_label.py) makes it compare-and-append: two
copiers that fill one gap append each offset once. The rules, each paid for:

- an *attempt* is used by one holder of the partition only, once reserved by the driver, durably (controller/cells.py):
  two markers with one label would both be appended. It is spent by an unknown outcome: what was sent may still execute;
- a request holds markers of one block of labels: in a new block nothing compares the first one;
- the broker's answer is one code for all markers of a request. What counts is the log's end, which is read back;
- a marker that was refused while a later one was taken leaves the gap short, and the labels used up: then it is
  finished with labels of their own (*repair*), which nobody else may use meanwhile: under an exclusive lease, when all
  is clear.

Without the right to write markers gaps are filled by empty transactions (copier/transaction_fills.py), which need no
attempt: there is a producer instead, which the transactions' coordinator gives to one holder at a time. A loss waits
for an attempt in either way: its grant is the only proof that the driver has heard of it (copier/losses.py).

Owns what is known of attempts, labels and the producer of one partition. Must not know phases, leases or connections.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from heliograph.cluster.empty_transactions import FillProducer
from heliograph.cluster.markers import Marker
from heliograph.copier.spec import CopySpec
from heliograph.copier.tail import Marks
from heliograph.model.errors import PartitionStop
from heliograph.model.fill_way import FillWay
from heliograph.model.hints import AFRESH
from heliograph.model.marker_label import ATTEMPTS, block_end, marker_label
from heliograph.model.position import Position
from heliograph.model.states import StopReason

MARKERS_AT_ONCE = 1000  # of a partition in one request: 40 to 70 ms of a broker's time
LAST_ATTEMPT = ATTEMPTS - 1
NO_ATTEMPT = -1  # of a fill that needs none


class Fill(NamedTuple):
    """`exclusive`: nobody else may fill this gap meanwhile."""

    start: Position
    end: Position
    attempt: int
    repair: bool
    alone: bool = False  # others may have something else there

    @property
    def exclusive(self) -> bool:
        """Also where attempts are used up: the last one may be anybody's."""
        return self.repair or self.alone or self.attempt >= LAST_ATTEMPT


class Stretch(NamedTuple):
    """Offsets of the target that one request fills."""

    first_offset: int
    next_offset: int


def stretches(fill: Fill) -> Iterator[Stretch]:
    """A repair goes one by one: it must not come out short again."""
    at = fill.start.target
    while at < fill.end.target:
        end = min(fill.end.target, block_end(at), at + (1 if fill.repair else MARKERS_AT_ONCE))
        yield Stretch(at, end)
        at = end


def markers_of(spec: CopySpec, fill: Fill, stretch: Stretch) -> list[Marker]:
    where = spec.partition.target
    return [
        Marker(where, marker_label(spec.producer_id, offset, fill.attempt, repair=fill.repair))
        for offset in range(*stretch)
    ]


def _used_up(end: int) -> PartitionStop:
    return PartitionStop(
        StopReason.GAP,
        f"the gap at offset {end} of the target could not be filled: markers were refused twice in the middle of it",
        hint=f"see the target brokers' logs for why in-sync replicas came and went; {AFRESH}",
    )


class Filling:
    """Of one partition: whether it has an attempt to fill gaps with, and whether a gap must be repaired."""

    def __init__(self, way: FillWay = FillWay.MARKERS) -> None:
        self.current: Fill | None = None  # of which an answer is due
        self.ever_granted = False
        self.ever_filled = False
        self.producer: FillProducer | None = None  # of empty transactions, while nothing of them is unknown
        self._way = way
        self._attempt: int | None = None
        self._unheard = False  # a loss is next, and nobody has granted an attempt since it was found
        self._marks = Marks()

    def synced(self, marks: Marks, end: int) -> PartitionStop | None:
        """What the target remembers, and where it ends. An attempt below one that was used there is of no use."""
        self._marks = marks
        if self._attempt is not None and self._attempt < marks.attempt:
            self._attempt = None
        used_up = min(marks.offset, marks.repair_offset) >= end
        return _used_up(end) if used_up and self._way is FillWay.MARKERS else None

    def granted(self, attempt: int) -> None:
        """The driver has reserved it for this holder of the partition."""
        self.ever_granted = True
        self._unheard = False
        if attempt > self._marks.attempt or attempt >= LAST_ATTEMPT:
            self._attempt = min(attempt, LAST_ATTEMPT)

    def spent(self) -> None:
        """It must not be used any more: a request with it, or of this producer, has no answer, and may still be
        executed."""
        self._attempt = None
        self.producer = None

    def lost(self) -> None:
        """What is to be filled is a loss, and nothing was reserved for that. The producer stays: the resynchronisation
        that has found the loss has fenced others off by it, and nothing of it is unknown."""
        self._attempt = None
        self._unheard = True

    @property
    def has_attempt(self) -> bool:
        """Or needs none. Who may not fill at all need not wait to be told so."""
        if self._way is FillWay.TRANSACTIONS:
            return not self._unheard
        return self._attempt is not None or self._way is FillWay.NONE

    @property
    def may_lag(self) -> bool:
        """Whether sequences may lag behind offsets. Of transactions nothing is written down before they are used."""
        return self.ever_granted or self._way is FillWay.TRANSACTIONS

    @property
    def is_unnoted(self) -> bool:
        """Gaps were filled, and the driver has not written down that there were any. Who copies the partition by
        markers later must know it, or sequences that lag behind offsets are taken for damage."""
        return self.ever_filled and not self.ever_granted and self._way is FillWay.TRANSACTIONS

    @property
    def above(self) -> int:
        """The attempt that is needed must be above this one."""
        return self._marks.attempt

    def plan(self, start: Position, next_offset: int) -> Fill | None:
        """How the gap up to this source offset is filled; None without an attempt that it needs."""
        if not self.has_attempt:
            return None
        if self._way is not FillWay.MARKERS:
            return Fill(start, start.past_gap(next_offset - start.source), NO_ATTEMPT, repair=False)
        assert self._attempt is not None
        repair = self._marks.offset >= start.target
        offsets = next_offset - start.source
        if repair:  # only where labels are used up
            offsets = min(offsets, self._marks.offset + 1 - start.target)
        return Fill(start, start.past_gap(offsets), self._attempt, repair)
