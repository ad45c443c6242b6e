"""A segment's index of offsets, as far as it shows: up to which offset a broker looks for aborted transactions.

A broker knows how many bytes it reads, and asks the index which offset that ends at. The index has an entry every few
thousand bytes, so that the answer may be far behind the last batch that is read; without an entry there it is the log's
end. Must not know batches.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

INTERVAL_BYTES = 4096  # index.interval.bytes


@dataclass(slots=True)
class OffsetIndex:
    interval_bytes: int = INTERVAL_BYTES
    _offsets: list[int] = field(default_factory=list)
    _positions: list[int] = field(default_factory=list)
    _since_bytes: int = 0

    def appended(self, last_offset: int, position: int, size_bytes: int) -> None:
        if self._since_bytes > self.interval_bytes:
            self._offsets.append(last_offset)
            self._positions.append(position)
            self._since_bytes = 0
        self._since_bytes += size_bytes

    def bound_of(self, end_position: int) -> int | None:
        """An offset at or behind this position of the file; None: behind the last entry."""
        at = bisect_left(self._positions, end_position)
        if at == 0 and self._positions[:1] == [end_position]:
            at = 1  # a broker's search never finds the first entry itself
        return self._offsets[at] if at < len(self._positions) else None

    def truncate(self, end: int) -> None:
        while self._offsets and self._offsets[-1] >= end:
            self._offsets.pop()
            self._positions.pop()
        self._since_bytes = 0
