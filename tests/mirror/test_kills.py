"""kill -9 of a lane's Python worker, and of the whole driver, while records are produced: identical (P2, P3)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from heliograph.lab.cluster import LabCluster
from tests.support.judge import assert_identical
from tests.support.mirror_process import MirrorProcess, write_config
from tests.support.steady_producer import SteadyProducer
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.faults]

RATE_PER_S = 3000
BEFORE, ALL = 12_000, 24_000  # copied at least before the kill; produced in all
GONE_LIMIT_S = 20.0


def _check_fault_was_amid(copied: int, produced: int) -> None:
    """At the moment of the fault at least 20 % were copied and 20 % missing."""
    assert 0.2 * produced <= copied <= 0.8 * produced, f"{copied} of {produced} copied at the fault"


def _is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.fixture
def topic(source_cluster: LabCluster, unique_topic: Callable[[str], str]) -> str:
    name = unique_topic("killed")
    create_topic(source_cluster.bootstrap_servers, name, 4)
    return name


@pytest.fixture
def config(source_cluster: LabCluster, target_cluster: LabCluster, topic: str, tmp_path: Path) -> Path:
    return write_config(
        tmp_path,
        source=source_cluster.bootstrap_servers,
        target=target_cluster.bootstrap_servers,
        topics=[topic],
    )


def test_killed_lane_workers_leave_one_whole_copy(
    source_cluster: LabCluster, target_cluster: LabCluster, topic: str, config: Path, tmp_path: Path
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    with MirrorProcess(config, runtime=tmp_path) as mirror:
        mirror.wait_until(lambda: len(mirror.lane_pids()) == 2, "two lanes")
        with SteadyProducer(source, topic, rate_per_s=RATE_PER_S) as producer:
            mirror.wait_until(lambda: mirror.copied() >= BEFORE, "a good part copied")
            copied, victims = mirror.copied(), mirror.lane_pids()
            for victim in victims:
                os.kill(victim, signal.SIGKILL)
            mirror.wait_until(lambda: all(map(_is_gone, victims)), "the workers' end")
            producer.wait_for(ALL)
            produced = producer.stop()
        mirror.wait_until(lambda: mirror.copied() >= produced, "everything copied")
        assert set(mirror.lane_pids()).isdisjoint(victims)
        mirror.terminate()
        assert mirror.wait()[0] == 0, mirror.log
    _check_fault_was_amid(copied, produced)
    assert_identical(source, target, [topic], records=produced)


def test_a_killed_driver_goes_on_when_started_again(
    source_cluster: LabCluster, target_cluster: LabCluster, topic: str, config: Path, tmp_path: Path
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    with MirrorProcess(config, runtime=tmp_path) as mirror:
        mirror.wait_until(lambda: len(mirror.lane_pids()) == 2, "two lanes")
        with SteadyProducer(source, topic, rate_per_s=RATE_PER_S) as producer:
            mirror.wait_until(lambda: mirror.copied() >= BEFORE, "a good part copied")
            copied, family = mirror.copied(), mirror.family()
            os.kill(mirror.pid, signal.SIGKILL)
            _, alive = psutil.wait_procs(family, timeout=GONE_LIMIT_S)
            assert not alive, f"left behind by the killed driver: {alive}"
            producer.wait_for(ALL)
            produced = producer.stop()
    with MirrorProcess(config, "--until-caught-up", "--json", runtime=tmp_path) as again:
        assert again.result()["caught_up"]
    _check_fault_was_amid(copied, produced)
    assert_identical(source, target, [topic], records=produced)
