"""Markers on real brokers: each fills one offset that no consumer sees; of racing attempts one is appended; and the
rights that it takes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator, Callable

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from heliograph.cluster.batch_target import BatchTarget
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.markers import Marker
from heliograph.cluster.producer_states import ProducerState
from heliograph.cluster.properties import parse_properties
from heliograph.lab.cluster import LabCluster
from heliograph.model.errors import BrokerRefused, Disconnected
from heliograph.model.marker_label import MarkerLabel, ReadLabel, marker_id, marker_label, read_label
from heliograph.model.partition import TopicPartition
from heliograph.model.producer_id import producer_id
from heliograph.wire.control_batch import MarkerKind, read_marker
from heliograph.wire.error_codes import ErrorCode
from tests.support.guarded_cluster import CLUSTER, GUARDED, US
from tests.support.log_reader import read_topic
from tests.support.records import Record
from tests.support.topics import create_topic
from tests.support.workload import produce_records

pytestmark = pytest.mark.kafka

OURS = producer_id("source", "orders")


def always() -> bool:
    return True


@contextlib.asynccontextmanager
async def target_on(bootstrap: str, *topics: str) -> AsyncIterator[BatchTarget]:
    client = ClusterClient("target", parse_properties({"bootstrap.servers": bootstrap}))
    client.follow(topics)
    await client.connect()
    target = BatchTarget(client, "link")
    try:
        for topic in topics:
            await until_led(target, topic)
        yield target
    finally:
        await client.aclose()


async def until_led(target: BatchTarget, topic: str) -> None:
    """A broker names itself the leader of a new partition a moment before it takes markers for it."""
    for partition in itertools.count():
        where = TopicPartition(topic, partition)
        leader = target.leader(where)
        if leader is None:
            return
        while where not in await target.log_ends(leader.node, [where]):  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.02)


async def fill(
    target: BatchTarget,
    *markers: Marker,
    permit: Callable[[], bool] = always,
) -> dict[tuple[TopicPartition, int], int]:
    leader = target.leader(markers[0].where)
    assert leader is not None
    return await target.write_markers(leader.node, markers, permit)


def at(where: TopicPartition, offset: int, attempt: int) -> Marker:
    return Marker(where, marker_label(OURS, offset, attempt))


async def labels_in(
    target: BatchTarget, where: TopicPartition, first: int, end: int
) -> list[ReadLabel | None]:
    """What the markers there say; each is a batch of its own."""
    found = await target.batches_in(where, first, end)
    read = [read_marker(*each) for each in zip(found.headers, found.views, strict=True)]
    assert {marker.kind for marker in read} == {MarkerKind.ABORT}
    assert [header.base_offset for header in found.headers] == list(range(first, end))
    return [read_label(OURS, first, MarkerLabel(*marker[1:])) for marker in read]


async def test_markers_fill_offsets_that_no_consumer_sees(
    target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    bootstrap, topic = target_cluster.bootstrap_servers, unique_topic("gaps")
    where, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    await asyncio.to_thread(create_topic, bootstrap, topic, 2)
    await asyncio.to_thread(produce_records, bootstrap, topic, [Record(value=b"before")])
    async with target_on(bootstrap, topic) as target:
        markers = [at(where, offset, 4) for offset in range(1, 1001)]
        shared = at(other, 0, 4)
        answered = await fill(target, *markers, shared)
        assert answered == {(where, marker_id(OURS, 0)): 0, (other, marker_id(OURS, 0)): 0}
        assert (await target.span(where)).end == 1001
        assert (await target.span(other)).end == 1
        assert await labels_in(target, where, 1, 1001) == [
            ReadLabel(offset, 4, False) for offset in range(1, 1001)
        ]
        state = (await target.producers(where))[marker_id(OURS, 0)]
        assert (state.epoch, state.coordinator_epoch) == markers[-1].label[1:]
        assert state.transaction_start == -1
        await asyncio.to_thread(produce_records, bootstrap, topic, [Record(value=b"behind")])
    seen = await asyncio.to_thread(read_topic, bootstrap, topic)
    assert [(each.offset, each.value) for each in seen[0]] == [(0, b"before"), (1001, b"behind")]
    assert seen[1] == []


async def test_of_two_attempts_at_one_offset_the_second_is_refused_whichever_it_is(
    target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    bootstrap, topic = target_cluster.bootstrap_servers, unique_topic("attempts")
    await asyncio.to_thread(create_topic, bootstrap, topic, 2)
    async with target_on(bootstrap, topic) as target:
        for partition, (first, second, code) in enumerate(
            [
                (3, 5, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
                (5, 3, ErrorCode.INVALID_PRODUCER_EPOCH),
            ]
        ):
            where = TopicPartition(topic, partition)
            key = (where, marker_id(OURS, 0))
            assert await fill(target, at(where, 0, first)) == {key: 0}
            assert await fill(target, at(where, 0, second)) == {key: code}
            assert (await target.span(where)).end == 1
            assert await fill(target, at(where, 1, max(first, second))) == {key: 0}


async def test_racing_attempts_fill_a_gap_exactly(
    target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    """Four of them, each with attempts that nobody else uses, one marker at a time."""
    bootstrap, topic = target_cluster.bootstrap_servers, unique_topic("raced")
    where, end = TopicPartition(topic, 0), 300
    await asyncio.to_thread(create_topic, bootstrap, topic)
    attempts = itertools.count(1)
    won: list[int] = []

    async def race(seed: int) -> None:
        chance = random.Random(seed)
        async with target_on(bootstrap, topic) as target:
            attempt = next(attempts)
            while (offset := (await target.span(where)).end) < end:
                if chance.random() < 0.2:
                    await asyncio.sleep(chance.random() * 0.01)
                (code,) = (await fill(target, at(where, offset, attempt))).values()
                if code == 0:
                    won.append(offset)
                elif code == ErrorCode.INVALID_PRODUCER_EPOCH:
                    attempt = next(attempts)
                else:
                    assert code == ErrorCode.TRANSACTION_COORDINATOR_FENCED

    await asyncio.gather(*(race(seed) for seed in range(4)))
    assert sorted(won) == list(range(end))
    async with target_on(bootstrap, topic) as target:
        assert (await target.span(where)).end == end
        read = await labels_in(target, where, 0, end)
        assert [each and each.offset for each in read] == list(range(end))
        assert len({each and each.attempt for each in read}) > 1


async def test_nothing_is_filled_without_a_permit(
    target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    bootstrap, topic = target_cluster.bootstrap_servers, unique_topic("unpermitted")
    where = TopicPartition(topic, 0)
    await asyncio.to_thread(create_topic, bootstrap, topic)
    async with target_on(bootstrap, topic) as target:
        with pytest.raises(Disconnected, match="not permitted"):
            await fill(target, at(where, 0, 1), permit=lambda: False)
        await asyncio.sleep(0.2)
        assert (await target.span(where)).end == 0
        assert await fill(target, at(where, 0, 1)) == {(where, marker_id(OURS, 0)): 0}


async def test_a_marker_for_a_topic_that_is_not_there_is_refused_by_its_code(
    target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    bootstrap, topic = target_cluster.bootstrap_servers, unique_topic("there")
    await asyncio.to_thread(create_topic, bootstrap, topic)
    missing = TopicPartition(unique_topic("not-there"), 0)
    async with target_on(bootstrap, topic) as target:
        there = at(TopicPartition(topic, 0), 0, 1)
        answered = await fill(target, there, at(missing, 0, 1))
        assert answered == {
            (there.where, marker_id(OURS, 0)): 0,
            (missing, marker_id(OURS, 0)): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }


async def test_records_are_deleted_up_to_an_offset_and_no_further_than_the_end(
    target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    bootstrap, topic = target_cluster.bootstrap_servers, unique_topic("cut")
    where = TopicPartition(topic, 0)
    await asyncio.to_thread(create_topic, bootstrap, topic)
    await asyncio.to_thread(produce_records, bootstrap, topic, [Record(value=b"v")] * 10)
    async with target_on(bootstrap, topic) as target:
        await target.delete_records(where, 4)
        span = await target.span(where)
        assert (span.start, span.end) == (4, 10)
        with pytest.raises(BrokerRefused) as refused:
            await target.delete_records(where, 11)
        assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (await target.span(where)).start == 4


async def test_a_data_producers_state_has_no_coordinator_epoch(
    target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    bootstrap, topic = target_cluster.bootstrap_servers, unique_topic("idempotent")
    await asyncio.to_thread(create_topic, bootstrap, topic)
    await asyncio.to_thread(produce_records, bootstrap, topic, [Record(value=b"v")])
    async with target_on(bootstrap, topic) as target:
        (state,) = (await target.producers(TopicPartition(topic, 0))).values()
        assert isinstance(state, ProducerState)
        assert (state.last_sequence, state.coordinator_epoch) == (0, -1)


# -- rights

CLUSTER_RIGHTS = {
    **GUARDED,
    "allow.everyone.if.no.acl.found": "true",  # all but what the test gives rights on: the cluster
}


def change_rights(bootstrap: str, *, give: AclOperation, take: AclOperation | None = None) -> None:
    """On the cluster, to this client; given first: taking one away is a right as well."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    rule = (ResourceType.BROKER, CLUSTER, ResourcePatternType.LITERAL, US, "*")
    for done in admin.create_acls([AclBinding(*rule, give, AclPermissionType.ALLOW)]).values():
        done.result(30)
    if take is not None:
        for done in admin.delete_acls([AclBindingFilter(*rule, take, AclPermissionType.ALLOW)]).values():
            done.result(30)


async def test_markers_take_alter_on_the_cluster_and_without_it_the_hint_says_so() -> None:
    with LabCluster.start(name="guarded", properties=CLUSTER_RIGHTS) as cluster:
        bootstrap, where = cluster.bootstrap_servers, TopicPartition("orders", 0)
        await asyncio.to_thread(create_topic, bootstrap, where.topic)
        await asyncio.to_thread(change_rights, bootstrap, give=AclOperation.ALTER)
        async with target_on(bootstrap, where.topic) as target:
            await asyncio.sleep(1)  # rules reach a broker a moment after they are confirmed
            assert await fill(target, at(where, 0, 1)) == {(where, marker_id(OURS, 0)): 0}
            await asyncio.to_thread(
                change_rights, bootstrap, give=AclOperation.DESCRIBE, take=AclOperation.ALTER
            )
            await asyncio.sleep(1)
            with pytest.raises(BrokerRefused) as refused:
                await fill(target, at(where, 1, 1))
            assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert f"--bootstrap-server {bootstrap} --add" in refused.value.hint
            assert (await target.span(where)).end == 1
