"""SIGSTOP for 20 s, then SIGCONT: of a lane and of the driver, amid a copy: identical (P2, P6, P7)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from heliograph.lab.cluster import LabCluster
from tests.support.fault_scene import FaultScene

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.faults]

FROZEN_S = 20.0


def _freeze(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    time.sleep(FROZEN_S)  # this is the fault itself: so long it stands still
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return  # Spark has ended a lane that did not answer


@pytest.mark.slow
def test_a_frozen_lane_loses_its_partitions_to_the_other_and_wakes_up_too_late_to_harm(
    source_cluster: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    with FaultScene(source, target, unique_topic("frozen-lane"), tmp_path) as scene:
        scene.begin()
        scene.strike(lambda: _freeze(scene.mirror.lane_pids()[0]))
        assert "lane_hung" in scene.mirror.log
        scene.finish()


@pytest.mark.slow
def test_a_frozen_driver_wakes_up_and_goes_on(
    source_cluster: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    with FaultScene(source, target, unique_topic("frozen-driver"), tmp_path) as scene:
        scene.begin()
        scene.strike(lambda: _freeze(scene.mirror.pid))
        scene.finish()
