"""A cluster's client against brokers that misbehave: bounded, typed, naming the address; nothing left open."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import struct
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from kafka.protocol.admin import DescribeProducersResponse
from kafka.protocol.consumer import ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsResponse, MetadataRequest, MetadataResponse

from heliograph.cluster.client import CONTROL, ClusterClient
from heliograph.cluster.log_reads import read_producer, read_span
from heliograph.cluster.messages import common_version, decode
from heliograph.cluster.metadata import OLDER_LIMIT_S, ClusterMetadata, Leader, TopicMetadata, from_response
from heliograph.cluster.properties import ClientProperties
from heliograph.model.errors import (
    BrokerRefused,
    ClusterMistaken,
    ClusterUnreachable,
    ConfigError,
    Disconnected,
    ProtocolError,
)
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode
from tests.wire.hostile import Mutation, mutations

from .peers import (
    Behaviour,
    always_say,
    answer,
    close_at_once,
    never_answer,
    peer,
    properties_for,
    read_request,
    reset,
    speak_unasked,
)

API_VERSIONS, METADATA = 18, 3
METADATA_VERSION = 7
BOUND_S = 3.0


def api_versions(error: int = 0, offered: Sequence[tuple[int, int, int]] = ((3, 0, 7), (18, 0, 0))) -> bytes:
    return struct.pack(">hi", error, len(offered)) + b"".join(struct.pack(">hhh", *row) for row in offered)


def metadata(brokers: dict[int, int], leaders: dict[str, int]) -> bytes:
    """Brokers as node -> port, and topics of one partition as name -> leading node."""
    response, topic = MetadataResponse, MetadataResponse.MetadataResponseTopic
    partition = topic.MetadataResponsePartition
    built = response(
        throttle_time_ms=0,
        brokers=[
            response.MetadataResponseBroker(node_id=node, host="127.0.0.1", port=port, rack=None)
            for node, port in brokers.items()
        ],
        cluster_id="sf-id",
        controller_id=1,
        topics=[
            topic(
                error_code=0,
                name=name,
                is_internal=False,
                partitions=[
                    partition(
                        error_code=0,
                        partition_index=0,
                        leader_id=node,
                        leader_epoch=4,
                        replica_nodes=[1],
                        isr_nodes=[1],
                        offline_replicas=[],
                    )
                ],
            )
            for name, node in leaders.items()
        ],
    )
    return bytes(built.encode(version=METADATA_VERSION))


class HonestBroker:
    """Answers ApiVersions and Metadata; `asked` are the topics of each metadata request."""

    def __init__(self) -> None:
        self.asked: list[list[str] | None] = []
        self.brokers: dict[int, int] = {}
        self.leaders: dict[str, int] = {}
        self.connections = 0
        self.closed = 0

    async def behave(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                api_key, version, correlation_id, body = await read_request(reader)
                if api_key == API_VERSIONS:
                    writer.write(answer(correlation_id, api_versions()))
                else:
                    writer.write(answer(correlation_id, self._metadata(version, body)))
        finally:
            self.closed += 1

    def _metadata(self, version: int, body: bytes) -> bytes:
        assert version == METADATA_VERSION
        request = MetadataRequest.decode(memoryview(body), version=version)
        assert not request.allow_auto_topic_creation
        names = None if request.topics is None else [topic.name for topic in request.topics]
        self.asked.append(names)
        return metadata(
            self.brokers,
            {name: node for name, node in self.leaders.items() if names is None or name in names},
        )


@contextlib.asynccontextmanager
async def connected(**properties: Any) -> AsyncIterator[tuple[ClusterClient, HonestBroker]]:
    """A client of a cluster of one honest broker."""
    broker = HonestBroker()
    async with peer(broker.behave) as port:
        broker.brokers = {1: port}
        client = ClusterClient("sf", properties_for(port, **properties))
        await client.connect()
        yield client, broker
        await client.aclose()


@pytest.mark.parametrize(
    "behaviour",
    [
        never_answer,
        close_at_once,
        reset,
        speak_unasked,
        always_say(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        always_say(b"\x15\x03\x01\x00\x02\x02\x0a"),
        always_say(answer(4711, api_versions())),
        always_say(answer(1, b"")),
        always_say(answer(1, b"\xff" * 40)),
        always_say(answer(1, api_versions())[:-3]),
        always_say(struct.pack(">i", 2**31 - 1)),
        always_say(answer(1, api_versions(error=int(ErrorCode.UNSUPPORTED_VERSION)))),
        always_say(answer(1, api_versions(offered=()))),
    ],
)
async def test_a_peer_that_is_no_broker_is_an_unreachable_cluster_with_its_address(
    behaviour: Behaviour,
) -> None:
    async with peer(behaviour) as port:
        client = ClusterClient("sf", properties_for(port))
        async with asyncio.timeout(BOUND_S):
            with pytest.raises(ClusterUnreachable) as caught:
                await client.connect()
        await client.aclose()
        assert f"127.0.0.1:{port}" in caught.value.message
        assert "'sf'" in caught.value.message
        assert caught.value.hint


async def test_every_bootstrap_address_is_tried_and_named() -> None:
    async with peer(close_at_once) as first, peer(never_answer) as second:
        client = ClusterClient("sf", properties_for(first, second))
        with pytest.raises(ClusterUnreachable) as caught:
            await client.connect()
        assert f":{first}" in caught.value.message
        assert f":{second}" in caught.value.message


def test_a_broker_that_does_not_offer_an_api_is_refused_by_name() -> None:
    class Offers:
        address = "127.0.0.1:1"
        versions: dict[int, tuple[int, int]] = {0: (0, 2), 1: (4, 17), 3: (0, -1)}  # noqa: RUF012 - a test's own

    connection: Any = Offers()
    assert common_version(connection, 1, "Fetch", range(4, 13)) == 12
    for api_key in (0, 3, 99):
        with pytest.raises(BrokerRefused, match=r"127\.0\.0\.1:1") as caught:
            common_version(connection, api_key, "Produce", range(3, 10))
        assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION


async def test_a_cluster_with_another_id_than_the_config_says_is_refused_at_once_and_later() -> None:
    broker = HonestBroker()
    async with peer(broker.behave) as port:
        broker.brokers = {1: port}
        client = ClusterClient("sf", properties_for(port, cluster_id="nyc-id"))
        with pytest.raises(ConfigError, match=r"clusters\.sf\.cluster\.id: 'nyc-id' .* 'sf-id'"):
            await client.connect()
        with pytest.raises(ClusterMistaken):
            await client.refresh()
        await client.aclose()


async def test_a_cluster_may_be_configured_with_the_id_that_it_has() -> None:
    broker = HonestBroker()
    async with peer(broker.behave) as port:
        broker.brokers = {1: port}
        client = ClusterClient("sf", properties_for(port, cluster_id="sf-id"))
        await client.connect()
        assert client.metadata.cluster_id == "sf-id"
        await client.aclose()


async def test_the_cluster_is_found_and_its_leaders_are_known() -> None:
    broker = HonestBroker()
    async with peer(broker.behave) as port:
        broker.brokers, broker.leaders = {1: port}, {"orders": 1, "adrift": 9}
        client = ClusterClient("sf", properties_for(port))
        client.follow(["orders", "adrift"])
        await client.connect()
        assert client.metadata.cluster_id == "sf-id"
        assert client.leader(TopicPartition("orders", 0)) == Leader(1, 4)
        assert client.leader(TopicPartition("adrift", 0)) is None
        assert client.leader(TopicPartition("orders", 1)) is None
        await client.aclose()


async def test_callers_that_come_together_share_one_refresh() -> None:
    async with connected() as (client, broker):
        told: list[Sequence[str]] = []
        client.on_metadata = told.append
        before = len(broker.asked)
        await asyncio.gather(*(client.refresh() for _ in range(20)))
        assert len(broker.asked) == before + 1
        assert len(told) == 1


class Mute:
    """A broker that, once `away`, answers nothing until it hangs up."""

    def __init__(self) -> None:
        self.away = False
        self.hang_up = asyncio.Event()
        self.asked = asyncio.Event()

    async def behave(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            api_key, _, correlation_id, _ = await read_request(reader)
            if self.away:
                self.asked.set()
                await self.hang_up.wait()
                return
            _, port = writer.get_extra_info("sockname")
            said = api_versions() if api_key == API_VERSIONS else metadata({1: port}, {})
            writer.write(answer(correlation_id, said))


async def give_up(waiting: asyncio.Task[Any]) -> None:
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting


@pytest.mark.parametrize("what", ["refresh", "connection"])
async def test_a_failure_that_nobody_waits_for_any_more_is_no_error_of_the_event_loop(what: str) -> None:
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    broker = Mute()
    async with peer(broker.behave) as port:
        client = ClusterClient("sf", patient(port))
        await client.connect()
        broker.away = True
        question = client.refresh() if what == "refresh" else client.connection(1, CONTROL)
        waiting = asyncio.create_task(question)
        await broker.asked.wait()
        await give_up(waiting)
        shared = client._refreshing or client._opening[1, CONTROL]
        broker.hang_up.set()
        await asyncio.wait({shared}, timeout=BOUND_S)
        assert shared.done()
        client._refreshing = None  # as the next refresh does
        await client.aclose()
        del shared, waiting, question
        gc.collect()  # it is then that an exception is found never to have been retrieved
    assert unhandled == []


async def test_metadata_read_through_a_bootstrap_server_is_of_the_topics_asked_for() -> None:
    """All known brokers are away: what the bootstrap server says must be the answer to the question asked."""

    broker = HonestBroker()
    async with peer(broker.behave) as port, peer(close_at_once) as away:
        broker.brokers, broker.leaders = {1: away}, {"orders": 1, "payments": 1}
        client = ClusterClient("sf", properties_for(port))
        client.follow(["orders"])
        await client.connect()
        read = await client.read_metadata(["payments"])
        assert set(read.topics) == {"payments"}
        assert set(client.metadata.topics) == {"orders"}
        assert set((await client.read_metadata(None)).topics) == {"orders", "payments"}
        await client.aclose()


async def test_a_broker_that_left_is_disconnected_at_once_and_by_name() -> None:
    async with connected() as (client, _):
        with pytest.raises(Disconnected, match="no broker 7"):
            await client.connection(7, CONTROL)


async def test_callers_share_one_connection_for_each_purpose() -> None:
    async with connected() as (client, broker):
        before = broker.connections
        found = await asyncio.gather(*(client.connection(1, "fetch") for _ in range(10)))
        other = await client.connection(1, "append")
        assert len(set(found)) == 1
        assert other is not found[0]
        assert broker.connections == before + 2


async def test_a_lost_connection_is_opened_again() -> None:
    async with connected() as (client, _):
        first = await client.connection(1, CONTROL)
        first.close()
        second = await client.connection(1, CONTROL)
        assert second is not first
        assert not second.closed


async def test_a_broker_that_keeps_failing_is_tried_with_growing_pauses() -> None:
    tries = 0

    async def fail(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        nonlocal tries
        tries += 1

    broker = HonestBroker()
    async with peer(broker.behave) as port, peer(fail) as failing:
        broker.brokers = {1: port, 2: failing}
        client = ClusterClient("sf", properties_for(port))
        await client.connect()
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            with pytest.raises(Disconnected):
                await client.connection(2, CONTROL)
        await client.aclose()
    assert 3 <= tries <= 9  # 50, 100, 200, 400 ms and more, each with its jitter


async def until_all_closed(broker: HonestBroker) -> None:
    async with asyncio.timeout(BOUND_S):
        while broker.closed < broker.connections:  # noqa: ASYNC110 - the far end of a socket sets no event
            await asyncio.sleep(0.01)


async def test_closing_leaves_no_connection_open() -> None:
    async with connected() as (client, broker):
        await client.connection(1, CONTROL)
        await client.connection(1, "fetch")
        await client.aclose()
        await until_all_closed(broker)


def patient(port: int) -> ClientProperties:
    """Nothing ends by its own deadline while the test looks."""
    return properties_for(port, socket_connection_setup_timeout_ms=20_000, request_timeout_ms=20_000)


async def test_closing_while_a_connection_is_being_opened_leaves_none_behind() -> None:
    ended = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await never_answer(reader, writer)
        finally:
            ended.set()

    broker = HonestBroker()
    async with peer(broker.behave) as port, peer(silent) as mute:
        broker.brokers = {1: port, 2: mute}
        client = ClusterClient("sf", patient(port))
        await client.connect()
        opening = asyncio.create_task(client.connection(2, CONTROL))
        await asyncio.sleep(0.1)
        await client.aclose()
        await asyncio.gather(opening, return_exceptions=True)
        await asyncio.wait_for(ended.wait(), 1.0)


async def test_an_idle_limit_of_minus_one_never_closes_an_idle_connection() -> None:
    """Kafka's own meaning of a negative connections.max.idle.ms."""

    async with connected(connections_max_idle_ms=-1) as (client, _):
        connection = await client.connection(1, CONTROL)
        await asyncio.sleep(1.2)
        assert not connection.closed


