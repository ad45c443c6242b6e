"""Two runs of one config: one copies, the other stands by and takes over.

Owns both processes, and whatever was started in their place. Must not know what is done to them, nor what they copy.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .mirror_process import MirrorProcess

LANES = 2
LIMIT_S = 120.0
LOOK_S = 0.05
SHOWN_CHARACTERS = 10_000


class TwoRuns:
    """Of a config whose only link is called `link`. Enter it: both are started."""

    def __init__(self, config: Path, place: Path) -> None:
        self._runs: list[MirrorProcess] = []
        self._ended: list[MirrorProcess] = []
        for number in range(2):
            runtime = place / f"run-{number}"
            runtime.mkdir()
            self._runs.append(MirrorProcess(config, runtime=runtime))

    def __enter__(self) -> Self:
        for run in self._runs:
            run.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for run in self._runs:
            run.__exit__()

    @property
    def logs(self) -> list[str]:
        """Of all runs that there were."""
        return [run.log for run in (*self._ended, *self._runs)]

    def wait(self, condition: Callable[[], bool], what: str, timeout_s: float = LIMIT_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"no {what} in {timeout_s:g} s:\n{self.shown()}"
            time.sleep(LOOK_S)

    def shown(self) -> str:
        """How each stands and what it said last, for a failure's words."""
        shown = []
        for run in self._runs:
            rows = [_told(row) for row in (run.live() if run.running else {}).get("partitions", [])]
            shown.append("\n".join([f"--- {run.pid}, {_role(run)}:", *rows, run.log[-SHOWN_CHARACTERS:]]))
        return "\n".join(shown)

    # -- who does what

    def active(self) -> MirrorProcess:
        """The run that copies, once there is one."""
        found: list[MirrorProcess] = []

        def look() -> bool:
            found[:] = [run for run in self._runs if _role(run) == "active"]
            return bool(found)

        self.wait(look, "run that is active")
        return found[0]

    def other(self, run: MirrorProcess) -> MirrorProcess:
        (other,) = [each for each in self._runs if each is not run]
        return other

    def row(self, run: MirrorProcess, topic: str, partition: int) -> dict[str, Any]:
        """What it says of a partition; empty while it cannot be asked."""
        for row in run.live().get("partitions", []):
            if row["key"][2:] == [topic, partition]:
                found: dict[str, Any] = row
                return found
        return {}

    def in_state(self, state: str) -> list[dict[str, Any]]:
        """What the runs that can be asked say of partitions in this state."""
        rows = [row for run in self._runs if run.running for row in run.live().get("partitions", [])]
        return [row for row in rows if row["state"] == state]

    def lane_pid(self, run: MirrorProcess, topic: str, partition: int) -> int | None:
        """The process of the lane that holds a partition; None while none does."""
        lane = self.row(run, topic, partition).get("lane")
        pids: list[int | None] = [each["pid"] for each in run.live().get("lanes", []) if each["lane"] == lane]
        return pids[0] if pids else None

    def stands_by(self, run: MirrorProcess) -> bool:
        return _role(run) == "standby" and len(run.lane_pids()) == LANES

    # -- mending and ending

    def replace(self, run: MirrorProcess) -> None:
        """Start another one in the place of one that was killed."""
        self._ended.append(run)
        self._runs[self._runs.index(run)] = run.again()

    def wait_whole(self) -> None:
        """Until one copies with all its lanes, and the other one stands by."""

        def whole() -> bool:
            roles = sorted(_role(run) or "" for run in self._runs)
            return roles == ["active", "standby"] and all(len(run.lane_pids()) == LANES for run in self._runs)

        self.wait(whole, "pair of runs")

    def finish(self) -> None:
        """Both end well, and none has ever stopped a partition."""
        for run in self._runs:
            run.terminate()
        codes = [run.wait()[0] for run in self._runs]
        assert codes == [0, 0], f"{codes}:\n{self.shown()}"
        assert not any("is stopped" in each for each in self.logs), self.shown()


def _told(row: dict[str, Any]) -> str:
    where, problem = row["key"][2:], row["error"] or row["trouble"]
    at = f"at {row['next_offset']} of {row['source_end']}, lane {row['lane']}, aligning {row['aligning']}"
    return f"  {where} {row['state']} {at}: {problem}"


def _role(run: MirrorProcess) -> str | None:
    """None while it cannot be asked."""
    role: str | None = run.live().get("links", {}).get("link", {}).get("role") if run.running else None
    return role
