"""What a copy holds: batches as they came from the source, and what is made of them for the target.

Both keep memory of the lane's budget alive; `release` gives it back, once.
"""

from __future__ import annotations

from typing import NamedTuple

from heliograph.copier.budget import Hold
from heliograph.model.position import Position
from heliograph.wire.batch import BatchHeader


class SourceBatch(NamedTuple):
    """A batch as it was fetched; nothing is decided about it yet. `perishable`: its records are so old that the
    target's broker may forget our producer id right behind it."""

    header: BatchHeader
    batch: memoryview
    perishable: bool
    hold: Hold

    @property
    def size_bytes(self) -> int:
        return len(self.batch)

    def release(self) -> None:
        self.hold.release()


class Append(NamedTuple):
    """A batch ready to be appended at exactly `start.target`; behind it the copy is at `end`."""

    start: Position
    end: Position
    records: int
    perishable: bool
    max_timestamp: int
    batch: memoryview
    hold: Hold

    def release(self) -> None:
        self.hold.release()