async def test_an_idle_connection_is_closed_after_its_limit() -> None:
    async with connected(connections_max_idle_ms=100) as (client, _):
        connection = await client.connection(1, CONTROL)
        await asyncio.sleep(1.2)
        assert connection.closed


def test_a_metadata_answer_with_null_for_its_topics_is_a_protocol_error() -> None:
    body = metadata({1: 9092}, {"orders": 1})
    cut = body.index(struct.pack(">ih", 1, 0) + struct.pack(">h", 6) + b"orders")
    null_topics = body[:cut] + struct.pack(">i", -1)
    with pytest.raises(ProtocolError):
        from_response(decode(MetadataResponse, memoryview(null_topics), METADATA_VERSION, "127.0.0.1:1"))


class AnswersWith:
    """A client whose broker answers every call with this message."""

    name = "sf"

    def __init__(self, response: Any) -> None:
        self.properties = properties_for(1)
        self.metadata = ClusterMetadata(cluster_id="sf-id", controller=1, brokers={})
        self._response = response

    def leader(self, _where: TopicPartition) -> Leader:
        return Leader(1, 0)

    async def call(self, _node: int, _request: Any, _response_class: Any) -> Any:
        return self._response


async def test_an_answer_that_leaves_the_partition_out_is_a_protocol_error() -> None:
    """Whoever copies recovers from errors of the tree; any other would end the lane with all its partitions."""
    where = TopicPartition("orders", 0)
    offsets: Any = AnswersWith(ListOffsetsResponse(throttle_time_ms=0, topics=[]))
    producers: Any = AnswersWith(DescribeProducersResponse(throttle_time_ms=0, topics=[]))
    with pytest.raises(ProtocolError):
        await read_span(offsets, where)
    with pytest.raises(ProtocolError):
        await read_producer(producers, where, 7)


