"""A mirror that begins in the middle of a log, and one that goes on behind records that retention took (P2, P4): every
record that is there has its source offset, and nothing else can be read. Judged by an independent consumer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from heliograph.controller.plan import Plan
from heliograph.copier.spec import CopySpec
from heliograph.lab.cluster import LabCluster
from heliograph.model.events import Event, Trouble
from heliograph.model.policy import DEFAULT_POLICY, LinkPolicy, OnLoss
from heliograph.model.states import StopReason
from tests.support.log_reader import Deadline, LogReader, SeenRecord, read_topic
from tests.support.plain_mirror import Copies, mirror_plainly, planned_specs, settings_for
from tests.support.records import mixed_records
from tests.support.topics import create_topic, delete_records
from tests.support.workload import produce_records

pytestmark = pytest.mark.kafka
CONTINUE = replace(DEFAULT_POLICY, on_loss=OnLoss.CONTINUE)


class Scene:
    def __init__(self, source: LabCluster, target: LabCluster, topic: str) -> None:
        self.source, self.target, self.topic = source.bootstrap_servers, target.bootstrap_servers, topic
        self.heard: list[Trouble] = []
        create_topic(self.source, topic, 1)

    def write(self, count: int, seed: int) -> None:
        produce_records(self.source, self.topic, list(mixed_records(seed, count)), partition=0)

    def written(self) -> list[SeenRecord]:
        (records,) = read_topic(self.source, self.topic)
        return records

    def mirror(
        self, specs: Callable[[Plan], list[CopySpec]] = planned_specs, policy: LinkPolicy = DEFAULT_POLICY
    ) -> tuple[Plan, Copies]:
        settings = settings_for(self.source, self.target, [self.topic], policy=policy)
        return mirror_plainly(settings, specs=specs, heard=self.heard)

    def assert_target_holds(self, records: list[SeenRecord], log: range) -> None:
        for view in ("read_committed", "read_uncommitted"):
            with LogReader(self.target, Deadline.after(60.0), view) as reader:
                assert reader.bounds(self.topic, 0) == log
                assert list(reader.records(self.topic, 0, log)) == records


@pytest.fixture
def scene(
    source_cluster: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> Scene:
    return Scene(source_cluster, target_cluster, unique_topic("begin-and-loss"))


def beginning_at(offset: int) -> Callable[[Plan], list[CopySpec]]:
    return lambda todo: [replace(spec, begin_at=offset) for spec in planned_specs(todo)]


def stops_of(copies: Copies) -> list[str | None]:
    return [copy.stopped.reason if copy.stopped else None for copy in copies.values()]


@pytest.mark.parametrize("goal", [250, 300])
def test_a_mirror_begins_in_the_middle_of_a_log_or_at_its_end(scene: Scene, goal: int) -> None:
    scene.write(250, seed=1)
    scene.write(50, seed=2)
    for more in (0, 30, 20):
        if more:
            scene.write(more, seed=3 + more)
        _, copies = scene.mirror(beginning_at(goal))
        assert stops_of(copies) == [None]
        records = scene.written()
        scene.assert_target_holds(records[goal:], range(goal, len(records)))


@pytest.mark.parametrize("by", ["policy", "operator"])
def test_a_loss_that_is_accepted_is_filled_and_the_mirror_goes_on(scene: Scene, by: str) -> None:
    scene.write(100, seed=1)
    todo, _ = scene.mirror()
    scene.write(150, seed=2)
    scene.write(40, seed=3)
    records = scene.written()
    delete_records(scene.source, scene.topic, 0, before_offset=250)

    refused, _ = scene.mirror()
    assert [each.why.reason for each in refused.refusals] == [StopReason.LOST]

    if by == "policy":
        again, copies = scene.mirror(policy=CONTINUE)
        assert [(each.lost_to, each.backlog) for each in again.copies] == [(250, 40)]
    else:
        accepted = [replace(spec, accepted_loss=(100, 250)) for spec in planned_specs(todo)]
        _, copies = scene.mirror(lambda _todo: accepted)
    assert stops_of(copies) == [None]
    told = [(each.event, each.first_offset, each.next_offset) for each in scene.heard]
    assert told == [(Event.LOSS_ACCEPTED, 100, 250)]
    scene.assert_target_holds(records[:100] + records[250:], range(290))

    scene.write(20, seed=4)
    _, copies = scene.mirror(policy=CONTINUE)
    assert stops_of(copies) == [None]
    scene.assert_target_holds(records[:100] + scene.written(), range(310))
