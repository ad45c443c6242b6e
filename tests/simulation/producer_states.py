"""What one replica remembers of producer ids: compare-and-append, transactions, and how it is forgotten.

    known, same epoch, sequence == last + 1            accepted
    known, same (epoch, first, last) as a remembered   a duplicate: the old offset, nothing appended
    known, anything else                               45; higher epoch with sequence 0: accepted; lower: 47
    known by markers alone                             sequence 0 is accepted
    not known                                          any sequence is accepted

    a marker: its producer epoch below the last one 47, else its coordinator epoch below the last one 52

State is dropped by comparing the clock with the *record time* of the id's last batch; that of a marker is the broker's
own. An open transaction keeps it. Must not know logs or leaders.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from heliograph.wire.batch import BatchHeader
from heliograph.wire.error_codes import ErrorCode

from .control_batch import NO_SEQUENCE, EndMarker, read_marker

SEQUENCES = 1 << 31
REMEMBERED = 5
NONE_OPEN = -1


class Remembered(NamedTuple):
    first_sequence: int
    last_sequence: int
    base_offset: int


class Verdict(NamedTuple):
    """`duplicate_of`: the old offset where error is NONE and nothing is to be appended."""

    error: int
    duplicate_of: int | None


class Ended(NamedTuple):
    """A transaction that held records, and the marker that ended it."""

    producer_id: int
    first_offset: int
    marker_offset: int
    commits: bool


@dataclass(slots=True)
class ProducerEntry:
    epoch: int
    last_timestamp: int = -1
    batches: deque[Remembered] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    coordinator_epoch: int = -1
    transaction_start: int = NONE_OPEN

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def begin_epoch(self, epoch: int) -> None:
        if self.epoch != epoch:
            self.epoch = epoch
            self.batches.clear()

    def snapshot(self) -> ProducerEntry:
        """As it is written to disk: only its last batch."""
        last = deque(list(self.batches)[-1:], maxlen=REMEMBERED)
        return ProducerEntry(
            self.epoch, self.last_timestamp, last, self.coordinator_epoch, self.transaction_start
        )


def last_sequence_of(header: BatchHeader) -> int:
    return (header.base_sequence + header.last_offset_delta) % SEQUENCES


@dataclass(slots=True)
class ProducerStates:
    entries: dict[int, ProducerEntry] = field(default_factory=dict)

    def judge(self, header: BatchHeader) -> Verdict:
        """What a leader answers to a producer's batch that its own bytes allow."""
        known = self.entries.get(header.producer_id)
        if header.producer_id < 0 or known is None:
            return _ACCEPTED
        first, last = header.base_sequence, last_sequence_of(header)
        if header.producer_epoch == known.epoch:
            for seen in known.batches:
                if (seen.first_sequence, seen.last_sequence) == (first, last):
                    return Verdict(ErrorCode.NONE, seen.base_offset)
            in_order = first == (known.last_sequence + 1) % SEQUENCES
        elif header.producer_epoch < known.epoch:
            return _OLD_EPOCH
        else:
            in_order = first == 0
        if not in_order:
            return _OUT_OF_ORDER
        return _ACCEPTED if header.is_transactional or known.transaction_start < 0 else _IN_TRANSACTION

    def judge_marker(self, marker: EndMarker) -> int:
        """Equal epochs are no reason to refuse: the same marker may be written twice."""
        known = self.entries.get(marker.producer_id)
        if known is None:
            return ErrorCode.NONE
        if marker.producer_epoch < known.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        fenced = marker.coordinator_epoch < known.coordinator_epoch
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED if fenced else ErrorCode.NONE

    def note(self, header: BatchHeader, data: bytes) -> Ended | None:
        """A batch is in the log: as leader, as follower, or when a log is read again."""
        if header.producer_id < 0:
            return None
        known = self.entries.setdefault(header.producer_id, ProducerEntry(header.producer_epoch))
        known.begin_epoch(header.producer_epoch)
        known.last_timestamp = header.max_timestamp
        if header.is_control:
            return self._end(known, header, read_marker(header, data))
        sequences = header.base_sequence, last_sequence_of(header)
        known.batches.append(Remembered(*sequences, header.base_offset))
        if header.is_transactional and known.transaction_start < 0:
            known.transaction_start = header.base_offset
        return None

    def _end(self, known: ProducerEntry, header: BatchHeader, marker: EndMarker) -> Ended | None:
        known.coordinator_epoch = marker.coordinator_epoch
        first_offset, known.transaction_start = known.transaction_start, NONE_OPEN
        if first_offset < 0:
            return None
        return Ended(header.producer_id, first_offset, header.base_offset, marker.commits)

    @property
    def open_at(self) -> dict[int, int]:
        """The first offset of each transaction that is open, by its producer id."""
        return {
            number: each.transaction_start
            for number, each in self.entries.items()
            if each.transaction_start >= 0
        }

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        self.entries = {
            producer_id: entry
            for producer_id, entry in self.entries.items()
            if entry.transaction_start >= 0 or now_ms - entry.last_timestamp < expiration_ms
        }

    def snapshot(self) -> ProducerStates:
        return ProducerStates({number: entry.snapshot() for number, entry in self.entries.items()})


_ACCEPTED = Verdict(ErrorCode.NONE, None)
_OUT_OF_ORDER = Verdict(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None)
_OLD_EPOCH = Verdict(ErrorCode.INVALID_PRODUCER_EPOCH, None)
_IN_TRANSACTION = Verdict(ErrorCode.INVALID_TXN_STATE, None)
