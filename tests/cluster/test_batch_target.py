"""A line for appends: by topic id where it can, by name where it must; on fake connections and on a real broker."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from kafka.protocol.producer.produce import ProduceResponse

from heliograph.cluster.batch_target import AppendLine, BatchTarget
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.line_name import LineName
from heliograph.cluster.metadata import Broker, ClusterMetadata
from heliograph.cluster.properties import parse_properties
from heliograph.lab.cluster import LabCluster
from heliograph.model.errors import Disconnected
from heliograph.model.partition import TopicPartition
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.produce import ProducedPartition, ProduceEntry
from tests.support.topics import create_topic, delete_topic
from tests.wire.batches import make_batch

from .peers import answer, never_answer, peer, properties_for, read_request

ID = b"0123456789abcdef"
BATCH = memoryview(b"batch")


def always() -> bool:
    return True


class FakeConnection:
    """Remembers versions; `answer` answers the oldest request in the version that it was sent in."""

    address = "fake:1"
    closed = False

    def __init__(self, highest: int) -> None:
        self.versions = {ApiKey.PRODUCE: (3, highest)}
        self.sent: list[tuple[int, bool]] = []
        self.waiting: list[tuple[int, asyncio.Future[memoryview]]] = []

    def request(
        self, _key: int, version: int, _buffers: Sequence[Any], *, flexible: bool, **_rest: Any
    ) -> asyncio.Future[memoryview]:
        self.sent.append((version, flexible))
        answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self.waiting.append((version, answer))
        return answer

    def answer(self, base_offset: int) -> None:
        version, waiting = self.waiting.pop(0)
        if not waiting.done():
            waiting.set_result(memoryview(answer_of(version, base_offset)))


def answer_of(version: int, base_offset: int) -> bytes:
    topic = ProduceResponse.TopicProduceResponse
    partition = topic.PartitionProduceResponse(
        index=0,
        error_code=0,
        base_offset=base_offset,
        log_append_time_ms=-1,
        log_start_offset=0,
        record_errors=[],
        error_message=None,
    )
    one = topic(name="orders", topic_id=uuid.UUID(bytes=ID), partition_responses=[partition])
    return bytes(ProduceResponse(responses=[one], throttle_time_ms=0).encode(version=version))


def line_on(connection: Any) -> AppendLine:
    return AppendLine(connection, followers_ms=500, timeout_ms=1000)


def by_id(topic_id: bytes = ID) -> ProduceEntry:
    return ProduceEntry("orders", 0, BATCH, topic_id)


@pytest.mark.parametrize(
    ("highest", "entries", "version"),
    [
        (13, [by_id()], 13),
        (14, [by_id()], 13),
        (13, [by_id(), by_id(b"")], 8),
        (13, [by_id(b"")], 8),
        (12, [by_id()], 8),
        (7, [by_id()], 7),
    ],
)
async def test_topics_go_by_id_if_the_broker_takes_it_and_every_entry_has_one(
    highest: int, entries: list[ProduceEntry], version: int
) -> None:
    connection = FakeConnection(highest)
    line_on(connection).send(entries, always)
    assert connection.sent == [(version, version >= 9)]


async def test_each_answer_is_read_in_the_version_of_its_request() -> None:
    connection = FakeConnection(13)
    line = line_on(connection)
    answers = [line.send([by_id(topic_id)], always) for topic_id in (ID, b"", ID, b"", b"", ID)]
    for nth in range(len(answers)):
        connection.answer(nth)
    read = [line.decode(answer.result()).partitions for answer in answers]
    assert read == [[ProducedPartition("orders", 0, 0, nth, 0, "")] for nth in range(len(answers))]


async def test_an_answer_that_nobody_reads_does_not_shift_the_others() -> None:
    connection = FakeConnection(13)
    line = line_on(connection)
    first, second, third = [line.send([by_id(topic_id)], always) for topic_id in (ID, b"", b"")]
    first.cancel()
    for nth in range(3):
        connection.answer(nth)
    assert second.done()  # and not read either
    assert line.decode(third.result()).partitions[0].base_offset == 2


async def test_answers_before_a_lost_line_are_read() -> None:
    connection = FakeConnection(13)
    line = line_on(connection)
    first, second = line.send([by_id()], always), line.send([by_id(b"")], always)
    connection.answer(0)
    second.set_exception(Disconnected("gone"))
    second.exception()
    assert line.decode(first.result()).partitions[0].topic == "orders"


@pytest.mark.parametrize(
    ("name", "given_up_ms"),
    [(LineName(0), 300), (LineName(0, patient=True), 300), (LineName(0, careful=True), 5000)],
)
async def test_the_kernel_gives_up_on_what_a_broker_does_not_take_before_it_counts_as_over(
    name: LineName, given_up_ms: int
) -> None:
    """After the request timeout, in which a broker may wait for followers; sooner where no sequence guards it."""

    async def offers_produce(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, _, correlation_id, _ = await read_request(reader)
        writer.write(answer(correlation_id, struct.pack(">hihhh", 0, 1, ApiKey.PRODUCE, 3, 8)))
        await never_answer(reader, writer)

    async with peer(offers_produce) as port:
        client = ClusterClient("target", properties_for(port, request_timeout_ms=300))
        brokers = {1: Broker(1, "127.0.0.1", port)}
        client.metadata = ClusterMetadata(cluster_id="nyc-id", controller=1, brokers=brokers)
        line = await BatchTarget(client, "link").line_to(1, name)
        sock = line.connection._sock
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == given_up_ms
        await client.aclose()


# -- a real broker


def batch(sequence: int) -> memoryview:
    """One record, with a producer id as ours are: nothing stands in its way but the topic's id."""
    record = (b"key", b"value", ())
    now_ms = int(time.time() * 1000)
    return memoryview(
        make_batch(
            [record], timestamp=now_ms, producer_id=0x48 << 56, producer_epoch=0, base_sequence=sequence
        )
    )


