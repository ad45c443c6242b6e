"""The clock of leases. Everything that decides takes the time as an argument; this is where it comes from."""

from __future__ import annotations

import time


def clock_of_suspended_time() -> float:
    """Seconds, counted also while the machine is suspended, where the system has such a clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
