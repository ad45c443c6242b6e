"""How long this process has been running: imports take a second of a run's start, and nobody else counts it."""

from __future__ import annotations

import os
import time
from pathlib import Path

_START_FIELD = (
    19  # of what follows the command's name in /proc/PID/stat: starttime, in clock ticks since the boot
)


def process_age_s() -> float:
    """0 where the system does not tell."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        began_s = int(fields[_START_FIELD]) / os.sysconf("SC_CLK_TCK")
        return max(time.clock_gettime(time.CLOCK_BOOTTIME) - began_s, 0.0)
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
