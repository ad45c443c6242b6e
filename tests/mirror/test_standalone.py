"""Lanes on a Spark standalone cluster: a master and two workers, a lane on each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from heliograph.lab.cluster import LabCluster
from tests.support.judge import assert_identical
from tests.support.mirror_process import MirrorProcess, write_config
from tests.support.spark_standalone import SparkStandalone
from tests.support.topics import create_topic
from tests.support.workload import produce_mixed

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def _worker_of(pid: int, workers: list[int]) -> int | None:
    return next((p.pid for p in psutil.Process(pid).parents() if p.pid in workers), None)


def test_lanes_on_both_workers_of_a_standalone_cluster_copy_identically(
    source_cluster: LabCluster,
    target_cluster: LabCluster,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic = unique_topic("standalone")
    create_topic(source, topic, 4)
    count = produce_mixed(source, topic, count=3000, seed=5)
    with SparkStandalone(tmp_path, workers=2) as spark:
        config = write_config(
            tmp_path,
            source=source,
            target=target,
            topics=[topic],
            master=spark.url,
            conf={"spark.executor.memory": "512m"},
            lanes=2,
        )
        with MirrorProcess(config, runtime=tmp_path) as mirror:
            mirror.wait_until(lambda: len(mirror.lane_pids()) == 2, "two lanes")
            homes = {_worker_of(pid, spark.workers) for pid in mirror.lane_pids()}
            assert homes == set(spark.workers)
            mirror.wait_until(lambda: mirror.copied() >= count, "everything copied")
            mirror.terminate()
            assert mirror.wait()[0] == 0, mirror.log
    assert_identical(source, target, [topic], records=count)
