from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from heliograph.lab.cluster import LabCluster
from heliograph.lab.probe import live_brokers
from heliograph.lab.together import started_together
from heliograph.model.errors import LabError

pytestmark = pytest.mark.kafka

START = """
import sys
from heliograph.lab.together import started_together
with started_together("one", "two"):
    print("up", flush=True)
"""


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where clusters make their directories."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_clusters_that_start_together_are_all_up_and_end_together(places: Path) -> None:
    with started_together("one", "two") as clusters:
        brokers = [cluster.brokers[0] for cluster in clusters]
        assert all(live_brokers(broker.port) == {1} for broker in brokers)
    assert not any(broker.running for broker in brokers)
    assert list(places.glob("heliograph-lab-*")) == []


@pytest.mark.parametrize("after_s", [0.5, 2.0, 4.0])
def test_ctrl_c_while_clusters_start_leaves_nothing_behind(places: Path, after_s: float) -> None:
    starter = subprocess.Popen([sys.executable, "-c", START], stderr=subprocess.DEVNULL)
    time.sleep(after_s)
    starter.send_signal(signal.SIGINT)
    time.sleep(0.1)
    starter.send_signal(signal.SIGINT)  # an impatient one changes nothing
    starter.wait(timeout=30)
    left = [each.pid for each in psutil.process_iter(["cmdline"]) if _is_of(places, each.info["cmdline"])]
    assert left == []
    assert list(places.glob("heliograph-lab-*")) == []


def test_a_cluster_that_was_stopped_does_not_come_up(places: Path) -> None:
    cluster = LabCluster.made(name="late")
    cluster.directory.mkdir(exist_ok=True)
    cluster._ended = True  # what `stop` sets first; the directory is there still, as in the midst of it
    with pytest.raises(LabError, match="stopped while it started"):
        cluster.come_up()
    cluster.stop()
    assert list(places.glob("heliograph-lab-*")) == []


def _is_of(places: Path, arguments: list[str] | None) -> bool:
    return any(str(places) in argument for argument in arguments or ())
