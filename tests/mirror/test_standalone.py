"""Lanes on a Spark standalone cluster whose workers do not have our environment: it is packed and shipped."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from heliograph.interface.cli.pack import pack
from heliograph.lab.cluster import LabCluster
from tests.support.fault_scene import FaultScene
from tests.support.judge import assert_identical
from tests.support.mirror_process import MirrorProcess, write_config
from tests.support.spark_standalone import SparkStandalone
from tests.support.topics import create_topic
from tests.support.workload import produce_mixed

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packed") / "heliograph-env.tar.gz"
    pack(path)
    return path


def _shipping(archive: Path) -> dict[str, str]:
    return {"spark.executor.memory": "512m", "spark.archives": f"{archive}#environment"}


def _worker_of(pid: int, workers: list[int]) -> int | None:
    return next((p.pid for p in psutil.Process(pid).parents() if p.pid in workers), None)


def _files_in_use(pid: int) -> set[Path]:
    process = psutil.Process(pid)
    return {Path(process.exe()), *(Path(mapped.path) for mapped in process.memory_maps())}


def test_lanes_on_both_workers_run_from_the_shipped_archive_alone_and_copy_identically(
    source_cluster: LabCluster,
    target_cluster: LabCluster,
    unique_topic: Callable[[str], str],
    archive: Path,
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
            conf=_shipping(archive),
            lanes=2,
        )
        with MirrorProcess(config, runtime=tmp_path) as mirror:
            mirror.wait_until(lambda: len(mirror.lane_pids()) == 2, "two lanes")
            homes = {_worker_of(pid, spark.workers) for pid in mirror.lane_pids()}
            assert homes == set(spark.workers)
            for pid in mirror.lane_pids():
                used = _files_in_use(pid)
                assert not {path for path in used if path.is_relative_to(sys.prefix)}
                assert psutil.Process(pid).exe().startswith(str(tmp_path))
            mirror.wait_until(lambda: mirror.copied() >= count, "everything copied")
            mirror.terminate()
            assert mirror.wait()[0] == 0, mirror.log
            assert "spark.authenticate is off" in mirror.log
    assert_identical(source, target, [topic], records=count)


@pytest.mark.faults
@pytest.mark.slow
def test_a_worker_killed_amid_the_copy_leaves_one_whole_copy(
    source_cluster: LabCluster,
    target_cluster: LabCluster,
    unique_topic: Callable[[str], str],
    archive: Path,
    tmp_path: Path,
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    # One slot each: the lost lane has nowhere to go, and the other takes its partitions.
    with (
        SparkStandalone(tmp_path, workers=2) as spark,
        FaultScene(
            source,
            target,
            unique_topic("killed-worker"),
            tmp_path,
            master=spark.url,
            conf=_shipping(archive),
            lanes=2,
        ) as scene,
    ):
        scene.begin()

        def kill_a_worker() -> None:
            homes = {_worker_of(pid, spark.workers) for pid in scene.mirror.lane_pids()}
            assert homes == set(spark.workers)
            victim = spark.workers[0]
            family = [victim, *(process.pid for process in spark.executors_of(victim))]
            spark.kill(victim)
            assert not [pid for pid in family if psutil.pid_exists(pid)]

        scene.strike(kill_a_worker)
        scene.finish()


@pytest.mark.faults
@pytest.mark.slow
def test_a_decommissioned_executor_hands_its_partitions_back(
    source_cluster: LabCluster,
    target_cluster: LabCluster,
    unique_topic: Callable[[str], str],
    archive: Path,
    tmp_path: Path,
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    with (
        SparkStandalone(tmp_path, workers=2) as spark,
        FaultScene(
            source,
            target,
            unique_topic("decommissioned"),
            tmp_path,
            master=spark.url,
            conf={**_shipping(archive), "spark.decommission.enabled": "true"},
            lanes=2,
        ) as scene,
    ):
        scene.begin()

        def decommission() -> None:
            (executor,) = [p for p in spark.executors_of(spark.workers[0]) if p.name() == "java"]
            os.kill(executor.pid, signal.SIGPWR)

        scene.strike(decommission)
        scene.mirror.wait_until(lambda: "[lane_leaving]" in scene.mirror.log, "the lane's leave")
        scene.finish()
