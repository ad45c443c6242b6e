"""Brokers of Kafka 0.8 and 0.9, played by a peer whose answers are written by hand: no ApiVersions, no cluster id,
metadata, offsets and fetches of version 0."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest

from heliograph.cluster.admin import UNTOLD, describe_topic_configs
from heliograph.cluster.batches_at import batches_at
from heliograph.cluster.broker_versions import BrokerVersions, versions_of
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.fetches import LEAST_SHARE_BYTES, MOST_MESSAGE_BYTES, fetch
from heliograph.cluster.list_offsets import CONSUMER
from heliograph.cluster.log_reads import list_offset, read_batch, read_batches, read_span
from heliograph.cluster.metadata import Leader
from heliograph.cluster.rights import TopicRights, read_topic_rights
from heliograph.cluster.security.attempts import Attempts
from heliograph.cluster.security.cluster_locks import ClusterLocks
from heliograph.cluster.security.settings import NO_SECURITY
from heliograph.model.errors import ClusterUnreachable, ConfigError, Disconnected
from heliograph.model.partition import TopicPartition
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.fetch import FetchWant
from heliograph.wire.fetch_request import FetchAsk

from .peers import answer, never_answer, peer, properties_for, read_request

WHERE = TopicPartition("orders", 0)
NODE = 5
SOON_MS = 300


def text(name: bytes) -> bytes:
    return struct.pack(">h", len(name)) + name


def message(offset: int, value: bytes, attributes: int = 0) -> bytes:
    """Magic 0, without a key; the checksum is not looked at here."""
    body = struct.pack(">Ibbii", 0, 0, attributes, -1, len(value)) + value
    return struct.pack(">qi", offset, len(body)) + body


class OldBroker:
    """Leads all of `topics`, one partition each. `segments`: what it answers to times; `log`: the bytes of its log, and
    `asked`: what was asked, by API."""

    def __init__(self, *, says_nothing: bool = False) -> None:
        self.port = 0
        self.topics = [b"orders", b"__consumer_offsets"]
        self.segments = [7]
        self.log = b""
        self.asked: list[tuple[int, bytes]] = []
        self.connections = 0
        self._says_nothing = says_nothing

    async def behave(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            api_key, version, correlation_id, body = await read_request(reader)
            self.asked.append((api_key, body))
            if api_key == ApiKey.API_VERSIONS:
                if self._says_nothing:
                    await never_answer(reader, writer)
                return  # closes the connection, as brokers do that do not know the question
            assert version == 0
            make = {
                ApiKey.METADATA: self._metadata,
                ApiKey.LIST_OFFSETS: self._offsets,
                ApiKey.FETCH: self._fetch,
            }[ApiKey(api_key)]
            writer.write(answer(correlation_id, make(body)))

    def _metadata(self, _body: bytes) -> bytes:
        brokers = struct.pack(">ii", 1, NODE) + text(b"127.0.0.1") + struct.pack(">i", self.port)
        partition = struct.pack(">hiiiiii", 0, 0, NODE, 1, NODE, 1, NODE)
        topics = b"".join(
            struct.pack(">h", 0) + text(name) + struct.pack(">i", 1) + partition for name in self.topics
        )
        return brokers + struct.pack(">i", len(self.topics)) + topics

    def _offsets(self, body: bytes) -> bytes:
        replica, _, name_bytes = struct.unpack_from(">iih", body)
        _, _, time_ms, most = struct.unpack_from(">iiqi", body, 10 + name_bytes)
        assert most == 1
        consumers = {-1: [40], -2: [3]}
        found = consumers.get(time_ms, self.segments) if replica == CONSUMER else [42]
        head = struct.pack(">i", 1) + text(b"orders") + struct.pack(">iihi", 1, 0, 0, len(found))
        return head + b"".join(struct.pack(">q", offset) for offset in found)

    def _fetch(self, body: bytes) -> bytes:
        """The whole log, cut where the request says."""
        (most_bytes,) = struct.unpack_from(">i", body, len(body) - 4)
        records = self.log[:most_bytes]
        head = struct.pack(">i", 1) + text(b"orders") + struct.pack(">i", 1)
        return head + struct.pack(">ihqi", 0, 0, 40, len(records)) + records

    def requests(self, api_key: ApiKey) -> list[bytes]:
        return [body for asked, body in self.asked if asked == api_key]


@contextlib.asynccontextmanager
async def playing(broker: OldBroker, **changed: Any) -> AsyncIterator[ClusterClient]:
    configured = {"broker_version_fallback": "0.8.2.2", "cluster_id": "legacy-1", **changed}
    async with peer(broker.behave) as port:
        broker.port = port
        client = ClusterClient("legacy", properties_for(port, **configured))
        client.follow(["orders"])
        try:
            yield client
        finally:
            await client.aclose()


def test_each_release_is_taken_for_what_it_speaks() -> None:
    fetches = {
        release: versions_of(release)[ApiKey.FETCH] for release in ("0.8.2.2", "0.9.0.1", "0.10.0", "3.0")
    }
    assert fetches == {"0.8.2.2": (0, 0), "0.9.0.1": (0, 1), "0.10.0": (0, 2), "3.0": (0, 2)}
    assert versions_of("0.9.0.1")[ApiKey.METADATA] == (0, 0)


async def test_a_broker_that_closes_when_asked_for_versions_is_taken_for_the_fallback() -> None:
    broker = OldBroker()
    async with playing(broker) as client:
        await client.connect()
        assert client.metadata.cluster_id == "legacy-1"
        assert client.leader(WHERE) == Leader(NODE, -1)
        assert client.metadata.controller == -1


async def test_a_broker_that_says_nothing_is_asked_for_versions_once() -> None:
    broker = OldBroker(says_nothing=True)
    async with playing(broker, socket_connection_setup_timeout_ms=SOON_MS) as client:
        await client.connect()
        await client.refresh()
        assert len(broker.requests(ApiKey.API_VERSIONS)) == 1


async def test_a_broker_that_closes_once_and_then_answers_is_not_taken_for_an_old_one() -> None:
    """As one does that stops, or starts."""
    connections = 0

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        _, _, correlation_id, _ = await read_request(reader)
        if connections != 2:
            return
        writer.write(answer(correlation_id, struct.pack(">hihhh", 0, 1, ApiKey.FETCH, 0, 11)))
        await never_answer(reader, writer)

    async with peer(behave) as port:
        unlocked = ClusterLocks(NO_SECURITY, timeout_ms=1000, attempts=Attempts())
        brokers = BrokerVersions(properties_for(port, broker_version_fallback="0.9.0.1"), unlocked)
        connection = await brokers.open("127.0.0.1", port)
        assert connection.versions == {ApiKey.FETCH: (0, 11)}
        connection.close()
        with pytest.raises(Disconnected):  # it has answered before: it is never taken for another release
            await brokers.open("127.0.0.1", port)


async def test_without_a_fallback_the_hint_names_it() -> None:
    async with playing(OldBroker(), broker_version_fallback="") as client:
        with pytest.raises(ClusterUnreachable, match="asked for the versions") as raised:
            await client.connect()
    assert "broker.version.fallback" in raised.value.hint


async def test_a_cluster_without_an_id_needs_one_in_the_config() -> None:
    async with playing(OldBroker(), cluster_id="") as client:
        with pytest.raises(ConfigError, match=r"clusters\.legacy\.cluster\.id: required") as raised:
            await client.connect()
    assert "cluster.id: legacy-1" in raised.value.hint


async def test_topics_are_never_named_to_a_broker_that_would_create_them() -> None:
    broker = OldBroker()
    async with playing(broker) as client:
        client.follow(["gone"])
        await client.connect()
        assert set(broker.requests(ApiKey.METADATA)) == {struct.pack(">i", 0)}
        assert set(client.metadata.topics) == {"orders", "gone"}
        assert client.metadata.topics["gone"].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        rights = await read_topic_rights(client, ["orders", "gone"])
        assert rights["orders"] == TopicRights(error=0, held=None)
        assert rights["gone"].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert set(broker.requests(ApiKey.METADATA)) == {struct.pack(">i", 0)}


async def test_internal_topics_are_known_by_their_names() -> None:
    async with playing(OldBroker()) as client:
        await client.connect()
        topics = (await client.read_metadata(None)).topics
        assert {name: topic.internal for name, topic in topics.items()} == {
            "orders": False,
            "__consumer_offsets": True,
        }


async def test_configs_that_cannot_be_asked_for_are_untold_and_no_problem() -> None:
    async with playing(OldBroker()) as client:
        await client.connect()
        assert await describe_topic_configs(client, ["orders"]) == {"orders": UNTOLD}


async def test_the_ends_of_a_log_are_read_by_version_0() -> None:
    async with playing(OldBroker()) as client:
        await client.connect()
        span = await read_span(client, WHERE)
        assert (span.start, span.high_watermark, span.end) == (3, 40, 42)


@pytest.mark.parametrize(("segments", "offset"), [([7], 7), ([7, 3], 7), ([], 3)])
async def test_a_time_is_a_segment_that_was_written_before_it_or_the_first(
    segments: list[int], offset: int
) -> None:
    broker = OldBroker()
    broker.segments = segments
    async with playing(broker) as client:
        await client.connect()
        assert await list_offset(client, WHERE, 1_700_000_000_000, replica=CONSUMER) == offset


async def fetched(client: ClusterClient, *wants: FetchWant, max_bytes: int = 1 << 20) -> Any:
    return await fetch(
        client,
        NODE,
        "fetch",
        FetchAsk(list(wants), []),
        min_bytes=1,
        max_bytes=max_bytes,
        max_wait_ms=0,
        read_committed=True,
    )


async def test_a_message_that_was_cut_is_asked_for_with_its_own_size() -> None:
    broker = OldBroker()
    broker.log = message(4, b"x" * 200_000) + message(5, b"y")
    async with playing(broker) as client:
        await client.connect()
        reply = await fetched(client, FetchWant("orders", 0, 4, LEAST_SHARE_BYTES))
        assert bytes(reply.partitions[0].records) == message(4, b"x" * 200_000)
        sizes = [struct.unpack(">i", body[-4:])[0] for body in broker.requests(ApiKey.FETCH)]
        assert sizes == [LEAST_SHARE_BYTES, len(message(4, b"x" * 200_000))]


async def test_a_message_that_no_answer_can_hold_is_an_error_of_its_partition() -> None:
    broker = OldBroker()
    broker.log = struct.pack(">qi", 4, MOST_MESSAGE_BYTES) + b"x" * 100
    async with playing(broker) as client:
        await client.connect()
        reply = await fetched(client, FetchWant("orders", 0, 4, 1000))
        assert (reply.partitions[0].error, bytes(reply.partitions[0].records)) == (
            ErrorCode.MESSAGE_TOO_LARGE,
            b"",
        )


async def test_each_partition_is_given_its_share_of_a_limit_for_all() -> None:
    broker = OldBroker()
    async with playing(broker) as client:
        await client.connect()
        wants = [FetchWant("orders", number, 0, 1 << 20) for number in range(4)]
        await fetched(client, *wants, max_bytes=1 << 20)
        (body,) = broker.requests(ApiKey.FETCH)
        assert body.endswith(struct.pack(">iqi", 3, 0, 1 << 18))


async def test_one_batch_is_read_whole_by_whoever_asks_for_a_single_byte() -> None:
    broker = OldBroker()
    broker.log = message(5, b"b" * 100_000)
    async with playing(broker) as client:
        await client.connect()
        found = await read_batch(client, WHERE, 5)
        assert found is not None
        header, view = found
        assert (header.base_offset, header.magic, bytes(view)) == (5, 0, message(5, b"b" * 100_000))


async def test_a_batch_that_is_larger_than_its_share_is_read_whole_among_others() -> None:
    broker = OldBroker()
    broker.log = message(5, b"b" * 100_000)
    async with playing(broker) as client:
        await client.connect()
        found = await batches_at(client, {WHERE: 5}, lambda header, view: (header.base_offset, len(view)))
        assert found == {WHERE: (5, len(broker.log))}


async def test_a_compressed_set_is_found_by_offsets_inside_of_it() -> None:
    """Its header has the last of its offsets."""
    broker = OldBroker()
    gzip = 1
    broker.log = message(9, b"0..9", gzip) + message(19, b"10..19", gzip) + message(29, b"20..29", gzip)
    async with playing(broker) as client:
        await client.connect()
        batches = await read_batches(client, WHERE, 3, 12)
        assert [header.base_offset for header in batches.headers] == [9, 19]
