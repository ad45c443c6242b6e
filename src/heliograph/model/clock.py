"""The clocks of leases. Everything that decides takes the time as an argument; this is where it comes from.

A right that we *hold* must end too early rather than too late. What we *wait out* must take too long rather than too
short. No one clock is right for both: a hypervisor that pauses a machine stops all of its clocks, and afterwards they
go on as if nothing had been, until somebody sets the time of day right.

    clock_of_suspended_time    for what we hold: a jump ahead of the time of day counts as time that has passed
    clock_of_waits             for what we wait out: never jumps
    time_of_day                for people to read, and for nothing that is decided

Durations may be handed from one to the other, moments may not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

# Less is noise: a thread that is put aside between two looks, or a small correction. Whoever takes a partition over
# waits for 5 s at least after the lease (cluster/flight.py), so a lease may be wrong by this much.
JUMP_S = 2.0

Clock = Callable[[], float]


def clock_of_waits() -> float:
    """Seconds, counted also while the machine is suspended, where the system has such a clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def time_of_day() -> datetime:
    """It may jump, and other machines have another one."""
    return datetime.fromtimestamp(time.time(), UTC)


class HoldingClock:
    """Goes with `steady`, and jumps ahead with the time of day (`wall`), never back. May be read from any thread."""

    def __init__(self, steady: Clock = clock_of_waits, wall: Clock = time.time) -> None:
        self._steady = steady
        self._wall = wall
        self._gap_s = wall() - steady()  # constant, unless somebody sets the time of day
        self._ahead_s = 0.0
        self._lock = threading.Lock()

    def __call__(self) -> float:
        with self._lock:
            return self._read()

    def at_least(self, moment: float) -> float:
        """Somebody else has counted up to this moment. How far this clock was behind, and has jumped ahead now; 0.0 if
        it was not, or by no more than noise."""
        with self._lock:
            behind_s = moment - self._read()
            if behind_s <= JUMP_S:
                return 0.0
            self._ahead_s += behind_s
            return behind_s

    def _read(self) -> float:
        steady = self._steady()
        gap_s = self._wall() - steady
        if gap_s < self._gap_s:
            self._gap_s = gap_s  # set back: nothing about how much time has passed
        elif gap_s - self._gap_s > JUMP_S:
            self._ahead_s += gap_s - self._gap_s
            self._gap_s = gap_s
        return steady + self._ahead_s


clock_of_suspended_time = HoldingClock()
