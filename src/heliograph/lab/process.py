"""A process that outlives us and is recognised later: written down by pid, start time and argument.

Owns the question "is this pid still the process we started?". Must not know what runs in it.
A pid alone is not enough: the system gives it to somebody else once ours is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

START_TIME_TOLERANCE_S = 2.0  # the system derives start times from a clock that may be adjusted
EXEC_TIMEOUT_S = 2.0
POLL_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """What identifies a process: `argument` is one that no other process on the machine has."""

    pid: int
    started_at: float
    argument: str

    def write(self, path: Path) -> None:
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(asdict(self)))
        unfinished.replace(path)

    def is_running(self) -> bool:
        return self._process() is not None

    def send(self, number: signal.Signals) -> None:
        """Sends a signal if the process is still ours; does nothing if it is gone."""
        process = self._process()
        if process is not None:
            # Not by psutil: it compares exact start times before it sends, and the time of the system's start, which
            # they are counted from, may differ by a second from one look to the next.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)

    def is_stopped(self) -> bool:
        """Whether every thread of it has taken a SIGSTOP; where there is no /proc, the process's own word."""
        tasks = list(Path(f"/proc/{self.pid}/task").glob("*/stat"))
        if not tasks:
            process = self._process()
            return process is None or process.status() == psutil.STATUS_STOPPED
        with contextlib.suppress(OSError):
            return all(task.read_text().rpartition(")")[2].split()[0] in "Tt" for task in tasks)
        return False  # a thread ended while it was looked at

    def end(self, number: signal.Signals, *, timeout_s: float) -> bool:
        """Sends a signal that ends it and waits; True when it is gone, with its ports and files."""
        process = self._process()
        self.send(number)
        deadline = time.monotonic() + timeout_s
        while process is not None and not _is_gone(process):
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True

    def _process(self) -> psutil.Process | None:
        try:
            process = psutil.Process(self.pid)
            near = abs(process.create_time() - self.started_at) <= START_TIME_TOLERANCE_S
            if near and self.argument in _arguments(process):
                return process
        except psutil.NoSuchProcess:
            pass
        return None


def _arguments(process: psutil.Process) -> list[str]:
    # A process has no arguments for a moment while it becomes another program (seen in 1 of 20 starts),
    # and again while it ends: ask until it has some or is gone.
    deadline = time.monotonic() + EXEC_TIMEOUT_S
    while not _is_gone(process):
        arguments = process.cmdline()
        if arguments or time.monotonic() > deadline:
            return arguments
        time.sleep(POLL_S)
    return []


def _is_gone(process: psutil.Process) -> bool:
    try:
        # Our own child: it is gone, with all its threads, when the system lets us collect it.
        return os.waitpid(process.pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        try:
            return not psutil.pid_exists(process.pid) or process.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True


def read_record(path: Path) -> ProcessRecord | None:
    """What was written down at `path`; None if nothing usable was."""
    try:
        return ProcessRecord(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def start_detached(command: Sequence[str], *, argument: str, log_path: Path) -> ProcessRecord:
    """Starts a process in a session of its own: it survives our shell and its Ctrl-C."""
    assert argument in command
    with log_path.open("ab") as log:
        started = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    started_at = psutil.Process(started.pid).create_time()
    # From here on the record is in charge; Popen would only warn that its child still runs.
    started.returncode = 0
    return ProcessRecord(pid=started.pid, started_at=started_at, argument=argument)
