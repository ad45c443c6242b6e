"""Everything a run has measured, and the JSON with every round that it writes at its end. Must not measure anything."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psutil

from bench.aims import Aim, Result, judge
from bench.copy_round import CopyResult
from bench.latency import LatencyResult
from bench.workload import Workload
from heliograph import __version__
from heliograph.lab.jars import DEFAULT_KAFKA

SCHEMA = "heliograph.bench/2"


@dataclass(slots=True, kw_only=True)
class Run:
    """Everything measured so far: an interrupted run still has its finished rounds."""

    scope: dict[str, object]
    against: str | None = None
    workloads: list[Workload] = field(default_factory=list)
    copies: list[CopyResult] = field(default_factory=list)
    latencies: list[LatencyResult] = field(default_factory=list)

    @property
    def results(self) -> list[Result]:
        return [*self.copies, *self.latencies]

    @property
    def aims(self) -> list[Aim]:
        return judge(self.results, replicated=self.scope.get("replication", 1) != 1)


def write(run: Run, directory: Path) -> Path:
    now = datetime.now(UTC)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{now:%Y%m%dT%H%M%SZ}.json"
    path.write_text(json.dumps(as_json(run, now), indent=2) + "\n")
    return path


def as_json(run: Run, now: datetime) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "at": now.isoformat(timespec="seconds"),
        "versions": {
            "heliograph": __version__,
            "kafka": DEFAULT_KAFKA,
            "python": platform.python_version(),
        },
        "machine": {
            "cores": os.cpu_count(),
            "memory_bytes": psutil.virtual_memory().total,
            "system": platform.platform(),
        },
        **asdict(run),
        "aims": [asdict(aim) for aim in run.aims],
    }
