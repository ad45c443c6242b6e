"""The clocks of a simulated process's machine. A hypervisor that pauses it stops them; the time of day may be set right
afterwards. What production makes of them (model/clock.py) is kept here for each process: there it is one for each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from unittest.mock import patch

from heliograph.model import clock
from heliograph.model.clock import HoldingClock, clock_of_suspended_time

if TYPE_CHECKING:
    from .schedule import Schedule


@dataclass(slots=True)
class MachineClocks:
    """`paused_s`: for how long in all it was paused, and its steady clock stood still. `wall_behind_s`: by how much of
    that its time of day is behind. `gap_s`, `ahead_s`: HoldingClock's own."""

    paused_s: float = 0.0
    wall_behind_s: float = 0.0
    gap_s: float = 0.0
    ahead_s: float = 0.0


@contextmanager
def each_with_its_own(schedule: Schedule) -> Iterator[None]:
    """Whoever asks for the time is told that of the process that runs."""

    def steady() -> float:
        return schedule.now - schedule.clocks.paused_s

    def wall() -> float:
        return schedule.now - schedule.clocks.wall_behind_s

    class Time:
        CLOCK_BOOTTIME = 0

        @staticmethod
        def clock_gettime(_which: int) -> float:
            return steady()

        @staticmethod
        def time() -> float:
            return wall()

    class ClockOfProcess(HoldingClock):
        @property
        def _gap_s(self) -> float:
            return schedule.clocks.gap_s

        @_gap_s.setter
        def _gap_s(self, gap_s: float) -> None:
            schedule.clocks.gap_s = gap_s

        @property
        def _ahead_s(self) -> float:
            return schedule.clocks.ahead_s

        @_ahead_s.setter
        def _ahead_s(self, ahead_s: float) -> None:
            schedule.clocks.ahead_s = ahead_s

    the_one = clock_of_suspended_time
    with (
        patch.object(clock, "time", Time),
        patch.object(the_one, "_steady", steady),
        patch.object(the_one, "_wall", wall),
    ):
        the_one.__class__ = ClockOfProcess
        try:
            yield
        finally:
            the_one.__class__ = HoldingClock
