"""The requests of a script to a real broker, one partition each, in versions that real clients use.

Owns the messages. Fetch is asked by a decoder of its own: the aborted transactions of an answer are what is compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kafka.protocol.admin import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from kafka.protocol.producer import WriteTxnMarkersRequest, WriteTxnMarkersResponse

from heliograph.cluster.client import ClusterClient
from heliograph.model.partition import TopicPartition
from heliograph.wire import writer
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.fetch import FetchWant
from heliograph.wire.produce import (
    PRODUCE_BY_ID_FROM,
    PRODUCE_FLEXIBLE_FROM,
    ProduceEntry,
    decode_produce,
    encode_produce,
)

from .answers import Answer, ProducerView
from .control_batch import EndMarker
from .requests import Seen

PRODUCE_VERSION = 8
FETCH_VERSION = 12
MARKERS_VERSION = 1
TIMEOUT_MS = 3_000
NO_TOPICS: Mapping[int, str] = {}
NULL_STRING = 2  # bytes, of the transactional id that a request does not have


class FetchAnswer(NamedTuple):
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    diverging_epoch: tuple[int, int] | None
    aborted: tuple[tuple[int, int], ...]
    records: memoryview


class RealRequests:
    def __init__(self, client: ClusterClient, where: TopicPartition) -> None:
        self._client = client
        self._where = where

    async def produce(self, node: int, batch: memoryview, topic_id: bytes, *, in_transaction: bool) -> Seen:
        version = PRODUCE_BY_ID_FROM if topic_id else PRODUCE_VERSION
        entries = [ProduceEntry(self._where.topic, self._where.partition, batch, topic_id)]
        buffers = encode_produce(version, entries, timeout_ms=TIMEOUT_MS)
        if in_transaction:
            assert not topic_id
            buffers[0] = writer.string("model", flexible=False) + bytes(buffers[0])[NULL_STRING:]
        flexible = version >= PRODUCE_FLEXIBLE_FROM
        body = await self._send(node, ApiKey.PRODUCE, version, buffers, flexible=flexible)
        answer = decode_produce(version, body, {topic_id: self._where.topic}).partitions[0]
        return ErrorCode.name_of(answer.error), answer.base_offset

    async def write_markers(
        self, node: int, markers: Iterable[EndMarker], topics: Mapping[int, str] = NO_TOPICS
    ) -> Seen:
        """`topics`: of producer ids that do not mark this one."""
        marker = WriteTxnMarkersRequest.WritableTxnMarker
        request = WriteTxnMarkersRequest(
            markers=[
                marker(
                    producer_id=each.producer_id,
                    producer_epoch=each.producer_epoch,
                    transaction_result=each.commits,
                    topics=[
                        marker.WritableTxnMarkerTopic(
                            name=topics.get(each.producer_id, self._where.topic),
                            partition_indexes=[self._where.partition],
                        )
                    ],
                    coordinator_epoch=each.coordinator_epoch,
                )
                for each in markers
            ]
        )
        response = await self._ask(node, request, WriteTxnMarkersResponse, MARKERS_VERSION)
        return tuple(
            sorted(
                (each.producer_id, ErrorCode.name_of(each.topics[0].partitions[0].error_code))
                for each in response.markers
            )
        )

    async def delete_records(self, node: int, before_offset: int) -> Seen:
        topic = DeleteRecordsRequest.DeleteRecordsTopic
        asked = topic.DeleteRecordsPartition(partition_index=self._where.partition, offset=before_offset)
        request = DeleteRecordsRequest(
            topics=[topic(name=self._where.topic, partitions=[asked])], timeout_ms=TIMEOUT_MS
        )
        response = await self._client.call(node, request, DeleteRecordsResponse)
        answer = response.topics[0].partitions[0]
        return ErrorCode.name_of(answer.error_code), answer.low_watermark

    async def list_offset(
        self, node: int, timestamp: int, replica: int, epoch: int, *, committed: bool = False
    ) -> Answer:
        topic = ListOffsetsRequest.ListOffsetsTopic
        asked = topic.ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=replica,
            isolation_level=int(committed),
            topics=[topic(name=self._where.topic, partitions=[asked])],
            timeout_ms=TIMEOUT_MS,
        )
        response = await self._client.call(node, request, ListOffsetsResponse)
        answer = response.topics[0].partitions[0]
        return Answer(answer.error_code, answer.offset)

    async def producers(self, node: int) -> dict[int, ProducerView]:
        topic = DescribeProducersRequest.TopicRequest(name=self._where.topic, partition_indexes=[0])
        request = DescribeProducersRequest(topics=[topic])
        response = await self._client.call(node, request, DescribeProducersResponse)
        answer = response.topics[0].partitions[0]
        assert answer.error_code == 0
        return {
            each.producer_id: ProducerView(
                each.producer_epoch,
                each.last_sequence,
                each.last_timestamp,
                each.coordinator_epoch,
                each.current_txn_start_offset,
            )
            for each in answer.active_producers or ()
        }

    async def fetch(self, node: int, want: FetchWant, *, committed: bool = False) -> FetchAnswer:
        topic = FetchRequest.FetchTopic
        asked = topic.FetchPartition(
            partition=want.partition,
            current_leader_epoch=want.leader_epoch,
            fetch_offset=want.next_offset,
            last_fetched_epoch=want.last_fetched_epoch,
            log_start_offset=-1,
            partition_max_bytes=want.max_bytes,
        )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=want.max_bytes,
            isolation_level=int(committed),
            session_id=0,
            session_epoch=-1,
            topics=[topic(topic=want.topic, partitions=[asked])],
            forgotten_topics_data=[],
            rack_id="",
        )
        response = await self._ask(node, request, FetchResponse, FETCH_VERSION)
        return _answer(response.responses[0].partitions[0])

    async def _ask(self, node: int, request: Any, response_class: Any, version: int) -> Any:
        buffers = [request.encode(version=version)]
        flexible = request.flexible_version_q(version)
        body = await self._send(node, request.API_KEY, version, buffers, flexible=flexible)
        return response_class.decode(body, version=version)

    async def _send(
        self, node: int, api: int, version: int, buffers: list[Any], *, flexible: bool
    ) -> memoryview:
        connection = await self._client.connection(node, "script")
        return await connection.request(api, version, buffers, flexible=flexible, timeout_ms=2 * TIMEOUT_MS)


def _answer(told: Any) -> FetchAnswer:
    at = told.diverging_epoch
    diverging = None if at is None or at.epoch < 0 else (at.epoch, at.end_offset)
    aborted = tuple((each.producer_id, each.first_offset) for each in told.aborted_transactions or ())
    return FetchAnswer(
        told.error_code,
        told.high_watermark,
        told.last_stable_offset,
        told.log_start_offset,
        diverging,
        aborted,
        memoryview(bytes(told.records or b"")),
    )
