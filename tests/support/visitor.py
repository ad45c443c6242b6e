"""A client in a process of its own that visits peers: how each visit ended, how long it took, and how much memory.

Owns the process and the measuring: the peak is the kernel's, so it counts what OpenSSL takes, too. Must not know the
peers, which live in the test's process: what they hold is not counted.

    with Visitor() as visitor:
        visit = visitor.visit({"bootstrap.servers": "localhost:9093", "security.protocol": "SSL"})

As a program it reads client properties, a JSON object in each line, connects as a mirror's client does, and answers
each with a line.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import uvloop

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.properties import parse_properties
from heliograph.model.errors import HeliographError

ROOT = Path(__file__).parents[2]
CLUSTER = "sf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """`error`: the type's name; empty if the peer was taken for a cluster. `grown_bytes`: the process's peak meanwhile,
    above what it held before."""

    error: str
    message: str
    hint: str
    took_s: float
    grown_bytes: int


class Visitor:
    def __enter__(self) -> Self:
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", "tests.support.visitor"]
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def visit(self, properties: Mapping[str, str]) -> Visit:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(dict(properties)) + "\n")
        self._process.stdin.flush()
        return Visit(**json.loads(self._process.stdout.readline()))


async def _visit(properties: Mapping[str, str]) -> Visit:
    before, began = _bytes_held(), time.monotonic()
    problem = await _problem(properties)
    return Visit(
        error=type(problem).__name__ if problem else "",
        message=problem.message if problem else "",
        hint=problem.hint if problem else "",
        took_s=time.monotonic() - began,
        grown_bytes=_status("VmHWM") - before,
    )


async def _problem(properties: Mapping[str, str]) -> HeliographError | None:
    """What a run that begins with this cluster is told."""
    client = ClusterClient(CLUSTER, parse_properties(properties))
    try:
        await client.connect()
    except HeliographError as problem:
        return problem
    finally:
        await client.aclose()
    return None


def _bytes_held() -> int:
    """Now; the peak is counted from here on."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    (kilobytes,) = [line.split()[1] for line in lines if line.startswith(name)]
    return int(kilobytes) * 1024


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for line in sys.stdin:
            seen = runner.run(_visit(json.loads(line)))
            sys.stdout.write(json.dumps(asdict(seen)) + "\n")
            sys.stdout.flush()
