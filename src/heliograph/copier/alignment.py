"""A new target partition is brought to its goal, the offset at which its mirror begins: where the source's log starts,
or where the mirror was told to begin, whichever is higher (P4). Sans I/O.

Batches of fillers, records that hold nothing but an offset, are appended like any others: with our producer id, the
offset as sequence number and today's time, so that copiers that race, and successors, append each offset once. They
are deleted again, so that no consumer meets more than the last few:

    0 ─── fillers, deleted ─── │ last filler │ goal ◀── the first record
                               kept until the source has answered a fetch from the goal

The last filler shows any successor that an alignment is under way: if the source's log starts later by then, it goes on
to there. When the source has shown that it holds the goal, the rest is deleted too; only then the first record follows.
Deletions never go above the goal, and all below the goal are fillers: one that is executed late deletes no record.
"""

from __future__ import annotations

from typing import NamedTuple

from heliograph.copier.batches import Append
from heliograph.copier.budget import ByteBudget, Hold, Parcel
from heliograph.copier.spec import PRODUCER_EPOCH, CopySpec
from heliograph.model.partition_status import Aligning
from heliograph.model.position import SEQUENCES, Position
from heliograph.wire.filler import MOST_RECORDS, filler_batch

FILLER_BYTES = 64 << 10  # of a batch of the most records, about
RECORD_BYTES = 9  # of a filler that is not compressed, at most
BATCH_BYTES = 100  # of a batch around them: its header, and what a compressed frame adds


class Filler(NamedTuple):
    """What may be taken next of an alignment, as far as a sender must know."""

    perishable: bool = False
    size_bytes: int = FILLER_BYTES


FILLER = Filler()


class Alignment:
    """`time_ms`: what fillers bear, so young that they are not perishable."""

    def __init__(self, goal: int, time_ms: int) -> None:
        self.goal = goal
        self._time_ms = time_ms
        self._kept_from = 0  # where the last filler begins that is acknowledged
        self._deleted_to = 0
        self._confirmed = False  # the source has answered a fetch from the goal
        self._first_seen: tuple[float, int] | None = None  # when reports first asked, and how far it was

    def is_filled(self, position: Position) -> bool:
        return position.target >= self.goal

    def take(self, start: Position, spec: CopySpec, limit_bytes: int) -> Append:
        """The next fillers, to be appended there as a batch of so many bytes at most. Some brokers refuse a batch in
        which sequences begin again at 0."""
        count = min(self.goal - start.target, _most_records(limit_bytes), SEQUENCES - start.sequence)
        batch = filler_batch(
            count,
            producer_id=spec.producer_id,
            producer_epoch=PRODUCER_EPOCH,
            base_sequence=start.sequence,
            timestamp_ms=self._time_ms,
        )
        end = start.after(source_offsets=count, records=count)
        return Append(start, end, 0, False, self._time_ms, memoryview(batch), of_no_budget())

    def acknowledged(self, append: Append) -> None:
        self._kept_from = append.start.target

    def confirmed(self) -> None:
        self._confirmed = True

    def deleted(self, before_offset: int) -> None:
        self._deleted_to = max(self._deleted_to, before_offset)

    @property
    def delete_before(self) -> int | None:
        """What is to be deleted now; None: nothing."""
        wanted = self.goal if self._confirmed else self._kept_from
        return wanted if wanted > self._deleted_to else None

    def progress(self, done: int, now: float) -> Aligning:
        """For reports, of which the first one begins to count."""
        phase = "deleting" if done >= self.goal else "filling"
        if self._first_seen is None:
            self._first_seen = (now, done)
        since, done_then = self._first_seen
        eta_s = (self.goal - done) * (now - since) / (done - done_then) if done > done_then else None
        return Aligning(phase, done, self.goal, None if eta_s is None else round(eta_s, 1))

    @property
    def over(self) -> bool:
        return self._deleted_to >= self.goal


def _most_records(limit_bytes: int) -> int:
    """A topic that takes only small batches is given few at a time, by what they take before compression."""
    if limit_bytes >= FILLER_BYTES:
        return MOST_RECORDS
    return min(max((limit_bytes - BATCH_BYTES) // RECORD_BYTES, 1), MOST_RECORDS)


def of_no_budget() -> Hold:
    """Fillers are small, and a few at a time: they take no part in a lane's memory."""
    return Parcel(ByteBudget(0), 0).hold()