@settings(deadline=None, max_examples=200)
@given(mutate=mutations)
def test_a_mutated_metadata_answer_is_a_value_or_a_protocol_error(mutate: Mutation) -> None:
    body = mutate(metadata({1: 9092, 2: 9093}, {"orders": 1, "payments": 2}))
    with contextlib.suppress(ProtocolError):
        from_response(decode(MetadataResponse, memoryview(body), METADATA_VERSION, "127.0.0.1:1"))


@settings(deadline=None, max_examples=100)
@given(mutate=mutations)
def test_mutated_api_versions_are_a_value_or_a_protocol_error(mutate: Mutation) -> None:
    with contextlib.suppress(ProtocolError):
        decode(ApiVersionsResponse, memoryview(mutate(api_versions())), 0, "127.0.0.1:1")


def _metadata(epoch: int, *, node: int = 1, topic_id: str = "a") -> ClusterMetadata:
    topic = TopicMetadata(
        name="orders",
        topic_id=topic_id,
        internal=False,
        error=0,
        leaders={0: Leader(node, epoch)},
        replication_factor=1,
    )
    return ClusterMetadata(cluster_id="sf-id", controller=1, brokers={}, topics={"orders": topic})


def _seen(*answers: tuple[float, ClusterMetadata]) -> TopicMetadata:
    known = _metadata(7, topic_id=answers[0][1].topics["orders"].topic_id)
    for now, told in answers:
        known = known.updated(told, now)
    return known.topics["orders"]


