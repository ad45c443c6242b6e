"""A partition of a real broker, asked with the same steps as the model and answering in the same words."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from kafka.protocol.admin import DescribeProducersRequest, DescribeProducersResponse
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from heliograph.cluster.client import CONTROL, ClusterClient
from heliograph.cluster.fetches import fetch
from heliograph.cluster.log_reads import CONSUMER, EARLIEST, LATEST, OURSELVES
from heliograph.cluster.metadata import Leader
from heliograph.cluster.properties import parse_properties
from heliograph.model.errors import ProtocolError, RequestFailed
from heliograph.model.partition import TopicPartition
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.batch import split_batches
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.fetch import FetchWant
from heliograph.wire.fetch_request import FetchAsk
from heliograph.wire.produce import (
    PRODUCE_BY_ID_FROM,
    PRODUCE_FLEXIBLE_FROM,
    ProduceEntry,
    decode_produce,
    encode_produce,
)

from .model_broker import NO_EPOCH, Answer, ProducerView
from .replica import EpochEnd
from .requests import AskWithEpoch, Fetch, Look, Produce, Seen, Step

PRODUCE_VERSION = 8
TIMEOUT_MS = 3_000
LEADER_TIMEOUT_S = 40.0


class RealPartition:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self.where = TopicPartition(topic, 0)
        self._client = ClusterClient("real", parse_properties({"bootstrap.servers": bootstrap}))
        self._client.follow([topic])

    async def __aenter__(self) -> RealPartition:
        await self._client.connect()
        return self

    async def __aexit__(self, *_problem: object) -> None:
        await self._client.aclose()

    @property
    def leader(self) -> Leader:
        leader = self._client.leader(self.where)
        assert leader is not None
        return leader

    async def wait_for_leader(self, *, above_epoch: int = NO_EPOCH) -> Leader:
        """Until a leader of a later epoch answers."""
        async with asyncio.timeout(LEADER_TIMEOUT_S):
            while True:
                try:
                    await self._client.refresh()
                    leader = self._client.leader(self.where)
                    if leader is not None and leader.epoch > above_epoch:
                        answer = await self._list_offset(leader.node, LATEST, CONSUMER, leader.epoch)
                        if not answer.error:
                            return leader
                except (RequestFailed, ProtocolError):
                    pass  # not up yet
                await asyncio.sleep(0.1)

    async def refresh(self) -> None:
        await self._client.refresh()

    async def perform(self, step: Step, batch: memoryview | None = None) -> Seen:
        match step:
            case Produce():
                assert batch is not None
                return await self.produce(self.leader.node, batch)
            case Look():
                return await self.look(self.leader.node)
            case AskWithEpoch(epochs_off=off):
                return await self.ask_with_epoch(self.leader.node, self.leader.epoch + off)
            case Fetch(offset=offset, last_fetched_epoch=epoch):
                return await self._fetch(offset, epoch)
        raise AssertionError(f"a broker is not asked for {step}")

    @property
    def topic_id(self) -> bytes:
        return UUID(self._client.metadata.topic_id(self.where.topic)).bytes

    async def produce(self, node: int, batch: memoryview, topic_id: bytes = b"") -> Seen:
        """By the topic's name, or by an id if one is given."""
        version = PRODUCE_BY_ID_FROM if topic_id else PRODUCE_VERSION
        connection = await self._client.connection(node, "append")
        entries = [ProduceEntry(self.where.topic, self.where.partition, batch, topic_id)]
        body = await connection.request(
            ApiKey.PRODUCE,
            version,
            encode_produce(version, entries, timeout_ms=TIMEOUT_MS),
            flexible=version >= PRODUCE_FLEXIBLE_FROM,
            timeout_ms=2 * TIMEOUT_MS,
        )
        answer = decode_produce(version, body, {topic_id: self.where.topic}).partitions[0]
        return ErrorCode.name_of(answer.error), answer.base_offset

    async def look(self, node: int) -> Seen:
        asked = ((EARLIEST, CONSUMER), (LATEST, CONSUMER), (LATEST, OURSELVES))
        ends = [await self._list_offset(node, when, replica, NO_EPOCH) for when, replica in asked]
        return await self._producers(node), tuple(ends)

    async def ask_with_epoch(self, node: int, epoch: int) -> Seen:
        end = await self._list_offset(node, LATEST, OURSELVES, epoch)
        fetched = await self._ask_fetch(node, FetchWant(*self.where, 0, 1, epoch))
        return end, fetched.error

    async def _list_offset(self, node: int, timestamp: int, replica: int, epoch: int) -> Answer:
        topic = ListOffsetsRequest.ListOffsetsTopic
        asked = topic.ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=replica,
            isolation_level=0,
            topics=[topic(name=self.where.topic, partitions=[asked])],
            timeout_ms=TIMEOUT_MS,
        )
        response = await self._client.call(node, request, ListOffsetsResponse)
        answer = response.topics[0].partitions[0]
        return Answer(answer.error_code, answer.offset)

    async def _producers(self, node: int) -> Seen:
        topic = DescribeProducersRequest.TopicRequest(name=self.where.topic, partition_indexes=[0])
        request = DescribeProducersRequest(topics=[topic])
        response = await self._client.call(node, request, DescribeProducersResponse)
        answer = response.topics[0].partitions[0]
        assert answer.error_code == 0
        return tuple(
            sorted(
                (each.producer_id, ProducerView(each.producer_epoch, each.last_sequence, each.last_timestamp))
                for each in answer.active_producers or ()
            )
        )

    async def _fetch(self, offset: int, last_fetched_epoch: int) -> Seen:
        want = FetchWant(*self.where, offset, 1, self.leader.epoch, last_fetched_epoch)
        answer = await self._ask_fetch(self.leader.node, want)
        diverging = None if answer.diverging_epoch is None else EpochEnd(*answer.diverging_epoch)
        first = next(split_batches(answer.records), None)
        return answer.error, answer.high_watermark, diverging, first[0] if first else None

    async def _ask_fetch(self, node: int, want: FetchWant) -> Any:
        reply = await fetch(
            self._client,
            node,
            CONTROL,
            FetchAsk([want], []),
            min_bytes=1,
            max_bytes=1,
            max_wait_ms=0,
            read_committed=False,
        )
        return reply.partitions[0]
