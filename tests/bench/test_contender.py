"""The benchmark's clock of CPU time, on a real process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench.contender import CopyJob, Running
from bench.franz_go import FranzGo

# Ten ticks of the system's clock, which cuts user and system time off: 0 means that nothing was read.
BURN = "import time\nwhile time.process_time() < 0.1: pass"
JOB = CopyJob(workload="tiny", label="test", topics=("orders",), partitions=1)


def test_the_cpu_of_a_contender_that_ended_before_the_last_look_is_read(tmp_path: Path) -> None:
    with Running(FranzGo(), JOB, [sys.executable, "-c", BURN], tmp_path) as running:
        os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)
        running.check(limit_s=60)
        running.tree.look()
        assert running.tree.cpu_s > 0
        running.wait()
