"""Three real brokers against the model: elections, too few replicas, log starts, and what each remembers then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from heliograph.lab.cluster import LabCluster

from .both_replicated import Both, alter, create
from .control_batch import EndMarker
from .random_script import MARKER_IDS
from .requests import IDS, OLD_MS, DeleteRecords, Fetch, Produce, WriteMarkers

pytestmark = [pytest.mark.kafka, pytest.mark.faults, pytest.mark.slow]

BROKERS = (1, 2, 3)


@pytest.fixture(scope="module")
def three_brokers() -> Iterator[LabCluster]:
    with LabCluster.start(name="three", brokers=3, heap_mb=320) as cluster:
        yield cluster


async def test_a_clean_election_keeps_what_was_acknowledged_and_what_was_remembered(
    three_brokers: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    topic = unique_topic("clean")
    create(three_brokers, topic, BROKERS, min_insync_replicas="2")

    both = Both(three_brokers, topic, BROKERS, min_insync=2)
    async with both.real:
        await both.real.wait_for_leader()
        for sequence in range(7):
            await both.produce(Produce(sequence=sequence))
        for node in BROKERS:
            await both.same_seen_at(node)
        both.kill(1)
        await both.elected()
        for sequence in (6, 2, 1, 7, 6):  # five are remembered by the followers too
            await both.produce(Produce(sequence=sequence))
        for offset, epoch in ((7, 0), (8, 0), (3, 0)):
            fetch = Fetch(offset=offset, last_fetched_epoch=epoch)
            assert both.script.perform(fetch) == await both.real.perform(fetch)
        both.start(1)
        both.replicate()
        await both.same_seen_at(1)
        leader, epoch = both.model.truth
        for node, off in ((1, 0), (1, -1), (leader, -1), (leader, 1)):
            assert both.script.ask_with_epoch(node, epoch + off) == await both.real.ask_with_epoch(
                node, epoch + off
            )


async def test_too_few_replicas_refuse_before_they_append(
    three_brokers: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    topic = unique_topic("few")
    create(three_brokers, topic, BROKERS, min_insync_replicas="3")

    both = Both(three_brokers, topic, BROKERS, min_insync=3)
    async with both.real:
        await both.real.wait_for_leader()
        await both.produce(Produce())
        both.kill(3)
        await asyncio.sleep(8)  # until it is out of the in-sync set
        both.model.shrink(3)
        await both.produce(Produce(sequence=1))
        await both.produce(Produce())  # a duplicate, too, is refused
        await both.same_seen_at(1)
        both.start(3)
        both.replicate()
        await asyncio.sleep(4)
        await both.produce(Produce(sequence=1))


async def test_an_unclean_election_throws_away_what_was_acknowledged(
    three_brokers: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    topic = unique_topic("unclean")
    create(three_brokers, topic, (1, 2), unclean_leader_election_enable="true")

    both = Both(three_brokers, topic, (1, 2), min_insync=1)
    async with both.real:
        await both.real.wait_for_leader()
        await both.produce(Produce(producer_id=IDS[1], sequence=9, age_ms=OLD_MS))
        await both.produce(Produce(count=2))
        await both.same_seen_at(2)
        both.kill(2)
        await asyncio.sleep(8)  # until it is out of the in-sync set
        both.model.shrink(2)
        await both.produce(Produce(sequence=2))
        await both.produce(Produce(sequence=3))
        both.kill(1)
        both.start(2)
        await both.elected()
        await both.same_seen_at(2)
        await both.produce(Produce(sequence=4))
        await both.produce(Produce(sequence=2, count=2))
        both.start(1)
        both.replicate()
        await both.same_seen_at(1)


async def test_markers_are_refused_and_remembered_by_all_replicas(
    three_brokers: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    topic = unique_topic("markers")
    create(three_brokers, topic, BROKERS, min_insync_replicas="3")

    both = Both(three_brokers, topic, BROKERS, min_insync=3)
    async with both.real:
        await both.real.wait_for_leader()
        await both.produce(Produce())
        await both.write_markers(marks((2, 9), (2, 10)))
        await both.write_markers(marks((1, 11)))
        await both.write_markers(marks((2, 11), (1, 12)))  # the one that waits for followers is settled last
        await both.write_markers(marks((1, 12), (2, 12)))
        for node in BROKERS:
            await both.same_seen_at(node)
        both.kill(3)
        await asyncio.sleep(8)  # until it is out of the in-sync set
        both.model.shrink(3)
        await both.write_markers(marks((2, 13), (3, 13)))
        await both.write_markers(marks((0, 0)))  # too few replicas, whatever its epochs are
        both.start(3)
        both.replicate()
        await asyncio.sleep(4)
        both.kill(1)
        await asyncio.sleep(8)
        both.model.rules = replace(both.model.rules, min_insync=2)
        alter(three_brokers, topic, min_insync_replicas="2")
        await both.elected()
        await both.write_markers(marks((2, 12), (3, 12)))
        await both.write_markers(marks((3, 11), (2, 20)))
        for node in (2, 3):
            await both.same_seen_at(node)
        both.start(1)
        both.replicate()
        await both.same_seen_at(1)


async def test_a_follower_that_is_behind_the_start_begins_anew(
    three_brokers: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    topic = unique_topic("starts")
    create(three_brokers, topic, BROKERS, min_insync_replicas="1")

    both = Both(three_brokers, topic, BROKERS, min_insync=1)
    async with both.real:
        await both.real.wait_for_leader()
        await both.produce(Produce(count=2))
        await both.write_markers(marks((0, 0)))
        await both.delete_records(DeleteRecords(before_offset=1))
        for node in BROKERS:
            await both.same_seen_at(node)
        both.kill(3)
        await asyncio.sleep(8)  # until it is out of the in-sync set
        both.model.shrink(3)
        await both.produce(Produce(sequence=2))
        await both.produce(Produce(producer_id=IDS[1], sequence=9))
        await both.delete_records(DeleteRecords(before_offset=9))
        await both.delete_records(DeleteRecords(before_offset=4))
        both.start(3)
        both.replicate()
        for node in BROKERS:  # the third has nothing of what was before, and knows nobody who wrote only that
            await both.same_seen_at(node)


def marks(*epochs: tuple[int, int]) -> WriteMarkers:
    return WriteMarkers(markers=tuple(EndMarker(MARKER_IDS[0], *each) for each in epochs))
