"""What cannot be copied yet stops its own partition, says what and where, and the others go on (P6, P7)."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from heliograph.lab.cluster import LabCluster
from heliograph.model.partition import MirrorPartition
from heliograph.model.states import StopReason
from tests.support.judge import assert_identical
from tests.support.log_reader import read_topic
from tests.support.plain_mirror import Copies, mirror_plainly, settings_for, settled
from tests.support.records import Record, mixed_records
from tests.support.topics import create_topic, delete_records, delete_topic
from tests.support.workload import produce_mixed, produce_records

pytestmark = pytest.mark.kafka


class Pair:
    """Both clusters, and a topic of two partitions: 0 meets the obstacle, 1 must go on."""

    def __init__(self, source: LabCluster, target: LabCluster, topic: str) -> None:
        self.source = source.bootstrap_servers
        self.target = target.bootstrap_servers
        self.topic = topic

    def write(self, count: int, partition: int = 0, seed: int = 0) -> None:
        produce_records(self.source, self.topic, list(mixed_records(seed, count)), partition=partition)

    def mirror(self) -> dict[int, tuple[str | None, str, int]]:
        """Per partition: why it stopped, in which words, and how far it came."""
        todo, copies = mirror_plainly(settings_for(self.source, self.target, [self.topic]))
        ended: dict[int, tuple[str | None, str, int]] = {
            refusal.partition.partition: (refusal.why.reason, refusal.why.message, 0)
            for refusal in todo.refusals
        }
        for key, copy in copies.items():
            stop = copy.stopped
            assert stop is None or stop.hint
            ended[key.partition] = (
                stop.reason if stop else None,
                stop.message if stop else "",
                copy.next_offset or 0,
            )
        return ended

    def target_records(self, partition: int) -> int:
        return len(read_topic(self.target, self.topic)[partition])


@pytest.fixture
def pair(source_cluster: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str]) -> Pair:
    return Pair(source_cluster, target_cluster, unique_topic("obstacle"))


def _assert_stopped(pair: Pair, reason: StopReason, *words: str, copied: int) -> None:
    pair.write(50, partition=1, seed=9)
    ended = pair.mirror()
    why, message, next_offset = ended[0]
    assert why == reason, ended
    assert all(word in message for word in words), message
    assert next_offset == copied == pair.target_records(0)
    assert ended[1] == (None, "", 50)
    assert pair.target_records(1) == 50


def test_a_record_above_the_targets_limit_stops_the_partition_before_it(pair: Pair) -> None:
    create_topic(pair.source, pair.topic, 2)
    create_topic(pair.target, pair.topic, 2, configs={"max.message.bytes": "20000"})
    small = Record(key=None, value=b"small", headers=(), timestamp_ms=int(time.time() * 1000))
    large = Record(key=None, value=b"x" * 50_000, headers=(), timestamp_ms=small.timestamp_ms)
    produce_records(pair.source, pair.topic, [small] * 5)
    produce_records(pair.source, pair.topic, [large])
    produce_records(pair.source, pair.topic, [small] * 5)
    produce_records(pair.source, pair.topic, [small] * 50, partition=1)
    ended = pair.mirror()
    assert ended[0][0] == StopReason.TOO_LARGE
    assert "offset 5" in ended[0][1]
    assert pair.target_records(0) == 5
    assert pair.target_records(1) == 50


def test_a_refused_timestamp_stops_the_partition(pair: Pair) -> None:
    """The target's own topic takes no timestamps from the future; the source's does."""
    create_topic(pair.source, pair.topic, 2, configs={"message.timestamp.after.max.ms": str(2**63 - 1)})
    create_topic(pair.target, pair.topic, 2)
    now_ms = int(time.time() * 1000)
    plain = Record(key=b"k", value=b"v", headers=(), timestamp_ms=now_ms)
    ahead = Record(key=b"k", value=b"v", headers=(), timestamp_ms=now_ms + 86_400_000)
    produce_records(pair.source, pair.topic, [plain] * 5)
    produce_records(pair.source, pair.topic, [ahead])
    _assert_stopped(pair, StopReason.TIMESTAMP, "offset 5", copied=5)


def test_retention_that_overtook_the_mirror_is_a_loud_loss(pair: Pair) -> None:
    create_topic(pair.source, pair.topic, 2)
    pair.write(20)
    assert pair.mirror()[0][2] == 20
    pair.write(30, seed=1)
    delete_records(pair.source, pair.topic, 0, before_offset=35)
    pair.write(50, partition=1, seed=9)
    ended = pair.mirror()
    assert ended[0][0] == StopReason.LOST
    assert "[20, 35)" in ended[0][1]
    assert ended[1] == (None, "", 50)
    assert pair.target_records(0) == 20


def test_a_foreign_record_on_the_target_is_seen_at_the_next_start(pair: Pair) -> None:
    create_topic(pair.source, pair.topic, 2)
    pair.write(20)
    assert pair.mirror()[0][2] == 20
    produce_records(pair.target, pair.topic, list(mixed_records(5, 1)))
    pair.write(30, seed=1)
    ended = pair.mirror()
    assert ended[0][0] == StopReason.FOREIGN
    assert pair.target_records(0) == 21


def test_a_target_that_somebody_else_filled_is_refused(pair: Pair) -> None:
    create_topic(pair.source, pair.topic, 2)
    create_topic(pair.target, pair.topic, 2)
    pair.write(20)
    produce_records(pair.target, pair.topic, list(mixed_records(5, 3)))
    assert pair.mirror()[0][0] == StopReason.FOREIGN


def test_another_number_of_partitions_is_refused_whole(pair: Pair) -> None:
    create_topic(pair.source, pair.topic, 2)
    create_topic(pair.target, pair.topic, 3)
    pair.write(5)
    ended = pair.mirror()
    assert {why for why, _, _ in ended.values()} == {StopReason.PARTITIONS}
    assert pair.target_records(0) == 0


def test_a_recreated_source_is_seen(pair: Pair) -> None:
    create_topic(pair.source, pair.topic, 2)
    pair.write(20)
    pair.mirror()
    delete_topic(pair.source, pair.topic)
    create_topic(pair.source, pair.topic, 2)
    pair.write(5, seed=3)
    assert pair.mirror()[0][0] == StopReason.TARGET_AHEAD
    pair.write(40, seed=4)
    assert pair.mirror()[0][0] == StopReason.ANCHOR


def test_a_target_emptied_by_retention_goes_on_where_it_ended(pair: Pair) -> None:
    create_topic(pair.source, pair.topic, 2)
    pair.write(20)
    pair.mirror()
    delete_records(pair.target, pair.topic, 0, before_offset=20)
    delete_records(pair.source, pair.topic, 0, before_offset=20)
    pair.write(10, seed=2)
    assert pair.mirror()[0] == (None, "", 30)
    assert_identical(pair.source, pair.target, [pair.topic])


def test_a_topic_is_created_with_its_configs_and_what_a_mirror_needs(pair: Pair) -> None:
    create_topic(
        pair.source,
        pair.topic,
        3,
        configs={"retention.ms": "7654321", "compression.type": "gzip", "max.message.bytes": "3000000"},
    )
    produce_mixed(pair.source, pair.topic, count=300, seed=8)
    todo, _ = mirror_plainly(settings_for(pair.source, pair.target, [pair.topic]))
    (creation,) = todo.creations
    assert creation.shape.configs["retention.ms"] == "7654321"
    assert creation.shape.configs["compression.type"] == "producer"
    assert creation.shape.configs["max.message.bytes"] == "3000000"
    assert_identical(pair.source, pair.target, [pair.topic], records=300)


def test_a_second_run_copies_only_what_is_new(pair: Pair) -> None:
    create_topic(pair.source, pair.topic, 2)
    pair.write(20)
    pair.mirror()
    pair.write(15, seed=2)
    todo, copies = mirror_plainly(settings_for(pair.source, pair.target, [pair.topic]))
    key = MirrorPartition("link", pair.topic, pair.topic, 0)
    assert [c.next_offset for c in todo.copies] == [20, 0]
    assert copies[key].records == 15
    assert_identical(pair.source, pair.target, [pair.topic], records=35)


def test_a_target_recreated_under_an_idle_mirror_stops_it_before_anything_is_written(pair: Pair) -> None:
    create_topic(pair.source, pair.topic, 2)
    pair.write(20)
    recreated = False

    def until(copies: Copies) -> bool:
        nonlocal recreated
        if not recreated and settled(copies):
            delete_topic(pair.target, pair.topic)
            create_topic(pair.target, pair.topic, 2)
            recreated = True
        return recreated and all(copy.stopped for copy in copies.values())

    _, copies = mirror_plainly(settings_for(pair.source, pair.target, [pair.topic]), until)
    assert {copy.stopped.reason for copy in copies.values() if copy.stopped} == {StopReason.RECREATED}
    assert pair.target_records(0) == 0
