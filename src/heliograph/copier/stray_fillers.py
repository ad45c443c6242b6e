"""Fillers that came back: where they end, so that they can be deleted again. Sans I/O.

A broker writes down where its logs start once a minute. One that is killed before, with no other replica that knows
better, comes back with what was deleted: consumers of the target would read an alignment's fillers
(copier/alignment.py).

    │ filler │ filler │ filler │ data │ ... │ data │        all are in front of the first data batch:
    ▲ the target's start                                     a binary search finds it
"""

from __future__ import annotations

from heliograph.cluster.log_reads import Batches, LogSpan
from heliograph.copier.ports import Batch
from heliograph.copier.questions import Asking, ReadTargetBatches
from heliograph.copier.tail import Tail
from heliograph.model.errors import CorruptBatch
from heliograph.wire.filler import is_filler


def stray_fillers_end(goal: int, target: LogSpan, tail: Tail) -> Asking[int | None]:
    """None: there are none. They are only ever below the goal of their alignment. Nobody asks while they are the
    target's last batch, which says that an alignment is under way; but markers may be all that is behind them."""
    if tail.data is None:
        return None
    fillers_to, data_from = target.start, tail.data[0].base_offset
    if holds_filler(tail.data):
        data_from = tail.markers_from
    if fillers_to >= min(goal, data_from):
        return None
    at = target.start
    while fillers_to < data_from:
        batches = yield ReadTargetBatches(at, at + 1)
        assert isinstance(batches, Batches)
        if not batches.headers:
            return None  # another one deletes them
        header = batches.headers[0]
        if holds_filler((header, batches.views[0])):
            fillers_to = header.next_offset
        else:
            data_from = max(min(header.base_offset, at), fillers_to)
        at = (fillers_to + data_from) // 2
    return fillers_to if fillers_to > target.start else None


def holds_filler(batch: Batch) -> bool:
    try:
        return is_filler(*batch)
    except CorruptBatch:
        return False
