"""Events that wait to be written, a bounded number of them. No I/O.

Owns what becomes of those that do not fit: they are counted, and the count stands where they are missing.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from datetime import datetime

from heliograph.model.events import Event
from heliograph.model.occurrence import Occurrence

QUEUE_LIMIT = 10_000  # about 5 MB


@dataclass(slots=True)
class LeftOut:
    """Stands in the queue where events are missing, `since` the first of them."""

    since: datetime
    count: int

    @property
    def occurrence(self) -> Occurrence:
        return Occurrence(
            at=self.since,
            code=Event.EVENTS_LEFT_OUT,
            message=f"{self.count} events were left out: they are in the run's log only",
        )


Waiting = Occurrence | LeftOut


def count_of(event: Waiting) -> int:
    return event.count if isinstance(event, LeftOut) else 1


class EventQueue:
    """May be used from any thread. The lock is held for moments only."""

    def __init__(self, limit: int = QUEUE_LIMIT) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._waiting: deque[Waiting] = deque()
        self._closed = False

    def put(self, occurrence: Occurrence) -> None:
        with self._lock:
            if self._closed:
                return
            if len(self._waiting) < self._limit:
                self._waiting.append(occurrence)
                return
            last = self._waiting[-1]
            if isinstance(last, LeftOut):
                last.count += 1
            else:
                self._waiting.append(LeftOut(occurrence.at, 1))

    def put_back(self, left_out: LeftOut) -> None:
        """In the place of events that were taken."""
        with self._lock:
            self._waiting.appendleft(left_out)

    def take(self) -> Waiting | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    def close(self) -> int:
        """Take in nothing more. How many events are thrown away."""
        with self._lock:
            self._closed = True
            lost = sum(map(count_of, self._waiting))
            self._waiting.clear()
            return lost
