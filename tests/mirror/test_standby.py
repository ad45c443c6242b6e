"""Two runs of one link: the second stands by, and takes over by itself (P2)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from heliograph.lab.cluster import LabCluster
from tests.support.fault_scene import FaultScene, is_gone
from tests.support.mirror_process import MirrorProcess

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.faults]

TAKE_OVER_S = 20.0


def test_a_second_run_stands_by_and_takes_over_when_the_first_is_killed(
    source_cluster: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    beside = tmp_path / "beside"
    beside.mkdir()
    with FaultScene(source, target, unique_topic("standby"), tmp_path) as scene:
        scene.mirror.wait_until(lambda: len(scene.mirror.lane_pids()) == 2, "the first's lanes")
        with MirrorProcess(scene.config, runtime=beside) as second:
            second.wait_until(lambda: len(second.lane_pids()) == 2, "the second's lanes")
            second.wait_until(lambda: "stands by" in second.log, "the second's word that it stands by")
            assert second.live()["links"]["link"]["role"] == "standby"
            assert all(p["lane"] is None for p in second.live()["partitions"])

            scene.begin()
            killed_at = 0.0

            def kill_the_first() -> None:
                nonlocal killed_at
                os.kill(scene.mirror.pid, signal.SIGKILL)
                killed_at = time.monotonic()

            scene.strike(kill_the_first)
            second.wait_until(
                lambda: any(p["state"] == "copying" for p in second.live().get("partitions", [])),
                "the second's copying",
                TAKE_OVER_S,
            )
            assert time.monotonic() - killed_at < TAKE_OVER_S
            assert is_gone(scene.mirror.pid)
            scene.mirror.__exit__()
            scene.mirror = second
            scene.finish()
