"""Everything a run has measured, and the JSON with every round that it writes at its end. Must not measure anything."""

from __future__ import annotations

import json
import os
import platform
import ssl
from collections.abc import Mapping
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

SCHEMA = "heliograph.bench/3"
RESULTS = Path(__file__).parent / "results"


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
    def tls(self) -> bool:
        return bool(self.scope.get("tls"))

    @property
    def aims(self) -> list[Aim]:
        return judge(self.results, replicated=self.scope.get("replication", 1) != 1, tls=self.tls)


def write(run: Run, directory: Path) -> Path:
    return write_json({**asdict(run), "aims": [asdict(aim) for aim in run.aims]}, directory)


def write_json(content: Mapping[str, object], directory: Path, kind: str = "") -> Path:
    """With what every result says of itself. `kind`: of what is not a run of `script/bench`."""
    now = datetime.now(UTC)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{now:%Y%m%dT%H%M%SZ}{kind and '-' + kind}.json"
    path.write_text(json.dumps({**_about(now), **content}, indent=2) + "\n")
    return path


def _about(now: datetime) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "at": now.isoformat(timespec="seconds"),
        "versions": {
            "heliograph": __version__,
            "kafka": DEFAULT_KAFKA,
            "python": platform.python_version(),
            "openssl": ssl.OPENSSL_VERSION,
        },
        "machine": {
            "cores": os.cpu_count(),
            "memory_bytes": psutil.virtual_memory().total,
            "system": platform.platform(),
        },
    }
