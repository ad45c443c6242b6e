"""Which line each lane speaks on, and which lane gives no sign of life any more. No I/O, no clock: ticks are counted.

A newer line of a lane replaces the older. Lanes send a heartbeat every second, with the pulse of their data loop. A
lane that is silent, or whose pulse stands still, is frozen or lost: it must not hold its partitions for ever. Silence
is counted in ticks of whoever listens and not by the clock: a driver that slept itself blames no lane for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from heliograph.engine.orders import Heartbeat, Report

SILENT_TICKS = 10  # of a second each (control_server.py)

Line = TypeVar("Line")


class LaneLine(Generic[Line]):
    """A lane's line as the driver knows it, from its first word to its end."""

    def __init__(self, lane: int, line: Line) -> None:
        self.lane = lane
        self.line = line
        self._ticks = 0
        self._pulse: int | None = None

    @property
    def silent(self) -> bool:
        return self._ticks >= SILENT_TICKS

    def tick(self) -> bool:
        """To be called every second. Whether the lane has given no sign of life for long."""
        self._ticks += 1
        return self.silent

    def heard(self, report: Report) -> None:
        if isinstance(report, Heartbeat):
            if report.pulse == self._pulse:
                return
            self._pulse = report.pulse
        self._ticks = 0

    def cut(self) -> None:
        """It broke, and was not closed: the lane may be alive, and go on for a while."""
        self._ticks = SILENT_TICKS


class LaneLines(Generic[Line]):
    """`on_report(lane, report)`; `on_gone(lane)` when the line of a lane has ended and no newer one is there, and
    `on_silent(lane)` before that where nothing came from the lane, or the line was cut."""

    def __init__(
        self,
        on_report: Callable[[int, Report], None],
        on_gone: Callable[[int], None],
        on_silent: Callable[[int], None],
    ) -> None:
        self._on_report = on_report
        self._on_gone = on_gone
        self._on_silent = on_silent
        self._lines: dict[int, LaneLine[Line]] = {}

    def __iter__(self) -> Iterator[Line]:
        return iter([known.line for known in self._lines.values()])

    def of(self, lane: int) -> Line | None:
        known = self._lines.get(lane)
        return known.line if known is not None else None

    def opened(self, lane: int, line: Line) -> LaneLine[Line]:
        """From now on the lane's line; whoever calls closes the older one first."""
        self._lines[lane] = LaneLine(lane, line)
        return self._lines[lane]

    def heard(self, known: LaneLine[Line], report: Report) -> None:
        known.heard(report)
        if self._lines.get(known.lane) is known:
            self._on_report(known.lane, report)

    def ended(self, known: LaneLine[Line]) -> None:
        if self._lines.get(known.lane) is known:
            del self._lines[known.lane]
            if known.silent:
                self._on_silent(known.lane)
            self._on_gone(known.lane)
