"""kill -9 of lanes' Python workers, of Spark's JVM and of the whole driver, amid a copy: identical (P2, P3, P7)."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition

from heliograph.lab.cluster import LabCluster
from tests.support.fault_scene import PARTITIONS, FaultScene, is_gone
from tests.support.secured_clusters import SecuredPair

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.faults]

KILLS = 10
PAUSE_LIMIT_S = 0.5
GONE_LIMIT_S = 20.0
POLL_S = 0.01


@pytest.fixture
def scene(
    source_cluster: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str], tmp_path: Path
) -> FaultScene:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    return FaultScene(source, target, unique_topic("killed"), tmp_path)


class PauseWatch:
    """The longest time in which not one of these partitions grew on the target, as another client sees it."""

    def __init__(self, bootstrap: str, topic: str, partitions: list[int]) -> None:
        self.longest_s = 0.0
        self._where = [TopicPartition(topic, partition) for partition in partitions]
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "pause-watch"})
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> PauseWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        seen, at = -1, time.monotonic()
        while not self._ending.wait(POLL_S):
            ends = sum(self._consumer.get_watermark_offsets(where, timeout=5.0)[1] for where in self._where)
            now = time.monotonic()
            if ends != seen:
                seen, at = ends, now
            self.longest_s = max(self.longest_s, now - at)


def test_ten_killed_lane_workers_leave_one_whole_copy_and_the_other_lane_does_not_pause(
    source_cluster: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    kill_lane_workers(FaultScene(source, target, unique_topic("killed"), tmp_path, backlog=150_000))


@pytest.mark.slow
def test_so_they_do_where_both_sides_have_tls_and_scram(
    secured_pair: SecuredPair, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = secured_pair.source, secured_pair.target
    clients = (source.access("SCRAM").client, target.access("SCRAM").client)
    kill_lane_workers(
        FaultScene(
            source.plain, target.plain, unique_topic("killed"), tmp_path, backlog=150_000, clients=clients
        )
    )


def kill_lane_workers(scene: FaultScene) -> None:
    with scene:
        scene.begin()
        scene.wait_amid(0.2)
        lanes = {lane["lane"]: lane["pid"] for lane in scene.mirror.live()["lanes"]}
        assert len(lanes) == 2
        held = {p["key"][3]: p["lane"] for p in scene.mirror.live()["partitions"]}
        others = [partition for partition in range(PARTITIONS) if held[partition] == 1]
        with PauseWatch(scene.target, scene.topic, others) as watch:
            for _ in range(KILLS):
                scene.strike(lambda: _kill_lane(scene, 0), least=0.2)
        assert watch.longest_s <= PAUSE_LIMIT_S, f"the other lane paused for {watch.longest_s:.2f} s"
        assert {lane["lane"]: lane["pid"] for lane in scene.mirror.live()["lanes"]}[1] == lanes[1]
        scene.finish()
        for sign in ("Traceback", "\tat ", "incubator"):  # Spark's own words are for who debugs
            assert sign not in scene.mirror.log, scene.mirror.log


def _kill_lane(scene: FaultScene, number: int) -> None:
    """Kill it, and wait for its successor."""

    def pid() -> int | None:
        found: int | None = scene.mirror.live()["lanes"][number]["pid"]
        return found

    scene.mirror.wait_until(lambda: pid() is not None, "the lane")
    victim = pid()
    assert victim is not None
    os.kill(victim, signal.SIGKILL)
    scene.mirror.wait_until(lambda: is_gone(victim), "the worker's end")
    scene.mirror.wait_until(lambda: pid() not in (None, victim), "the next worker")


@pytest.mark.slow
def test_a_killed_jvm_ends_the_run_and_the_next_goes_on(scene: FaultScene) -> None:
    with scene:
        scene.begin()

        def kill_jvm() -> None:
            (jvm,) = [p for p in scene.mirror.family() if p.name() == "java"]
            os.kill(jvm.pid, signal.SIGKILL)
            assert scene.mirror.wait()[0] == 4, scene.mirror.log

        scene.strike(kill_jvm)
        scene.restart()
        scene.finish()


@pytest.mark.slow
def test_a_killed_driver_goes_on_when_started_again(scene: FaultScene) -> None:
    with scene:
        scene.begin()

        def kill_driver() -> None:
            family = scene.mirror.family()
            os.kill(scene.mirror.pid, signal.SIGKILL)
            _, alive = psutil.wait_procs(family, timeout=GONE_LIMIT_S)
            assert not alive, f"left behind by the killed driver: {alive}"

        scene.strike(kill_driver)
        scene.restart()
        scene.finish()
