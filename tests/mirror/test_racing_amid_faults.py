"""Copiers of one partition, some that merge and some that do not, killed and frozen while the target's leader moves and
dies: one whole copy (P1, P2, P4, P5)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from heliograph.controller.topic_config import FORCED
from heliograph.lab.cluster import LabCluster
from tests.support.fault_scene import fill
from tests.support.judge import assert_identical
from tests.support.log_reader import Deadline, LogReader
from tests.support.racing_copier import RacingCopier
from tests.support.replicas import ReplicaView, create_assigned
from tests.support.steady_producer import SteadyProducer
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.faults, pytest.mark.slow]

BACKLOG = 40_000
MERGING = (True, True, False)
NODES = (1, 2, 3)
ROUNDS = 3
MORE = 1_000  # records that the source gains between two blows: there is something to copy at each
CAUGHT_UP_LIMIT_S = 120.0
LOOK_S = 0.2


@pytest.fixture(scope="module")
def three_targets() -> Iterator[LabCluster]:
    properties = {"min.insync.replicas": "2"}
    with LabCluster.start(name="raced", brokers=len(NODES), properties=properties, heap_mb=256) as cluster:
        yield cluster


def test_racers_that_merge_and_racers_that_do_not_leave_one_copy_through_kills_freezes_and_new_leaders(
    source_cluster: LabCluster, three_targets: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    source, target = source_cluster.bootstrap_servers, three_targets.bootstrap_servers
    topic = unique_topic("raced-amid-faults")
    create_topic(source, topic, 1)
    create_assigned(target, topic, [NODES], FORCED)
    fill(source, topic, BACKLOG, partitions=1)
    view = ReplicaView(target, topic)
    with SteadyProducer(source, topic, rate_per_s=300, codec="none") as producer, ExitStack() as undo:
        racers = [
            undo.enter_context(RacingCopier(source, target, topic, merging=merging)) for merging in MERGING
        ]
        for number in range(ROUNDS):
            first, second, third = (racers[(number + at) % len(racers)] for at in range(len(racers)))
            first.freeze()
            producer.wait_for(producer.count + MORE)
            second.kill()
            first.thaw()
            second.start()
            view.move_leaders([NODES[(number + at) % len(NODES)] for at in range(len(NODES))])
            producer.wait_for(producer.count + MORE)
            leader = next(each for each in three_targets.brokers if view.led_by(each.node_id))
            leader.kill()
            third.freeze()
            producer.wait_for(producer.count + MORE)
            leader.start()
            third.thaw()
            view.wait_whole()
        producer.stop()
        _wait_until_caught_up(source, target, topic)
        assert all(racer.lives for racer in racers)
        assert sum(racer.merges for racer in racers) > 0
        assert racers[MERGING.index(False)].merges == 0
    assert_identical(source, target, [topic])


def _wait_until_caught_up(source: str, target: str, topic: str) -> None:
    deadline = time.monotonic() + CAUGHT_UP_LIMIT_S
    while _end(source, topic) != _end(target, topic):
        assert time.monotonic() < deadline, (_end(source, topic), _end(target, topic))
        time.sleep(LOOK_S)


def _end(bootstrap: str, topic: str) -> int:
    with LogReader(bootstrap, Deadline.after(CAUGHT_UP_LIMIT_S)) as reader:
        return reader.bounds(topic, 0).stop
