"""kill -9 of a lane's Python worker, and of the whole driver, while records are produced: identical (P2, P3)."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from heliograph.lab.cluster import LabCluster
from tests.support.judge import assert_identical
from tests.support.mirror_process import MirrorProcess, write_config
from tests.support.records import Record
from tests.support.steady_producer import SteadyProducer
from tests.support.topics import create_topic
from tests.support.workload import produce_records

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.faults]

BACKLOG = 60_000  # there before the mirror starts
RATE_PER_S = 1000  # written all the while
GONE_LIMIT_S = 20.0
# Small fetches, so that the backlog takes seconds and a fault can strike amid it.
SLOWLY = {"consumer": {"fetch.max.bytes": "20000", "max.partition.fetch.bytes": "20000"}}


def _check_fault_was_amid(copied: int, there: int) -> None:
    """At the moment of the fault at least 20 % were copied and 20 % missing."""
    assert 0.2 * there <= copied <= 0.8 * there, f"{copied} of {there} copied at the fault"


def _is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.fixture
def topic(source_cluster: LabCluster, unique_topic: Callable[[str], str]) -> str:
    name = unique_topic("killed")
    create_topic(source_cluster.bootstrap_servers, name, 4)
    now_ms = int(time.time() * 1000)
    record = Record(
        key=b"k", value=random.Random(1).randbytes(1000), headers=(("h", b"1"),), timestamp_ms=now_ms
    )
    for partition in range(4):
        produce_records(
            source_cluster.bootstrap_servers, name, [record] * (BACKLOG // 4), partition=partition
        )
    return name


@pytest.fixture
def config(source_cluster: LabCluster, target_cluster: LabCluster, topic: str, tmp_path: Path) -> Path:
    return write_config(
        tmp_path,
        source=source_cluster.bootstrap_servers,
        target=target_cluster.bootstrap_servers,
        topics=[topic],
        link=SLOWLY,
    )


def test_killed_lane_workers_leave_one_whole_copy(
    source_cluster: LabCluster, target_cluster: LabCluster, topic: str, config: Path, tmp_path: Path
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    with MirrorProcess(config, runtime=tmp_path) as mirror:
        with SteadyProducer(source, topic, rate_per_s=RATE_PER_S) as producer:
            mirror.wait_until(lambda: mirror.copied() >= 0.25 * BACKLOG, "a part copied")
            victims = mirror.lane_pids()
            for victim in victims:
                os.kill(victim, signal.SIGKILL)
            mirror.wait_until(lambda: all(map(_is_gone, victims)), "the workers' end")
            copied, there = mirror.copied(), BACKLOG + producer.count
            assert len(victims) == 2
            mirror.wait_until(lambda: mirror.copied() >= BACKLOG + producer.count // 2, "most copied")
            produced = BACKLOG + producer.stop()
        mirror.wait_until(lambda: mirror.copied() >= produced, "everything copied")
        assert set(mirror.lane_pids()).isdisjoint(victims)
        mirror.terminate()
        assert mirror.wait()[0] == 0, mirror.log
    _check_fault_was_amid(copied, there)
    assert_identical(source, target, [topic], records=produced)


def test_a_killed_driver_goes_on_when_started_again(
    source_cluster: LabCluster, target_cluster: LabCluster, topic: str, config: Path, tmp_path: Path
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    with SteadyProducer(source, topic, rate_per_s=RATE_PER_S) as producer:
        with MirrorProcess(config, runtime=tmp_path) as mirror:
            mirror.wait_until(lambda: mirror.copied() >= 0.25 * BACKLOG, "a part copied")
            copied, there, family = mirror.copied(), BACKLOG + producer.count, mirror.family()
            os.kill(mirror.pid, signal.SIGKILL)
            _, alive = psutil.wait_procs(family, timeout=GONE_LIMIT_S)
            assert not alive, f"left behind by the killed driver: {alive}"
        produced = BACKLOG + producer.stop()
    _check_fault_was_amid(copied, there)
    with MirrorProcess(config, "--until-caught-up", "--json", runtime=tmp_path) as again:
        assert again.result()["caught_up"]
    assert_identical(source, target, [topic], records=produced)
