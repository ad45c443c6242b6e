"""A demo that is interrupted takes everything with it: brokers, Spark, the processes beside it, and files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

COMMAND = [sys.executable, "-m", "heliograph.interface.cli.main", "demo", "--records", "300000"]


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("starting two real", signal.SIGINT),
        ("starting two real", signal.SIGTERM),
        ("records are written meanwhile", signal.SIGINT),
        ("copied in", signal.SIGINT),
        ("kill -9", signal.SIGTERM),
        ("comparing every record", signal.SIGINT),
        ("comparing every record", signal.SIGTERM),
    ],
)
def test_a_demo_that_is_interrupted_leaves_nothing_behind(
    tmp_path: Path, words: str, number: signal.Signals
) -> None:
    places = tmp_path / "places"
    places.mkdir()
    log = tmp_path / "demo.log"
    with log.open("w") as stderr:
        demo = subprocess.Popen(
            COMMAND,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env={**os.environ, "TMPDIR": str(places)},
        )
    deadline = time.monotonic() + 120
    while words not in log.read_text():
        assert demo.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    time.sleep(0.5)
    demo.send_signal(number)
    assert demo.wait(timeout=30) != 0
    assert "Traceback" not in log.read_text()
    assert _left(places) == []
    assert [place.name for place in places.glob("heliograph-lab-*")] == []


def _left(places: Path) -> list[list[str]]:
    """The commands of all processes that have inherited our environment, whatever session they are in."""
    deadline = time.monotonic() + 5  # Spark's JVM goes by itself when its driver is gone
    while True:
        left = [each.cmdline() for each in psutil.process_iter() if _is_of(places, each)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


def _is_of(places: Path, process: psutil.Process) -> bool:
    try:
        return process.environ().get("TMPDIR") == str(places)
    except psutil.Error:
        return False
