"""A mirror on franz-go, the fastest open client, as a contender: our own program in bench/franz, built when needed.

Owns the build. A program is kept beside the lab's downloads under a name that changes with its sources.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.clusters import ClusterPair
from bench.contender import ContenderFailed, CopyJob
from bench.names import FRANZ, NAMES
from heliograph.lab.cache import bench_directory

SOURCES = Path(__file__).with_name("franz")
USUAL_PLACE = "/usr/local/go/bin/go"  # of Go's own packages; shells do not always look there


@dataclass(frozen=True, slots=True, kw_only=True)
class FranzGo:
    name: str = NAMES[FRANZ]
    code: str = FRANZ
    lane_mark: str | None = None
    ends_itself: bool = True
    tails: bool = False
    reads_committed: bool = False
    keeps_offsets: bool = False

    def prepare(self, job: CopyJob, pair: ClusterPair, directory: Path) -> Sequence[str]:
        del directory  # everything fits on the command line
        pair.target.create(*job.target_topics, partitions=job.partitions)
        return [
            str(_program()),
            *("-source", pair.source.bootstrap_servers, "-target", pair.target.bootstrap_servers),
            *("-topic", job.topics[0], "-target-topic", job.target_topics[0]),
            *("-partitions", str(job.partitions), "-records", str(job.records), "-codec", job.codec),
        ]


def find_go() -> str | None:
    return shutil.which("go") or shutil.which(USUAL_PLACE)


def build(go: str) -> None:
    program = _program()
    if program.exists():
        return
    program.parent.mkdir(parents=True, exist_ok=True)
    unfinished = program.with_suffix(f".{os.getpid()}")
    command = [go, "build", "-trimpath", "-buildvcs=false", "-o", str(unfinished), "."]
    done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ContenderFailed(
            f"{go} could not build bench/franz:\n{done.stderr.rstrip()}",
            hint="script/bench --contenders heliograph mm2 plain",
        )
    unfinished.rename(program)


def _program() -> Path:
    sources = b"".join((SOURCES / name).read_bytes() for name in ("main.go", "go.mod", "go.sum"))
    return bench_directory() / f"franz-{hashlib.sha256(sources).hexdigest()[:16]}"
