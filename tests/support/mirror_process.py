"""`heliograph run` as a user runs it: a process of its own, asked through its live socket and its exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import psutil
import yaml

from heliograph.controller.live_socket import ask_all

from .client_access import client_properties

START_LIMIT_S = 120.0
RUN_LIMIT_S = 240.0
POLL_S = 0.05


def write_config(
    directory: Path,
    *,
    source: str | Mapping[str, str],
    target: str | Mapping[str, str],
    topics: list[str],
    master: str = "local[2]",
    link: Mapping[str, Any] | None = None,
    conf: Mapping[str, str] | None = None,
    lanes: int | str = "auto",
    python: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> Path:
    """A heliograph.yaml with one link between two clusters: bootstrap servers, or all client properties. `properties`:
    of both in addition."""
    document = {
        "version": 1,
        "clusters": {
            "src": {**client_properties(source), **(properties or {})},
            "dst": {**client_properties(target), **(properties or {})},
        },
        "links": {"link": {"source": "src", "target": "dst", "topics": topics, **(link or {})}},
        "lanes": lanes,
        "spark": {"master": master, "conf": dict(conf or {}), **({"python": python} if python else {})},
    }
    path = directory / "heliograph.yaml"
    path.touch(0o600)  # passwords may be in it
    path.write_text(yaml.safe_dump(document))
    return path


class MirrorProcess:
    """Ends what it started, whatever happens; `log` is what it wrote to stderr. `code`: where its package is, if not
    where that of the tests is."""

    def __init__(self, config: Path, *arguments: str, runtime: Path, code: Path | None = None) -> None:
        self._config, self._arguments, self._code = config, arguments, code
        self._log_path = runtime / f"mirror-{time.monotonic_ns()}.log"
        elsewhere = {"PYTHONPATH": str(code)} if code is not None else {}
        self._environment = {**os.environ, "XDG_RUNTIME_DIR": str(runtime), **elsewhere}
        self._runtime = runtime
        self._command = [
            sys.executable,
            "-m",
            "heliograph.interface.cli.main",
            "run",
            str(config),
            *arguments,
        ]
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        with self._log_path.open("w") as log:
            self.process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=log, text=True, env=self._environment
            )
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process is not None
        if self.process.poll() is None:
            family = self.family()
            self.process.kill()
            _kill(family)
        self.process.communicate()

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def again(self) -> MirrorProcess:
        """The same command, started again; whatever is left of this one is ended."""
        self.__exit__()
        same = MirrorProcess(self._config, *self._arguments, runtime=self._runtime, code=self._code)
        return same.__enter__()

    @property
    def log(self) -> str:
        return self._log_path.read_text()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def family(self) -> list[psutil.Process]:
        """The processes it has started, and theirs."""
        try:
            return psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def wait(self, timeout_s: float = RUN_LIMIT_S) -> tuple[int, str]:
        """Exit code and stdout."""
        assert self.process is not None
        try:
            out, _ = self.process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout_s} s:\n{self.log}") from None
        return self.process.returncode, out

    def result(self, timeout_s: float = RUN_LIMIT_S) -> dict[str, Any]:
        """The JSON of a run that ended well."""
        code, out = self.wait(timeout_s)
        assert code == 0, f"exit {code}:\n{out}\n{self.log}"
        document: dict[str, Any] = json.loads(out)
        return document

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)

    def live(self) -> dict[str, Any]:
        """What it says of itself now; empty while it cannot be asked."""
        os.environ["XDG_RUNTIME_DIR"] = str(self._runtime)
        documents = ask_all()
        return documents[0] if documents else {}

    def lane_pids(self) -> list[int]:
        return [lane["pid"] for lane in self.live().get("lanes", []) if lane["pid"] is not None]

    def copied(self) -> int:
        """Records that are durable on the target, by its own word."""
        return sum(p["next_offset"] for p in self.live().get("partitions", []))

    def wait_until(self, condition: Callable[[], bool], what: str, timeout_s: float = START_LIMIT_S) -> None:
        assert self.process is not None
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert self.process.poll() is None, f"it ended before {what}:\n{self.log}"
            assert time.monotonic() < deadline, f"no {what} in {timeout_s} s:\n{self.log}"
            time.sleep(POLL_S)


def _kill(family: list[psutil.Process]) -> None:
    for member in family:
        try:
            member.kill()
        except psutil.NoSuchProcess:
            continue
