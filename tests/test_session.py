"""The test session itself: what it started it takes down, also when it is told to end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LIMIT_S = 30.0
SESSION = """
import asyncio, pathlib, signal, time
import pytest

HERE = pathlib.Path(__file__).parent

@pytest.fixture(scope="session")
def cluster():
    yield
    (HERE / "down").touch()

async def test_that_handles_the_signal_itself(cluster):
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, print)

def test_that_waits(cluster):
    (HERE / "up").touch()
    time.sleep(60)

async def test_that_awaits(cluster):
    (HERE / "up").touch()
    await asyncio.sleep(60)
"""


@pytest.mark.parametrize("waits", ["waits", "awaits"])
def test_a_session_that_is_terminated_takes_its_fixtures_down(tmp_path: Path, waits: str) -> None:
    (tmp_path / "test_it.py").write_text(SESSION)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "--rootdir", str(tmp_path)]
    path = os.pathsep.join(each for each in (str(ROOT), os.environ.get("PYTHONPATH")) if each)
    session = subprocess.Popen(
        [*command, "-k", f"handles or {waits}"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + LIMIT_S
        while not (tmp_path / "up").exists():
            assert session.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        session.terminate()
        assert session.wait(LIMIT_S) == pytest.ExitCode.INTERRUPTED
    finally:
        session.kill()
        session.wait()
    assert (tmp_path / "down").exists()
