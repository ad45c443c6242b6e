"""The filter of aborted batches against a read_committed consumer: a real log of three producers' transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import pytest

from heliograph.cluster.batch_source import BatchSource
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.log_reads import read_stable_end
from heliograph.cluster.properties import parse_properties
from heliograph.lab.cluster import LabCluster
from heliograph.model.partition import TopicPartition
from heliograph.model.policy import Isolation
from heliograph.wire.aborted import AbortedFilter
from heliograph.wire.batch import BatchHeader, split_batches
from heliograph.wire.control_batch import MarkerKind, read_marker
from heliograph.wire.fetch import FetchedPartition, FetchWant
from heliograph.wire.fetch_request import FetchAsk
from tests.support.log_reader import read_topic
from tests.support.topics import create_topic
from tests.support.transactions import write_mixed, writers

pytestmark = pytest.mark.kafka

STEPS = 120
NAMES = ("one", "two", "three")


def visible(
    batches: Iterable[tuple[BatchHeader, memoryview]], aborted: Iterable[tuple[int, int]], first_offset: int
) -> list[int]:
    """The offsets that a consumer sees of these batches; nothing was compacted, so all of a batch are there."""
    it = AbortedFilter(list(aborted))
    return [
        offset
        for header, view in batches
        if not it.is_aborted(header, view) and not header.is_control
        for offset in range(max(header.base_offset, first_offset), header.next_offset)
    ]


async def fetch_at(source: BatchSource, where: TopicPartition, offset: int) -> FetchedPartition:
    """A few batches from there on."""
    leader = source.leader(where)
    assert leader is not None
    want = FetchWant(*where, offset, 500, leader.epoch)
    reply = await source.fetch(
        leader.node,
        "calm",
        FetchAsk([want], []),
        max_bytes=500,
        max_wait_ms=100,
        isolation=Isolation.READ_COMMITTED,
    )
    (fetched,) = reply.partitions
    assert fetched.error == 0
    return fetched


async def connected(bootstrap: str, topic: str) -> BatchSource:
    client = ClusterClient("source", parse_properties({"bootstrap.servers": bootstrap}))
    client.follow([topic])
    await client.connect()
    return BatchSource(client, "link")


async def until_stable(source: BatchSource, where: TopicPartition, *, open_behind: int = 0) -> int:
    """The log's end once all but so many of the last offsets are stable: a transaction is committed before its markers
    are in the logs."""
    while True:
        end = (await source.span(where)).end
        if await read_stable_end(source.client, where) == end - open_behind:
            return end
        await asyncio.sleep(0.02)


async def test_what_is_left_is_what_a_read_committed_consumer_sees(
    source_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    bootstrap, topic = source_cluster.bootstrap_servers, unique_topic("transactional")
    await asyncio.to_thread(create_topic, bootstrap, topic)
    await asyncio.to_thread(fill, bootstrap, topic)
    source, where = await connected(bootstrap, topic), TopicPartition(topic, 0)
    try:
        end = await until_stable(source, where)
        [committed] = await asyncio.to_thread(read_topic, bootstrap, topic)
        wanted = [record.offset for record in committed]
        whole = await source.batches_in(where, 0, end, committed=True)
        assert len(whole.aborted) == len(set(whole.aborted)) > 5
        assert visible(zip(whole.headers, whole.views, strict=True), whole.aborted, 0) == wanted
        markers = [
            read_marker(header, view)
            for header, view in zip(whole.headers, whole.views, strict=True)
            if header.is_control
        ]
        assert {marker.kind for marker in markers} == {MarkerKind.ABORT, MarkerKind.COMMIT}
        assert [marker.kind for marker in markers].count(MarkerKind.ABORT) == len(whole.aborted)
        assert {marker.coordinator_epoch >= 0 for marker in markers} == {True}
        assert (await source.batches_in(where, 0, end)).aborted == ()
        await each_answer_stands_alone(source, where, end, wanted)
    finally:
        await source.client.aclose()


def fill(bootstrap: str, topic: str) -> None:
    with writers(bootstrap, NAMES) as three:
        write_mixed(1, topic, three, STEPS)


async def each_answer_stands_alone(
    source: BatchSource, where: TopicPartition, end: int, wanted: list[int]
) -> None:
    """Read from any offset on, in small answers."""
    for first_offset in (0, 7, end // 2, end - 20):
        offset, seen, answers = first_offset, list[int](), 0
        while offset < end:
            fetched = await fetch_at(source, where, offset)
            batches = list(split_batches(fetched.records))
            seen += visible(batches, fetched.aborted, offset)
            offset = batches[-1][0].next_offset
            answers += 1
        assert seen == [each for each in wanted if each >= first_offset]
        assert answers > 1


async def test_committed_records_are_read_up_to_the_first_open_transaction(
    source_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    bootstrap, topic = source_cluster.bootstrap_servers, unique_topic("open")
    await asyncio.to_thread(create_topic, bootstrap, topic)
    source, where = await connected(bootstrap, topic), TopicPartition(topic, 0)
    try:
        with writers(bootstrap, NAMES[:2]) as (one, two):
            await asyncio.to_thread(one.write, topic, 3)
            await asyncio.to_thread(one.commit)
            await asyncio.to_thread(two.write, topic, 2)
            await asyncio.to_thread(one.write, topic, 2)
            await asyncio.to_thread(one.commit)
            assert await until_stable(source, where, open_behind=5) == 9
            read = await source.batches_in(where, 0, 9, committed=True)
            assert read.headers[-1].next_offset == 4
            assert (await source.batches_in(where, 0, 9)).headers[-1].next_offset == 9
            await asyncio.to_thread(two.abort)
        assert await until_stable(source, where) == 10
        aborted = (await source.batches_in(where, 0, 10, committed=True)).aborted
        assert [first_offset for _, first_offset in aborted] == [4]
    finally:
        await source.client.aclose()
