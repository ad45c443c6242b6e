"""Heliograph as it was at another commit, as a contender: its own `src`, run by this interpreter with these libraries.

Owns the checkout, which lives as long as the context. Must not know what is measured. The commit's CLI has to read the
config that bench/heliograph_run.py writes.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.contender import ROOT
from bench.heliograph_run import HeliographRun
from bench.names import AGAINST
from heliograph.lab.cache import bench_directory
from heliograph.model.errors import UsageError

SOURCES = "src"
WHICH = "import heliograph; print(heliograph.__file__)"


@contextmanager
def other_commit(commit: str) -> Iterator[HeliographRun]:
    found = _git("rev-parse", "--short", "--verify", f"{commit}^{{commit}}")
    if found is None:
        raise UsageError(
            f"{commit} is no commit of {ROOT}", hint="see which there are: git log --oneline --all"
        )
    name = found.decode().strip()
    sources = _git("archive", "--format=tar", name, SOURCES)
    if sources is None:
        raise UsageError(f"commit {name} has no directory {SOURCES}", hint=f"git ls-tree {name}")
    bench_directory().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=bench_directory()) as directory:
        with tarfile.open(fileobj=io.BytesIO(sources)) as archive:
            archive.extractall(directory, filter="data")
        contender = HeliographRun(
            name=f"Heliograph {name}", code=AGAINST, environment=_environment(Path(directory) / SOURCES)
        )
        _check(contender, directory)
        yield contender


def _environment(sources: Path) -> tuple[str, ...]:
    # Before what the virtual environment knows, which is this version; Spark hands it to its Python workers.
    others = filter(None, [os.environ.get("PYTHONPATH")])
    return (f"PYTHONPATH={os.pathsep.join([str(sources), *others])}",)


def _check(contender: HeliographRun, directory: str) -> None:
    """A comparison of this version with itself would look like a good one."""
    command = ["env", *contender.environment, sys.executable, "-c", WHICH]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert found.startswith(directory), f"{contender.name} would run {found.strip()}"


def _git(*arguments: str) -> bytes | None:
    """What git prints; None when it refuses."""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None
