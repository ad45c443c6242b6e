"""What a lane reports of one copy: how it stands, and what an operator must hear of it."""

from __future__ import annotations

from datetime import datetime

from heliograph.copier.partition_copy import PartitionCopy
from heliograph.model.errors import PartitionStop
from heliograph.model.hints import hint_for
from heliograph.model.occurrence import Occurrence, of_stop, of_trouble
from heliograph.model.partition_status import PartitionStatus
from heliograph.model.states import StopReason


def progress_of(copy: PartitionCopy, now: float) -> PartitionStatus:
    """How far a lane is with a partition; `now` by its event loop."""
    stop = copy.stopped
    return PartitionStatus(
        partition=copy.spec.partition,
        state=copy.state,
        next_offset=copy.next_offset,
        source_end=copy.source_end,
        records=copy.records,
        size_bytes=copy.size_bytes,
        reason=StopReason(stop.reason) if stop else None,
        error=stop.message if stop else None,
        hint=hint_for(copy.spec.partition, stop.hint) if stop else None,
        trouble=copy.trouble.message if copy.trouble else None,
        event=copy.trouble.event if copy.trouble else None,
        bound_by=copy.bound_by(now),
        aligning=copy.aligning(now),
        filled=copy.filled,
        filling_s=copy.filling_s,
    )


def occurrences_of(copy: PartitionCopy, at: datetime) -> list[Occurrence]:
    """What an operator is told of it: every trouble that has begun, its stop, and its notices; each is given once."""
    begun, notices, where = copy.take_begun(), copy.take_notices(), copy.spec.partition
    if not begun and not notices:
        return []  # nearly always: it is asked of every copy that moved, five times a second
    told = [
        of_stop(where, each, at, copy.next_offset)
        if isinstance(each, PartitionStop)
        else of_trouble(where, each, at, "; recovering")
        for each in begun
    ]
    return [*told, *(of_trouble(where, notice, at) for notice in notices)]
