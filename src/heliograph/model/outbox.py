"""The outbox of a run: whatever an operator is told goes through it, from the driver and from its lanes.

    copies ─▶ lane ─▶ control line ─┐
    controller, engine ─────────────┴─▶ Outbox ─┬─▶ listeners, at once: the log (occurrence_log.py), and
                                                │   the target clusters (controller/event_writer.py)
                                                └─▶ counts and the last ones: the display, the live socket

Counted for each code, never sampled. May be used from any thread: listeners hear of one occurrence at a time.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import Protocol

from heliograph.model.clock import time_of_day
from heliograph.model.events import Code
from heliograph.model.occurrence import Occurrence

LAST = 100


class Listener(Protocol):
    def hear(self, occurrence: Occurrence) -> None: ...

    def flush(self, *, over: bool) -> None:
        """Tell what was put off, if its time has come. `over`: the run is."""


class Outbox:
    def __init__(self, *listeners: Listener) -> None:
        self._listeners = list(listeners)
        self._lock = threading.Lock()
        self._counts: Counter[Code] = Counter()
        self._last: deque[Occurrence] = deque(maxlen=LAST)

    @property
    def counts(self) -> dict[Code, int]:
        with self._lock:
            return dict(self._counts)

    @property
    def last(self) -> list[Occurrence]:
        """The newest at the end."""
        with self._lock:
            return list(self._last)

    def tell(self, code: Code, message: str, *, hint: str | None = None, link: str | None = None) -> None:
        """Something that happens now, about the run or a link as a whole."""
        self.put(Occurrence(at=time_of_day(), code=code, message=message, hint=hint, link=link))

    def attach(self, listener: Listener) -> None:
        """From now on it listens, too. It hears first of what was told before, as far as that is kept (`last`): nothing
        twice, and nothing in another order."""
        with self._lock:
            for occurrence in self._last:
                listener.hear(occurrence)
            self._listeners.append(listener)

    def put(self, occurrence: Occurrence) -> None:
        with self._lock:
            self._counts[occurrence.code] += 1
            self._last.append(occurrence)
            for listener in self._listeners:
                listener.hear(occurrence)

    def flush(self, *, over: bool = False) -> None:
        """To be called every now and then, and when the run is over."""
        with self._lock:
            for listener in self._listeners:
                listener.flush(over=over)
