"""Producers of every kind write to the two topics of a link, one of which the source compacts all the while: plain
ones, transactions that are committed and aborted, records of 900 KB, and records that are days old. Lanes, drivers and
target brokers are killed and frozen meanwhile: the target is the source's committed view, at the same offsets (P1 to
P5), and no partition ever stops (P6).

Real `heliograph run` processes on Spark, one of which stands by, beside four brokers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from heliograph.lab.cluster import LabCluster
from tests.support.pair_faults import (
    freeze_broker,
    freeze_driver,
    freeze_lane,
    kill_broker,
    kill_driver,
    kill_lane,
)
from tests.support.wild_scene import CLEANER, NODES, WildScene

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.faults, pytest.mark.slow]

HEAP_MB = 256
SEED = 1
FAULTS = (kill_lane, freeze_lane, kill_driver, freeze_driver, kill_broker, freeze_broker)


@pytest.fixture(scope="module")
def sources() -> Iterator[LabCluster]:
    with LabCluster.start(name="wild-source", properties=CLEANER, heap_mb=HEAP_MB) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def targets() -> Iterator[LabCluster]:
    properties = {"min.insync.replicas": "2", **CLEANER}
    with LabCluster.start(
        name="wild-targets", brokers=len(NODES), properties=properties, heap_mb=HEAP_MB
    ) as cluster:
        yield cluster


def test_a_wild_topic_is_identical_after_every_fault_and_nothing_stops(
    sources: LabCluster, targets: LabCluster, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    dice = random.Random(SEED)
    with WildScene(sources, targets, tmp_path, unique_topic("wild"), seed=SEED) as scene:
        for fault in FAULTS:
            scene.strike(fault, dice.choice(scene.partitions))
        scene.finish()
