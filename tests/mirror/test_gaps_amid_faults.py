"""Lanes, drivers and target brokers killed and frozen while gaps are filled and new partitions are aligned: both views
of the target are the source's committed view, at the same offsets (P1 to P4), and no partition stops (P6).

Real `heliograph run` processes on Spark, one of which stands by, beside four brokers. Each seed has all six faults, two
of them inside of an alignment and four inside of fills; three seeds that follow each other have each fault inside of an
alignment once. `--fault-seeds 20` runs 20 of them, and `--fault-seeds 20 -k seed-17` one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from heliograph.lab.cluster import LabCluster
from tests.support.fault_scene import is_gone
from tests.support.gap_scene import GAP, LONG_GAP, NODES, Fault, GapScene, Where

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.faults, pytest.mark.slow]

HEAP_MB = 256

log = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def sources() -> Iterator[LabCluster]:
    with LabCluster.start(name="gap-source", heap_mb=HEAP_MB) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def targets() -> Iterator[LabCluster]:
    properties = {"min.insync.replicas": "2"}
    with LabCluster.start(
        name="gap-targets", brokers=len(NODES), properties=properties, heap_mb=HEAP_MB
    ) as cluster:
        yield cluster


# -- the faults


def kill_lane(scene: GapScene, where: Where, struck: Callable[[], None]) -> None:
    victim = _lane_pid(scene, where)
    os.kill(victim, signal.SIGKILL)
    scene.runs.wait(lambda: is_gone(victim), "end of the lane")
    struck()


def freeze_lane(scene: GapScene, where: Where, struck: Callable[[], None]) -> None:
    """Until another lane has its partition."""
    victim, run = _lane_pid(scene, where), scene.runs.active()
    with _frozen(scene, victim):
        struck()
        scene.runs.wait(lambda: scene.runs.lane_pid(run, *where) not in (None, victim), "another lane")


def kill_driver(scene: GapScene, where: Where, struck: Callable[[], None]) -> None:
    run = scene.runs.active()
    standby, family = scene.runs.other(run), run.family()
    os.kill(run.pid, signal.SIGKILL)
    scene.runs.wait(lambda: not run.running, "end of the driver")
    struck()
    scene.runs.wait(lambda: scene.runs.lane_pid(standby, *where) is not None, "taking over")
    scene.runs.wait(lambda: all(is_gone(each.pid) for each in family), "end of what the driver left behind")
    scene.runs.replace(run)


def freeze_driver(scene: GapScene, where: Where, struck: Callable[[], None]) -> None:
    """Until the other run has the partition. Lanes of the frozen one go on meanwhile, and race with it."""
    run = scene.runs.active()
    standby = scene.runs.other(run)
    with _frozen(scene, run.pid):
        struck()
        scene.runs.wait(lambda: scene.runs.lane_pid(standby, *where) is not None, "taking over")
        log.info("taken over while the target ends at %d", scene.bounds(where)[0].stop)


def kill_broker(scene: GapScene, where: Where, struck: Callable[[], None]) -> None:
    """That leads the partition, until another one does."""
    leader = scene.leader(where)
    assert leader is not None
    with scene.without(leader):
        leader.kill()
        try:
            scene.runs.wait(lambda: scene.leader(where) not in (None, leader), "new leader")
            struck()
        finally:
            leader.start()


def freeze_broker(scene: GapScene, where: Where, struck: Callable[[], None]) -> None:
    leader = scene.leader(where)
    assert leader is not None
    with scene.without(leader):
        leader.freeze()
        try:
            scene.runs.wait(lambda: scene.leader(where) not in (None, leader), "new leader")
            struck()
        finally:
            leader.thaw()


IN_ALIGNMENT: tuple[tuple[Fault, Fault], ...] = (
    (kill_lane, freeze_broker),
    (kill_broker, freeze_driver),
    (kill_driver, freeze_lane),
)
ALL = tuple(fault for pair in IN_ALIGNMENT for fault in pair)


# -- the test


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        seeds = range(metafunc.config.getoption("--fault-seeds"))
        metafunc.parametrize("seed", seeds, ids=[f"seed-{seed}" for seed in seeds])


def test_faults_inside_of_fills_and_alignments_leave_one_whole_copy(
    seed: int, sources: LabCluster, targets: LabCluster, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    dice = random.Random(seed)
    aligning = dice.sample(IN_ALIGNMENT[seed % len(IN_ALIGNMENT)], 2)
    filling = [fault for fault in ALL if fault not in aligning]
    dice.shuffle(filling)
    with GapScene(
        sources, targets, tmp_path, unique_topic(f"seed-{seed}"), seed=seed, gaps=len(filling)
    ) as scene:
        for fault in aligning:
            scene.strike_alignment(fault)
        scene.let_alignment_be_quick()
        for fault in filling:
            scene.strike_fill(fault, LONG_GAP if fault is freeze_driver else GAP)
        scene.finish()


@contextlib.contextmanager
def _frozen(scene: GapScene, pid: int) -> Iterator[None]:
    """None of its threads runs; it is thawed at the end, unless it was ended meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    try:
        scene.runs.wait(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "freeze")
        yield
    finally:
        if not is_gone(pid):
            os.kill(pid, signal.SIGCONT)


def _lane_pid(scene: GapScene, where: Where) -> int:
    pid = scene.runs.lane_pid(scene.runs.active(), *where)
    assert pid is not None, f"no lane holds {where}"
    return pid
