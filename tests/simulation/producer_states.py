"""What one replica remembers of producer ids: compare-and-append, and how it is forgotten.

    known, same epoch, sequence == last + 1            accepted
    known, same (epoch, first, last) as a remembered   a duplicate: the old offset, nothing appended
    known, anything else                               45; higher epoch with sequence 0: accepted; lower: 47
    not known                                          any sequence is accepted

State is dropped by comparing the clock with the *record time* of the id's last batch. Must not know logs or leaders.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from heliograph.wire.batch import BatchHeader
from heliograph.wire.error_codes import ErrorCode

SEQUENCES = 1 << 31
REMEMBERED = 5


class Remembered(NamedTuple):
    first_sequence: int
    last_sequence: int
    base_offset: int


class Verdict(NamedTuple):
    """`duplicate_of`: the old offset where error is NONE and nothing is to be appended."""

    error: int
    duplicate_of: int | None


@dataclass(slots=True)
class ProducerEntry:
    epoch: int
    last_timestamp: int
    batches: deque[Remembered] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence


def last_sequence_of(header: BatchHeader) -> int:
    return (header.base_sequence + header.last_offset_delta) % SEQUENCES


@dataclass(slots=True)
class ProducerStates:
    entries: dict[int, ProducerEntry] = field(default_factory=dict)

    def judge(self, header: BatchHeader) -> Verdict:
        """What a leader answers to a batch that its own bytes allow."""
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
        return _ACCEPTED if in_order else _OUT_OF_ORDER

    def note(self, header: BatchHeader, base_offset: int) -> None:
        """A batch is in the log: as leader, as follower, or when a log is read again."""
        if header.producer_id < 0:
            return
        known = self.entries.get(header.producer_id)
        if known is None or known.epoch != header.producer_epoch:
            known = self.entries[header.producer_id] = ProducerEntry(header.producer_epoch, 0)
        known.last_timestamp = header.max_timestamp
        known.batches.append(Remembered(header.base_sequence, last_sequence_of(header), base_offset))

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        self.entries = {
            producer_id: entry
            for producer_id, entry in self.entries.items()
            if now_ms - entry.last_timestamp < expiration_ms
        }

    def snapshot(self) -> ProducerStates:
        """As it is written to disk: of each id only the last batch."""
        return ProducerStates(
            {
                producer_id: ProducerEntry(
                    entry.epoch, entry.last_timestamp, deque([entry.batches[-1]], maxlen=REMEMBERED)
                )
                for producer_id, entry in self.entries.items()
            }
        )


_ACCEPTED = Verdict(ErrorCode.NONE, None)
_OUT_OF_ORDER = Verdict(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None)
_OLD_EPOCH = Verdict(ErrorCode.INVALID_PRODUCER_EPOCH, None)