@pytest.mark.parametrize("topic_id", ["a", ""])
def test_an_answer_with_an_older_leader_epoch_is_no_news(topic_id: str) -> None:
    older, newer = _metadata(6, node=2, topic_id=topic_id), _metadata(8, node=2, topic_id=topic_id)
    assert _seen((0.0, older)).leaders[0] == Leader(1, 7)
    assert _seen((0.0, older), (29.0, older), (30.0, newer)).leaders[0] == Leader(2, 8)
    assert _seen((0.0, older), (20.0, newer), (40.0, older)).identity == _seen((0.0, newer)).identity


def test_a_recreated_topic_begins_with_any_epoch() -> None:
    recreated = _metadata(7).updated(_metadata(0, node=2, topic_id="b"), 0.0).topics["orders"]
    assert recreated.leaders[0] == Leader(2, 0)


def test_a_topic_without_an_id_that_shows_only_older_epochs_for_long_is_another_one() -> None:
    """Its leaders were never learnt, and the copy said for ever that they had moved."""
    older = _metadata(0, node=2, topic_id="")
    before = _seen((0.0, older), (OLDER_LIMIT_S - 0.1, older))
    after = _seen((0.0, older), (OLDER_LIMIT_S, older))
    assert (before.leaders[0], after.leaders[0]) == (Leader(1, 7), Leader(2, 0))
    assert before.identity != after.identity
    assert _seen((0.0, older), (OLDER_LIMIT_S, older), (OLDER_LIMIT_S + 1, older)).identity == after.identity


def test_a_topic_without_an_id_that_was_gone_and_is_back_with_older_epochs_is_another_one_at_once() -> None:
    orders = replace(_metadata(0, topic_id="").topics["orders"], leaders={}, error=3)
    gone = replace(_metadata(7, topic_id=""), topics={"orders": orders})
    back = _seen((0.0, gone), (1.0, _metadata(0, node=2, topic_id="")))
    assert back.identity != _seen((0.0, _metadata(7, topic_id=""))).identity
    assert back.leaders[0] == Leader(2, 0)
    same = _seen((0.0, gone), (1.0, _metadata(8, node=2, topic_id="")))
    assert same.identity == _seen((0.0, _metadata(7, topic_id=""))).identity
