"""Lanes, drivers and target brokers killed and frozen while gaps are filled and new partitions are aligned: both views
of the target are the source's committed view, at the same offsets (P1 to P4), and no partition stops (P6).

Real `heliograph run` processes on Spark, one of which stands by, beside four brokers. Each seed has all six faults, two
of them inside of an alignment and four inside of fills; three seeds that follow each other have each fault inside of an
alignment once. `--fault-seeds 20` runs 20 of them, and `--fault-seeds 20 -k seed-17` one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from heliograph.lab.cluster import LabCluster
from tests.support.gap_scene import GAP, LONG_GAP, NODES, GapScene
from tests.support.pair_faults import (
    Fault,
    freeze_broker,
    freeze_driver,
    freeze_lane,
    kill_broker,
    kill_driver,
    kill_lane,
)

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.faults, pytest.mark.slow]

HEAP_MB = 256


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


IN_ALIGNMENT: tuple[tuple[Fault, Fault], ...] = (
    (kill_lane, freeze_broker),
    (kill_broker, freeze_driver),
    (kill_driver, freeze_lane),
)
ALL = tuple(fault for pair in IN_ALIGNMENT for fault in pair)


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
