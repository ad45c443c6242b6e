"""Lanes on a Spark standalone cluster whose workers do not have our environment: it is packed and shipped."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from heliograph.interface.cli.pack import pack
from heliograph.lab.cluster import LabCluster
from tests.support.client_access import Access
from tests.support.fault_scene import FaultScene
from tests.support.hidden_directory import can_hide, without
from tests.support.judge import assert_identical
from tests.support.mirror_process import MirrorProcess, write_config
from tests.support.secured_clusters import SecuredPair
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


def _kept_by_driver(access: Access, directory: Path, name: str) -> dict[str, str]:
    """The client's properties, with copies of its files in this directory. Spark ships by name: no two may have one."""
    properties = access.client
    for key in ("ssl.truststore.location", "ssl.keystore.location"):
        if key in properties:
            kept = directory / f"{name}-{Path(properties[key]).name}"
            properties[key] = str(shutil.copy(properties[key], kept))
    return properties


@pytest.mark.slow
def test_files_that_workers_do_not_have_are_named_and_come_by_spark_files(
    secured_pair: SecuredPair, unique_topic: Callable[[str], str], archive: Path, tmp_path: Path
) -> None:
    """By SCRAM under TLS to mutual TLS; truststores and keystore are in a directory that no worker sees."""
    files = tmp_path / "driver-only"
    files.mkdir()
    if not can_hide(files):
        pytest.skip("hiding a directory needs root")
    source, target = secured_pair.source, secured_pair.target
    topic = unique_topic("shipped")
    create_topic(source.plain, topic, 4)
    count = produce_mixed(source.plain, topic, count=3000, seed=5)
    from_source = _kept_by_driver(source.access("SCRAM"), files, "source")
    to_target = _kept_by_driver(target.access("MUTUAL"), files, "target")
    shipping = {"spark.files": ",".join(map(str, sorted(files.iterdir())))}
    with SparkStandalone(tmp_path, workers=1, places=[("127.0.0.1", without(files))]) as spark:

        def config(**conf: str) -> Path:
            return write_config(
                tmp_path,
                source=from_source,
                target=to_target,
                topics=[topic],
                master=spark.url,
                conf={**_shipping(archive), **conf},
                lanes=1,
            )

        with MirrorProcess(config(), runtime=tmp_path) as mirror:
            mirror.wait_until(lambda: "[access_refused]" in mirror.log, "word of the files")
            told = next(line for line in mirror.log.splitlines() if "[access_refused]" in line)
            assert str(files) in told
            assert "spark.files" in mirror.log
            assert mirror.copied() == 0
            mirror.terminate()
            assert mirror.wait()[0] == 0, mirror.log
        with MirrorProcess(config(**shipping), runtime=tmp_path) as mirror:
            mirror.wait_until(lambda: mirror.copied() >= count, "everything copied")
            mirror.terminate()
            assert mirror.wait()[0] == 0, mirror.log
            assert "[access_refused]" not in mirror.log
    assert_identical(source.plain, target.plain, [topic], records=count)


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
