"""Small batches that wait for one target partition become one append (P1, P2, P4, P5). Never by waiting for more.

Owns the append that comes of it, and what was refused of such; merging_rule.py says when it pays. Must not know phases
or leases.
"""

from __future__ import annotations

from collections.abc import Iterable

from heliograph.copier.batches import Append
from heliograph.copier.budget import Hold, Share, hold_merged, merging_room
from heliograph.copier.source_queue import SourceQueue
from heliograph.copier.spec import PRODUCER_EPOCH, CopySpec
from heliograph.model.errors import ProtocolError
from heliograph.model.position import SEQUENCES, Position
from heliograph.wire.kernels.loading import loaded
from heliograph.wire.merge import Merged, merge
from heliograph.wire.runs import Run


class Merging:
    """Of one partition: what is merged, and what is not because the target has refused it."""

    def __init__(self, spec: CopySpec) -> None:
        self._spec = spec
        self._limit_bytes = spec.max_merged_bytes  # as of the last look at the target's configs, or a refusal
        self._singly_until = 0  # a merged batch was refused: up to this source offset none is merged
        self.merges = 0

    def take(
        self, waiting: SourceQueue, start: Position, room_bytes: int, share: Share | None
    ) -> Append | None:
        """The first of what waits as one append; None if they go as they are."""
        head = waiting.head
        assert head is not None
        budget = head.hold.parcel.budget
        limit_bytes = min(room_bytes, self._limit_bytes, merging_room(budget, share))
        if not head.run.mergeable or limit_bytes <= 0 or start.source < self._singly_until:
            return None
        runs = waiting.together(limit_bytes)
        if not runs:
            return None
        made = _merge_at(start, runs, self._spec, limit_bytes)
        if made is None:
            return None
        hold = hold_merged(budget, made.batch.nbytes, share)
        waiting.taken(made)
        self.merges += 1
        return _append_of(made, start, perishable=head.perishable, hold=hold)

    def refused(self, append: Append, *, too_large: bool) -> None:
        """Whichever of its batches it is for, that one must be met by itself."""
        self._singly_until = append.end.source
        if too_large:
            self._limit_bytes = len(append.batch) // 2  # the topic's limit was lowered, and is not read yet

    def limit(self, limit_bytes: int) -> None:
        """What the target topic takes now."""
        if self._spec.max_merged_bytes:
            self._limit_bytes = limit_bytes


def _merge_at(start: Position, runs: Iterable[Run], spec: CopySpec, limit_bytes: int) -> Merged | None:
    """As many of them as fit, as one batch to be appended there; None if they can only go as they are."""
    kernels = loaded()
    if kernels is None:
        return None
    try:
        return merge(
            kernels,
            runs,
            limit_bytes=limit_bytes,
            # Some brokers refuse a batch in which sequences begin again at 0: it ends there.
            max_records=SEQUENCES - start.sequence,
            producer_id=spec.producer_id,
            producer_epoch=PRODUCER_EPOCH,
            base_sequence=start.sequence,
        )
    except ProtocolError:
        return None  # not what a producer writes: it goes as it is, and the target's broker judges it


def _append_of(made: Merged, start: Position, *, perishable: bool, hold: Hold) -> Append:
    end = start.after(source_offsets=made.records, records=made.records)
    assert end.source == made.next_offset, (end, made.next_offset)
    return Append(start, end, made.records, perishable, made.max_timestamp, made.batch, hold, made.batches)
