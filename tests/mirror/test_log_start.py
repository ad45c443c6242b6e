"""A source whose log starts above 0 is mirrored at its own offsets (P4), judged by an independent consumer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from heliograph.lab.cluster import LabCluster
from heliograph.model.policy import LinkPolicy
from tests.support.judge import assert_identical
from tests.support.log_reader import Deadline, LogReader
from tests.support.plain_mirror import Copies, mirror_plainly, settings_for
from tests.support.records import mixed_records
from tests.support.topics import create_topic, delete_records
from tests.support.transactions import write_mixed, writers
from tests.support.workload import produce_records

pytestmark = pytest.mark.kafka


class Scene:
    def __init__(self, source: LabCluster, target: LabCluster, topic: str) -> None:
        self.source, self.target, self.topic = source.bootstrap_servers, target.bootstrap_servers, topic

    def write(self, count: int, partition: int = 0, seed: int = 0) -> None:
        produce_records(self.source, self.topic, list(mixed_records(seed, count)), partition=partition)

    def start_at(self, offset: int, partition: int = 0) -> None:
        delete_records(self.source, self.topic, partition, before_offset=offset)

    def mirror(self, policy: LinkPolicy | None = None) -> Copies:
        link = {"policy": policy} if policy is not None else {}
        _, copies = mirror_plainly(settings_for(self.source, self.target, [self.topic], **link))
        return copies

    def assert_identical(self, records: int | None = None) -> None:
        for view in ("read_committed", "read_uncommitted"):
            assert_identical(
                self.source,
                self.target,
                [self.topic],
                records=records,
                isolations=("read_committed", view),
            )


@pytest.fixture
def scene(
    source_cluster: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> Scene:
    return Scene(source_cluster, target_cluster, unique_topic("start"))


def test_logs_that_start_above_0_begin_there_on_the_target_too(scene: Scene) -> None:
    """Two partitions at once, one of which holds nothing any more; records that come later follow."""
    create_topic(scene.source, scene.topic, 3)
    for partition in range(3):
        scene.write(250, partition, seed=partition)  # logs are cut between batches, as retention does it
        scene.write(50, partition, seed=10 + partition)
    scene.start_at(250, 0)
    scene.start_at(300, 1)
    scene.mirror()
    scene.assert_identical(records=50 + 0 + 300)
    scene.write(20, 1, seed=7)
    scene.mirror()
    scene.assert_identical(records=50 + 20 + 300)


def test_a_log_that_starts_among_transactions_is_mirrored(scene: Scene) -> None:
    create_topic(scene.source, scene.topic, 1)
    with writers(scene.source, ["one", "two", "three"]) as by:
        write_mixed(5, scene.topic, by, 60)
        with LogReader(scene.source, Deadline.after(30.0)) as log:
            scene.start_at(log.bounds(scene.topic, 0).stop)
        write_mixed(6, scene.topic, by, 60)
    copies = scene.mirror()
    assert all(copy.stopped is None for copy in copies.values())
    scene.assert_identical()
