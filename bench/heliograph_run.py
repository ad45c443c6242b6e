"""Heliograph as its users run it, as a contender: `heliograph run` on Spark's local mode, with a config of its own."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from bench.clusters import ClusterPair
from bench.contender import CopyJob

MASTER = "local[2]"
PYTHON_WORKER = "pyspark.worker"  # an argument of the daemon that forks them


@dataclass(frozen=True, slots=True, kw_only=True)
class HeliographRun:
    """`environment`: variables of its own, each `NAME=value`."""

    name: str = "Heliograph"
    code: str = "heliograph"
    lane_mark: str | None = PYTHON_WORKER
    ends_itself: bool = True
    tails: bool = True
    reads_committed: bool = True
    keeps_offsets: bool = True
    environment: tuple[str, ...] = ()

    def prepare(self, job: CopyJob, pair: ClusterPair, directory: Path) -> Sequence[str]:
        path = directory / "heliograph.yaml"
        settings = config(job, source=pair.source.mirror_properties, target=pair.target.mirror_properties)
        path.write_text(yaml.safe_dump(settings, sort_keys=False))
        heliograph = str(Path(sys.executable).with_name("heliograph"))
        command = ["env", *self.environment, heliograph, "run", "--config", str(path)]
        return command if job.endless else [*command, "--until-caught-up"]


def config(job: CopyJob, *, source: Mapping[str, str], target: Mapping[str, str]) -> dict[str, object]:
    """`source`, `target`: client properties."""
    return {
        "version": 1,
        "clusters": {"source": dict(source), "target": dict(target)},
        "links": {
            "bench": {
                "source": "source",
                "target": "target",
                "topics": [re.escape(topic) for topic in job.topics],
                "naming": job.label + ".{topic}",
            }
        },
        "spark": {"master": MASTER},
    }
