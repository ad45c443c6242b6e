"""What test_namespaces.py runs inside a namespace: a mirror on a Spark cluster, one of whose workers is elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

import heliograph
from heliograph.lab.cluster import LabCluster
from tests.support.fault_scene import PARTITIONS, FaultScene
from tests.support.namespaces import THERE, Namespaces
from tests.support.spark_standalone import SparkStandalone

from .test_namespaces import DRIVER, SOURCE, TARGET

CUT_S = 30.0
LEASE_S = 12.0  # no lease is longer, and what was sent under it is with the broker
MANY = (
    160_000  # old records: so many that some are left when the lease is over, or else fresh ones are written
)
THREE_DAYS_MS = 3 * 86_400_000


@pytest.fixture(scope="module")
def both() -> Namespaces:
    return Namespaces(here=os.environ["HELIOGRAPH_HERE"], there=os.environ["HELIOGRAPH_THERE"])


@pytest.fixture(scope="module")
def source() -> Iterator[LabCluster]:
    with LabCluster.start(name="source", host=SOURCE) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def target() -> Iterator[LabCluster]:
    expiry = {"producer.id.expiration.check.interval.ms": "1000"}
    with LabCluster.start(name="target", host=TARGET, properties=expiry) as cluster:
        yield cluster


@pytest.fixture
def spark(both: Namespaces, tmp_path: Path) -> Iterator[SparkStandalone]:
    places = [(DRIVER, ()), (THERE, both.prefix(both.there))]
    with SparkStandalone(tmp_path, workers=2, host=DRIVER, places=places) as cluster:
        yield cluster


def _scene(
    source: LabCluster, target: LabCluster, spark: SparkStandalone, tmp_path: Path, **backlog: Any
) -> FaultScene:
    return FaultScene(
        source.bootstrap_servers,
        target.bootstrap_servers,
        "cut",
        tmp_path,
        **backlog,
        link={"producer": {"request.timeout.ms": "5000"}},
        master=spark.url,
        lanes=2,
        python=sys.executable,
        conf={
            "spark.driver.host": DRIVER,
            "spark.driver.bindAddress": DRIVER,
            "spark.executor.memory": "512m",
            "spark.executorEnv.PYTHONPATH": str(Path(heliograph.__file__).parent.parent),
        },
    )


def _lane_there(scene: FaultScene, spark: SparkStandalone) -> int:
    """The number of the lane whose executor is in the other namespace."""
    family = {process.pid for process in spark.executors_of(spark.workers[1])}
    (lane,) = [lane["lane"] for lane in scene.mirror.live()["lanes"] if lane["pid"] in family]
    return int(lane)


def _ends(target: LabCluster, partitions: list[int]) -> list[int]:
    consumer = Consumer({"bootstrap.servers": target.bootstrap_servers, "group.id": "watch"})
    try:
        return [consumer.get_watermark_offsets(TopicPartition("cut", p), timeout=10)[1] for p in partitions]
    finally:
        consumer.close()


def test_cut_off_from_the_driver_old_records_are_not_written_after_the_lease(
    both: Namespaces, source: LabCluster, target: LabCluster, spark: SparkStandalone, tmp_path: Path
) -> None:
    with _scene(source, target, spark, tmp_path, age_ms=THREE_DAYS_MS, backlog=MANY) as scene:
        scene.begin()
        scene.wait_amid()
        lane = _lane_there(scene, spark)
        theirs = [p["key"][3] for p in scene.mirror.live()["partitions"] if p["lane"] == lane]
        assert 0 < len(theirs) < PARTITIONS

        def cut() -> None:
            with both.cut(DRIVER):
                time.sleep(LEASE_S)  # the fault itself takes its time
                ends = _ends(target, theirs)
                time.sleep(CUT_S - LEASE_S)
                assert _ends(target, theirs) == ends, f"somebody wrote after the lease:\n{scene.mirror.log}"

        scene.strike(cut)
        assert "lane_hung" in scene.mirror.log
        scene.finish(timeout_s=240)


def test_cut_off_from_the_source_the_copy_goes_on_when_it_is_back(
    both: Namespaces, source: LabCluster, target: LabCluster, spark: SparkStandalone, tmp_path: Path
) -> None:
    with _scene(source, target, spark, tmp_path) as scene:
        scene.begin()

        def cut() -> None:
            with both.cut(SOURCE):
                time.sleep(CUT_S)

        scene.strike(cut)
        scene.finish()


def test_cut_off_from_the_target_the_copy_goes_on_when_it_is_back(
    both: Namespaces, source: LabCluster, target: LabCluster, spark: SparkStandalone, tmp_path: Path
) -> None:
    with _scene(source, target, spark, tmp_path) as scene:
        scene.begin()

        def cut() -> None:
            with both.cut(TARGET):
                time.sleep(CUT_S)

        scene.strike(cut)
        scene.finish()
