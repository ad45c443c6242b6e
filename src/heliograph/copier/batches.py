"""What a copy holds: batches as they came from the source, and what is made of them for the target.

Both keep memory of the lane's budget alive; `release` gives it back, once.
"""

from __future__ import annotations

from typing import NamedTuple

from heliograph.copier.budget import Hold
from heliograph.model.position import Position
from heliograph.wire.batch import BatchHeader
from heliograph.wire.runs import Run


class SourceBatch(NamedTuple):
    """A batch as it was fetched, or a run of small ones that may be merged; nothing is decided about it yet. `recoded`:
    we made it, so that it can go as it is."""

    run: Run
    hold: Hold
    recoded: bool = False

    @property
    def header(self) -> BatchHeader:
        return self.run.header

    @property
    def perishable(self) -> bool:
        """Its records are so old that the target's broker may forget our producer id right behind it."""
        return self.run.old

    @property
    def size_bytes(self) -> int:
        return len(self.run.view)

    def release(self) -> None:
        self.hold.release()


class SourceGap(NamedTuple):
    """Offsets [first_offset, next_offset) of the source that hold no record to copy: control batches and aborted ones,
    whose headers were seen, what compaction took, records that are left out, and what retention took before it was
    copied. Holds no memory.

    `contested`: a former holder of the partition may have read records there and sent them. By their sequence number
    they would be the next ones still, so it is filled only when nothing of his can arrive any more."""

    first_offset: int
    next_offset: int
    contested: bool = False


class Append(NamedTuple):
    """A batch ready to be appended at exactly `start.target`; behind it the copy is at `end`. `batches`: how many of
    the source's are in it."""

    start: Position
    end: Position
    records: int
    perishable: bool
    max_timestamp: int
    batch: memoryview
    hold: Hold
    batches: int = 1

    def release(self) -> None:
        self.hold.release()
