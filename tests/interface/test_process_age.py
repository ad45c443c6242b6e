"""The age of a process is counted from its start, not from when somebody asked first."""

from __future__ import annotations

import subprocess
import sys
import time

from heliograph.interface.cli.process_age import process_age_s

_ASK = """\
import time
time.sleep(0.5)
from heliograph.interface.cli.process_age import process_age_s
print(process_age_s())
"""


def test_the_age_includes_what_came_before_the_question() -> None:
    begun = time.monotonic()
    told = subprocess.run(
        [sys.executable, "-c", _ASK],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert 0.5 <= float(told.stdout) <= time.monotonic() - begun + 0.1


def test_the_age_grows_with_time() -> None:
    first = process_age_s()
    time.sleep(0.05)
    assert 0.03 <= process_age_s() - first < 5.0