async def connected(cluster: LabCluster, topic: str) -> BatchTarget:
    client = ClusterClient("target", parse_properties({"bootstrap.servers": cluster.bootstrap_servers}))
    client.follow([topic])
    await client.connect()
    return BatchTarget(client, "link")


async def append(target: BatchTarget, entry: ProduceEntry) -> ProducedPartition:
    leader = target.leader(TopicPartition(entry.topic, entry.partition))
    assert leader is not None
    line = await target.line_to(leader.node, LineName(0))
    (partition,) = line.decode(await line.send([entry], always)).partitions
    return partition


@pytest.mark.kafka
async def test_rule_08_a_recreated_topic_refuses_what_was_meant_for_the_old_one(
    target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    topic = unique_topic("recreated")
    where = TopicPartition(topic, 0)
    bootstrap = target_cluster.bootstrap_servers
    await asyncio.to_thread(create_topic, bootstrap, topic)
    target = await connected(target_cluster, topic)
    try:
        old = uuid.UUID(target.topic_id(topic)).bytes
        first = await append(target, ProduceEntry(topic, 0, batch(0), old))
        assert (first.topic, first.error, first.base_offset) == (topic, 0, 0)
        await asyncio.to_thread(delete_topic, bootstrap, topic)
        await asyncio.to_thread(create_topic, bootstrap, topic)
        await target.refresh()
        new = uuid.UUID(target.topic_id(topic)).bytes
        assert new != old
        refused = await append(target, ProduceEntry(topic, 0, batch(1), old))
        assert (refused.topic, refused.error) == (topic, ErrorCode.UNKNOWN_TOPIC_ID)
        assert (await target.span(where)).end == 0
        assert (await append(target, ProduceEntry(topic, 0, batch(1), new))).error == 0
        assert (await append(target, ProduceEntry(topic, 0, batch(2)))).base_offset == 1
        assert (await target.span(where)).end == 2
    finally:
        await target.client.aclose()
