"""Events of several logs in the order in which they happened, and the newest of them. Pure; memory is bounded.

A log is nearly in that order by itself: runs write within a tenth of a second, and later where a cluster was away. So
some events of each log are held back, and one that comes no more than so many places late is put in its place.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Sequence
from datetime import datetime

from heliograph.operations.recorded_event import RecordedEvent

WINDOW = 1000  # about 1 MB of each log, and more than runs write while one of them waits to try again


class TimeOrder:
    """`put` what is `wanting`, `end` what has no more, `take` what is next, until it `is_over`. Logs go by number: of
    events of one time those of the first log come first."""

    def __init__(self, logs: int, window: int = WINDOW) -> None:
        self._held: list[list[tuple[datetime, int, int, RecordedEvent]]] = [[] for _ in range(logs)]
        self._more = set(range(logs))  # logs that have not ended
        self._window = window
        self._numbers = itertools.count()

    @property
    def wanting(self) -> list[int]:
        """Logs of which more is needed before anything can be taken."""
        return [log for log in sorted(self._more) if len(self._held[log]) <= self._window]

    @property
    def is_over(self) -> bool:
        return not self._more and not any(self._held)

    def put(self, log: int, events: Iterable[RecordedEvent]) -> None:
        for event in events:
            heapq.heappush(self._held[log], (event.at, log, next(self._numbers), event))

    def end(self, log: int) -> None:
        self._more.discard(log)

    def take(self) -> list[RecordedEvent]:
        taken = []
        while not self.wanting and (heads := [held for held in self._held if held]):
            taken.append(heapq.heappop(min(heads, key=_head))[-1])
        return taken


def _head(held: Sequence[tuple[datetime, int, int, RecordedEvent]]) -> tuple[datetime, int, int]:
    return held[0][:3]


class Newest:
    """The `most` newest of all that were put in, by the time at which they happened."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: list[tuple[datetime, int, RecordedEvent]] = []
        self._count = 0

    def put(self, events: Iterable[RecordedEvent]) -> None:
        for event in events:
            entry = (event.at, self._count, event)
            self._count += 1
            if len(self._kept) < self._most:
                heapq.heappush(self._kept, entry)
            else:
                heapq.heappushpop(self._kept, entry)

    @property
    def events(self) -> list[RecordedEvent]:
        return [event for _, _, event in sorted(self._kept, key=lambda entry: entry[:2])]

    @property
    def left_out(self) -> int:
        return self._count - len(self._kept)
