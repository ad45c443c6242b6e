"""A contender: a mirror that is run as a process of its own and copies one topic or some.

Owns how such a process is started, watched and ended, whatever happens: nothing it started stays behind. Must not
know any particular mirror. Every copy goes to a topic nobody has used before: `<label>.<topic>`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import psutil

from bench.clusters import ClusterPair
from bench.measure import ProcessTree
from heliograph.model.errors import HeliographError

ROOT = Path(__file__).resolve().parents[1]
END_TIMEOUT_S = 30.0
LOG_TAIL_LINES = 25


class ContenderFailed(HeliographError):
    """A contender ended early, with an error, or not in time; the message ends with its log."""

    exit_code = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyJob:
    """One copy. An `endless` one tails the source until it is ended; the others end when they caught up."""

    workload: str
    label: str
    topics: tuple[str, ...]
    partitions: int  # of each topic
    codec: str = "none"  # of the batches that a mirror makes of records: as they are compressed on the source
    records: int = 0  # that a consumer reads
    offsets: int = 0  # the sum of the source partitions' ends
    endless: bool = False

    @property
    def target_topics(self) -> tuple[str, ...]:
        return tuple(f"{self.label}.{topic}" for topic in self.topics)


class Contender(Protocol):
    """`lane_mark` is an argument by which the processes of its lanes are known, if it has lanes.

    `ends_itself`: it ends when it has caught up. `tails`: it can run an endless job. `reads_committed`: it leaves
    aborted records out. `keeps_offsets`: its target ends where the source does, whatever took the offsets there; with
    the others it holds what a consumer of the source reads, at offsets of its own.
    """

    @property
    def name(self) -> str: ...
    @property
    def code(self) -> str: ...
    @property
    def lane_mark(self) -> str | None: ...
    @property
    def ends_itself(self) -> bool: ...
    @property
    def tails(self) -> bool: ...
    @property
    def reads_committed(self) -> bool: ...
    @property
    def keeps_offsets(self) -> bool: ...

    def prepare(self, job: CopyJob, pair: ClusterPair, directory: Path) -> Sequence[str]:
        """Writes what the mirror needs into an empty directory; the command that runs it."""
        ...


class Running:
    """A contender's process tree. Leaving the context ends all of it."""

    def __init__(self, contender: Contender, job: CopyJob, command: Sequence[str], directory: Path) -> None:
        self._contender = contender
        self.ends_itself = contender.ends_itself and not job.endless
        self._log_path = directory / "output.log"
        with self._log_path.open("wb") as log:
            self.started_at = time.monotonic()
            # A session of its own: Ctrl-C reaches the harness alone, which then ends the mirror in order.
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.tree = ProcessTree(self._process.pid, contender.lane_mark)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.started_at

    def check(self, limit_s: float) -> None:
        """Raises when it failed or takes too long. One that ended well may still be about to be seen so."""
        code = self._ended_with()
        if code is not None and (code != 0 or not self.ends_itself):
            raise self.failure(f"ended with exit code {code}")
        if self.age_s > limit_s:
            raise self.failure(f"was not done within {limit_s:.0f} s")

    def _ended_with(self) -> int | None:
        """Its exit code once it has ended. It is not reaped: until then its CPU time can still be read, and the look
        before may be 0.1 s old, much of what a mirror takes that is done within a second."""
        if self._process.returncode is not None:
            return self._process.returncode
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def wait(self) -> None:
        """Waits for its own orderly end."""
        try:
            code = self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise self.failure(f"had copied all and did not end within {END_TIMEOUT_S:.0f} s") from None
        if code != 0:
            raise self.failure(f"had copied all and ended with exit code {code}")

    def end(self) -> int:
        """Ends the whole tree; how many of its processes outlived the root and had to be killed."""
        if self._process.poll() is None:
            self.tree.look()
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        left = self.tree.survivors()
        for process in left:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(left, timeout=END_TIMEOUT_S)
        return len(left)

    def failure(self, what: str) -> ContenderFailed:
        lines = self._log_path.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        tail = "\n".join(f"  {line}" for line in lines) or "  (nothing)"
        return ContenderFailed(
            f"{self._contender.name} {what}; the end of its output:\n{tail}",
            hint="run the same command by itself to see more",
        )
