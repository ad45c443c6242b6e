"""A cluster of brokers on loopback that count what they are asked: real sockets and the real client, no Kafka.

Answers metadata, configs, ListOffsets, DescribeProducers and Fetch as brokers do, also where a fetch leaves something
out because answers have limits. Logs are what a test says they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.list_offsets import CONSUMER, EARLIEST, LATEST
from heliograph.cluster.properties import ClientProperties
from heliograph.model.partition import TopicPartition
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.error_codes import ErrorCode

from .peers import answer, read_request

EPOCH = 4
VERSIONS = {
    ApiKey.API_VERSIONS: 0,
    ApiKey.METADATA: 8,
    ApiKey.LIST_OFFSETS: 5,
    ApiKey.FETCH: 11,
    ApiKey.DESCRIBE_CONFIGS: 3,
    ApiKey.DESCRIBE_PRODUCERS: 0,
}
FLEXIBLE = {ApiKey.DESCRIBE_PRODUCERS}  # in all of its versions


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedLog:
    """`batches`: by base offset. `producers`: their last sequence numbers, by id."""

    start: int = 0
    end: int = 0
    high_watermark: int | None = None
    stable_end: int | None = None
    batches: Mapping[int, bytes] = field(default_factory=dict)
    producers: Mapping[int, int] = field(default_factory=dict)

    def offset(self, time_ms: int, *, replica: int, committed: bool) -> int:
        if time_ms == EARLIEST:
            return self.start
        assert time_ms == LATEST
        if replica != CONSUMER:
            return self.end
        watermark = self.end if self.high_watermark is None else self.high_watermark
        return self.stable_end if committed and self.stable_end is not None else watermark

    def read(self, offset: int, limit_bytes: int, *, sure: bool) -> bytes:
        """Whole batches from the one that holds the offset; the first comes in any case if it is `sure`."""
        found = b""
        for base, data in sorted(self.batches.items()):
            if base + struct.unpack_from(">i", data, 23)[0] < offset:
                continue
            if len(found) + len(data) > limit_bytes and not (sure and not found):
                break
            found += data
        return found


class CountedCluster:
    """Broker n leads the partitions whose number is n modulo the number of brokers. `refusals`: codes that the next
    answers about a partition have. `mute`: brokers that answer no more."""

    def __init__(self, name: str, brokers: int, topics: Mapping[str, Sequence[PlayedLog]]) -> None:
        self.name = name
        self.nodes = range(brokers)
        self.topics = {name: list(logs) for name, logs in topics.items()}
        self.asked: list[tuple[int, ApiKey]] = []  # every request so far: the broker, and what
        self.refusals: dict[TopicPartition, list[int]] = {}
        self.mute: set[int] = set()
        self.fetch_max_bytes = 1 << 30
        self.ports: dict[int, int] = {}
        self._servers: dict[int, asyncio.Server] = {}
        self._open: dict[int, set[asyncio.Task[None]]] = {node: set() for node in self.nodes}

    @property
    def properties(self) -> ClientProperties:
        return ClientProperties(
            bootstrap_servers=tuple(("127.0.0.1", port) for port in self.ports.values()),
            request_timeout_ms=1000,
            socket_connection_setup_timeout_ms=1000,
        )

    def counts(self, *, since: int = 0) -> Counter[tuple[int, ApiKey]]:
        return Counter(self.asked[since:])

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[ClusterClient]:
        client = ClusterClient(self.name, self.properties)
        client.follow(self.topics)
        await client.connect()
        try:
            yield client
        finally:
            await client.aclose()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[CountedCluster]:
        for node in self.nodes:
            server = await asyncio.start_server(partial(self._accept, node), "127.0.0.1", 0)
            self._servers[node] = server
            self.ports[node] = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            for node in self.nodes:
                await self.take_away(node)

    async def take_away(self, node: int) -> None:
        """Its port refuses connections from now on; the others go on to name it."""
        self._servers[node].close()
        tasks = [task for task in self._open[node] if not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, node: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[node].add(task)
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while True:
                key, version, correlation_id, body = await read_request(reader)
                api_key = ApiKey(key)
                self.asked.append((node, api_key))
                if node in self.mute:
                    continue
                flexible = api_key in FLEXIBLE
                said = self._answer(api_key, version, memoryview(body)[flexible:], node)
                writer.write(answer(correlation_id, b"\0" * flexible + said))
        except (asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError):
            pass  # the test is over, or the other side has left
        finally:
            writer.close()

    # -- answers

    def _answer(self, api_key: ApiKey, version: int, body: memoryview, node: int) -> bytes:
        if api_key is ApiKey.API_VERSIONS:
            offered = (struct.pack(">hhh", key, 0, highest) for key, highest in VERSIONS.items())
            return struct.pack(">hi", 0, len(VERSIONS)) + b"".join(offered)
        assert version == VERSIONS[api_key]
        request_class, make = {
            ApiKey.METADATA: (MetadataRequest, self._metadata),
            ApiKey.LIST_OFFSETS: (ListOffsetsRequest, self._offsets),
            ApiKey.FETCH: (FetchRequest, self._fetch),
            ApiKey.DESCRIBE_CONFIGS: (DescribeConfigsRequest, self._configs),
            ApiKey.DESCRIBE_PRODUCERS: (DescribeProducersRequest, self._producers),
        }[api_key]
        made: bytes = make(request_class.decode(body, version=version), node).encode(version=version)
        return made

    def leader(self, where: TopicPartition) -> int:
        return where.partition % len(self.nodes)

    def _code(self, where: TopicPartition, node: int) -> int:
        waiting = self.refusals.get(where)
        if waiting:
            return waiting.pop(0)
        return 0 if node == self.leader(where) else int(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _metadata(self, request: Any, _node: int) -> Any:
        topic = MetadataResponse.MetadataResponseTopic
        partition = topic.MetadataResponsePartition
        broker = MetadataResponse.MetadataResponseBroker
        names = list(self.topics) if request.topics is None else [each.name for each in request.topics]

        def led(where: TopicPartition) -> Any:
            node = self.leader(where)
            return partition(
                error_code=0,
                partition_index=where.partition,
                leader_id=node,
                leader_epoch=EPOCH,
                replica_nodes=[node],
                isr_nodes=[node],
                offline_replicas=[],
            )

        def told(name: str) -> Any:
            logs = self.topics.get(name)
            return topic(
                error_code=0 if logs is not None else int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                name=name,
                is_internal=False,
                partitions=[led(TopicPartition(name, n)) for n in range(len(logs or ()))],
            )

        return MetadataResponse(
            throttle_time_ms=0,
            brokers=[
                broker(node_id=node, host="127.0.0.1", port=port, rack=None)
                for node, port in self.ports.items()
            ],
            cluster_id=f"{self.name}-id",
            controller_id=0,
            topics=[told(name) for name in names],
        )

    def _offsets(self, request: Any, node: int) -> Any:
        topic = ListOffsetsResponse.ListOffsetsTopicResponse

        def told(name: str, asked: Any) -> Any:
            where = TopicPartition(name, asked.partition_index)
            code = self._code(where, node)
            if asked.current_leader_epoch != EPOCH:
                code = int(ErrorCode.FENCED_LEADER_EPOCH)
            log = self.topics[name][where.partition]
            offset = log.offset(
                asked.timestamp, replica=request.replica_id, committed=bool(request.isolation_level)
            )
            return topic.ListOffsetsPartitionResponse(
                partition_index=where.partition,
                error_code=code,
                timestamp=-1,
                offset=-1 if code else offset,
                leader_epoch=EPOCH,
            )

        return ListOffsetsResponse(
            throttle_time_ms=0,
            topics=[
                topic(name=each.name, partitions=[told(each.name, p) for p in each.partitions])
                for each in request.topics
            ],
        )

    def _producers(self, request: Any, node: int) -> Any:
        topic = DescribeProducersResponse.TopicResponse
        partition = topic.PartitionResponse

        def told(where: TopicPartition) -> Any:
            code = self._code(where, node)
            remembered = {} if code else self.topics[where.topic][where.partition].producers
            return partition(
                partition_index=where.partition,
                error_code=code,
                error_message=None,
                active_producers=[
                    partition.ProducerState(
                        producer_id=own_id,
                        producer_epoch=0,
                        last_sequence=sequence,
                        last_timestamp=0,
                        coordinator_epoch=-1,
                        current_txn_start_offset=-1,
                    )
                    for own_id, sequence in remembered.items()
                ],
            )

        return DescribeProducersResponse(
            throttle_time_ms=0,
            topics=[
                topic(
                    name=each.name,
                    partitions=[told(TopicPartition(each.name, n)) for n in each.partition_indexes],
                )
                for each in request.topics
            ],
        )

    def _fetch(self, request: Any, node: int) -> Any:
        topic = FetchResponse.FetchableTopicResponse
        room, has_records, answers = min(request.max_bytes, self.fetch_max_bytes), False, []
        for each in request.topics:
            told = []
            for asked in each.partitions:
                where = TopicPartition(each.topic, asked.partition)
                code, log = self._code(where, node), self.topics[where.topic][where.partition]
                limit = min(asked.partition_max_bytes, room)
                records = b"" if code else log.read(asked.fetch_offset, limit, sure=not has_records)
                has_records = has_records or bool(records)
                room = max(room - len(records), 0)
                told.append(
                    topic.PartitionData(
                        partition_index=where.partition,
                        error_code=code,
                        high_watermark=log.offset(LATEST, replica=CONSUMER, committed=False),
                        last_stable_offset=log.end,
                        log_start_offset=log.start,
                        aborted_transactions=[],
                        preferred_read_replica=-1,
                        records=records,
                    )
                )
            answers.append(topic(topic=each.topic, partitions=told))
        return FetchResponse(throttle_time_ms=0, error_code=0, session_id=0, responses=answers)

    def _configs(self, request: Any, _node: int) -> Any:
        result = DescribeConfigsResponse.DescribeConfigsResult
        return DescribeConfigsResponse(
            throttle_time_ms=0,
            results=[
                result(
                    error_code=0,
                    error_message=None,
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                    configs=[],
                )
                for each in request.resources
            ],
        )
