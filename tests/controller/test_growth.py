"""Growth: a source topic has more partitions than its mirror."""

from __future__ import annotations

from dataclasses import replace

from heliograph.controller.build_settings import with_build
from heliograph.controller.plan import AddPartitions, Plan, plan
from heliograph.controller.recorded import NOTHING_RECORDED, Recorded
from heliograph.controller.snapshot import PartitionSight, TargetTopic
from heliograph.model.admission import LastBatch
from heliograph.model.command import CommandState
from heliograph.model.ledger import WHOLE_TOPIC, LedgerState, Row, RowKind, RowName
from heliograph.model.link import Link
from heliograph.model.states import StopReason

from .observed import (
    LINK,
    SF_ID,
    config,
    mirrored_sight,
    partition,
    snapshot,
    source_sight,
    source_topic,
    target_topic,
)

OURS, NEW = mirrored_sight(source_end=9, target_end=5), source_sight(0, 3)
EMPTY = mirrored_sight(source_end=9, target_end=0)
THERE = target_topic(partitions=1)


def planned(
    *sights: PartitionSight,
    target: TargetTopic = THERE,
    link: Link = LINK,
    recorded: Recorded = NOTHING_RECORDED,
) -> Plan:
    look = snapshot(source_topic(sights=list(sights)), targets=[target], link=link)
    return plan([look], recorded_of=lambda _: recorded)


def as_recorded(target: TargetTopic) -> Recorded:
    state = LedgerState()
    name = RowName(
        source_cluster_id=SF_ID, target_topic=target.name, partition=WHOLE_TOPIC, kind=RowKind.TOPIC
    )
    ids = {"source_topic_id": source_topic().topic_id, "target_topic_id": target.topic_id}
    state.put(Row(name=name, term=1, fields={"source_topic": "orders", **ids}))
    return Recorded(state, CommandState(), SF_ID)


def test_a_mirror_that_has_fewer_partitions_gets_as_many_and_all_are_copied() -> None:
    made = planned(OURS, NEW, NEW)
    assert made.growths == (AddPartitions(link="sf-to-nyc", topic="orders", there=1, to=3),)
    assert [copy.spec.partition for copy in made.copies] == [partition(n) for n in range(3)]
    assert (made.refusals, made.awaited) == ((), ())


def test_an_empty_mirror_is_known_by_the_ledger() -> None:
    assert planned(EMPTY, NEW, recorded=as_recorded(THERE)).growths != ()


def test_an_empty_topic_that_nobody_knows_is_left_as_it_is_and_refused() -> None:
    made = planned(EMPTY, NEW)
    assert (made.growths, made.copies) == ((), ())
    assert {each.why.reason for each in made.refusals} == {StopReason.PARTITIONS}


def test_a_topic_that_somebody_else_writes_is_given_no_partitions() -> None:
    foreign = replace(OURS, last_batch=LastBatch(producer_id=4711, last_sequence=4))
    made = planned(foreign, NEW)
    assert (made.growths, made.copies) == ((), ())


def test_where_the_link_creates_nothing_new_partitions_wait_with_the_line_that_adds_them() -> None:
    made = planned(OURS, NEW, link=replace(LINK, create_topics=False))
    assert made.growths == ()
    assert [copy.spec.partition for copy in made.copies] == [partition(0)]
    (waits,) = made.awaited
    assert waits.partition == partition(1)
    assert (
        waits.command == "kafka-topics.sh --bootstrap-server nyc:9092 --alter --topic orders --partitions 2"
    )
    assert "create_topics: false" in waits.why


def test_a_topic_that_is_being_built_is_let_alone_and_its_new_partitions_wait() -> None:
    compacted = {"cleanup.policy": "compact"}
    topic = source_topic(sights=[OURS, NEW], config=config(compacted))
    made = plan([snapshot(topic, targets=[target_topic(partitions=1, own=with_build(compacted))])])
    assert made.growths == ()
    assert [(each.partition, each.command) for each in made.awaited] == [(partition(1), None)]


def test_more_partitions_than_the_source_has_are_refused_as_ever() -> None:
    made = planned(OURS, target=target_topic(partitions=2))
    assert (made.growths, made.copies) == ((), ())
    assert {each.why.reason for each in made.refusals} == {StopReason.PARTITIONS}


def test_no_partition_is_added_for_ones_that_are_not_to_be_copied() -> None:
    ahead = mirrored_sight(source_end=3, target_end=5)
    made = planned(ahead, target=target_topic(partitions=1))
    assert made.growths == ()
