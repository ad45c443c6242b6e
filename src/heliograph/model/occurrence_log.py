"""The log as a listener of the outbox: a line for each occurrence, with its code and fields for machines.

Warnings about partitions may come by the thousand, when a broker moves or copiers race. Of one code and link the first
few in ten seconds are lines of their own; the others are joined into one that says how many they were. Stops and
whatever is about the run are never joined. Must not know how lines look: interface/cli/logs.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from heliograph.model.clock import clock_of_waits
from heliograph.model.events import Code, Event, Severity
from heliograph.model.occurrence import Occurrence
from heliograph.model.outbox import Outbox

WINDOW_S = 10.0
LINES = 10  # of one code and link in a window: what a few partitions meet is told in full

_LEVELS = {Severity.INFO: logging.INFO, Severity.WARNING: logging.WARNING, Severity.ERROR: logging.ERROR}
_log = logging.getLogger("heliograph")
_spark_log = logging.getLogger(
    "heliograph.spark"
)  # beside what else Spark's JVM prints (engine/spark_lines.py)

Joint = tuple[Code, str | None]  # what may be joined: code and link


@dataclass(slots=True)
class _Window:
    began_at: float
    lines: int = 0
    joined: int = 0


class OccurrenceLog:
    def __init__(self, clock: Callable[[], float] = clock_of_waits) -> None:
        self._clock = clock
        self._windows: dict[Joint, _Window] = {}

    def hear(self, occurrence: Occurrence) -> None:
        if occurrence.partition is None or occurrence.severity is not Severity.WARNING:
            _write(occurrence)
            return
        self.flush()
        joint = (occurrence.code, occurrence.link)
        window = self._windows.setdefault(joint, _Window(self._clock()))
        if window.lines < LINES:
            window.lines += 1
            _write(occurrence)
        else:
            window.joined += 1

    def flush(self, *, over: bool = False) -> None:
        now = self._clock()
        for joint, window in list(self._windows.items()):
            if over or now - window.began_at >= WINDOW_S:
                del self._windows[joint]
                if window.joined:
                    _write_joined(*joint, window, now)


def _write(occurrence: Occurrence) -> None:
    log = _spark_log if occurrence.code is Event.SPARK_ERROR else _log
    extra = {"event": occurrence.code, "occurrence": occurrence}
    log.log(_LEVELS[occurrence.severity], "%s", occurrence.words, extra=extra)


def _write_joined(code: Code, link: str | None, window: _Window, now: float) -> None:
    words = "link %s: %d more like the %d before, in %.0f s"
    args = (link, window.joined, window.lines, now - window.began_at)
    _log.warning(words, *args, extra={"event": code, "joined": window.joined})


def logged() -> Outbox:
    """An outbox that the log listens to."""
    return Outbox(OccurrenceLog())
