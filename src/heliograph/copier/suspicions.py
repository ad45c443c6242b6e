"""What an answer has left open about the logs, for the next resynchronisation to tell. No I/O.

Somebody may have been first where nobody could be, and the source may no longer hold what was copied from it.
"""

from __future__ import annotations

from heliograph.copier.stops import diverged, rival
from heliograph.model.errors import PartitionStop
from heliograph.model.position import Position


class Suspicions:
    def __init__(self) -> None:
        self._raced_at: int | None = None  # where an append was refused that nobody could have been before
        self._diverged_at: int | None = None  # the source no longer holds what it held from here on

    def raced(self, target_offset: int) -> None:
        self._raced_at = target_offset

    def source_ends(self, source_offset: int) -> None:
        """Of a leader epoch that was read beyond that."""
        self._diverged_at = source_offset

    def judge(self, position: Position) -> PartitionStop | None:
        """By where the copy stands, as the target has it. Whatever is not confirmed is over."""
        raced_at, diverged_at = self._raced_at, self._diverged_at
        self._raced_at = self._diverged_at = None
        if diverged_at is not None and position.source > diverged_at:
            return diverged(diverged_at, position.source)
        if raced_at is not None and position.target > raced_at:
            return rival(raced_at)
        return None
