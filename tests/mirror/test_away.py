"""A source that is away for a minute, and a target whose disk is full: told of, and picked up again (P2, P6)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from heliograph.lab.cluster import LabCluster
from tests.support.fault_scene import PARTITIONS, FaultScene, is_gone
from tests.support.small_disk import SmallDisk

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.faults]

AWAY_S = 60.0
STATUS_LIMIT_S = 60.0


@pytest.fixture
def mortal_source() -> Iterator[LabCluster]:
    with LabCluster.start(name="mortal") as cluster:
        yield cluster


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system of its own")
    with SmallDisk(tmp_path / "disk", size_mb=192) as disk:
        yield disk


def _status(scene: FaultScene) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "heliograph.interface.cli.main", "status", str(scene.config), "--json"]
    return subprocess.run(command, capture_output=True, text=True, timeout=STATUS_LIMIT_S)


def _troubles(scene: FaultScene) -> list[str]:
    return [p["trouble"] for p in scene.mirror.live()["partitions"] if p["trouble"]]


@pytest.mark.slow
def test_a_source_that_is_away_for_a_minute_is_shown_and_picked_up_again(
    mortal_source: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    (broker,) = mortal_source.brokers
    scene = FaultScene(
        mortal_source.bootstrap_servers,
        target_cluster.bootstrap_servers,
        unique_topic("away"),
        tmp_path,
        backlog=16_000,
        rate_per_s=50,
    )
    with scene:
        scene.begin()
        scene.strike(broker.kill)
        away_until = time.monotonic() + AWAY_S
        assert broker.last_pid is not None
        assert is_gone(broker.last_pid)
        scene.mirror.wait_until(lambda: len(_troubles(scene)) > 0, "trouble told by the mirror")
        scene.mirror.wait_until(lambda: "broker_away" in scene.mirror.log, "the event in the log")
        status = _status(scene)
        assert status.returncode == 3, status
        assert "'src' cannot be reached" in status.stderr
        (link,) = json.loads(status.stdout)["links"]
        assert "'src' cannot be reached" in link["error"]
        assert len(link["partitions"]) == PARTITIONS
        assert any(row["error"] for row in link["partitions"])
        time.sleep(max(away_until - time.monotonic(), 0.0))  # this is the fault itself
        broker.start()
        scene.finish()


@pytest.mark.slow
def test_a_full_disk_of_the_target_is_loud_and_the_copy_goes_on_when_there_is_room(
    source_cluster: LabCluster, small_disk: SmallDisk, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    properties = {"log.dirs": str(small_disk.path / "data")}
    with LabCluster.start(name="small-disk", properties=properties) as target:
        (broker,) = target.brokers
        scene = FaultScene(
            source_cluster.bootstrap_servers,
            target.bootstrap_servers,
            unique_topic("full"),
            tmp_path,
            backlog=16_000,
            rate_per_s=50,
        )
        with scene:
            scene.begin()
            scene.strike(small_disk.fill)
            scene.mirror.wait_until(lambda: not broker.running, "the broker's end on a full disk")
            scene.mirror.wait_until(lambda: "broker_away" in scene.mirror.log, "the event in the log")
            assert _troubles(scene)
            small_disk.enlarge(by_mb=256)
            broker.start()
            scene.finish()
