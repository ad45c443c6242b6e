"""A small topic of one partition that is written and read record by record: what Heliograph keeps on a target cluster.

Owns how records are appended and read. Must not know what they mean. For the control plane only: kafka-python encodes
and decodes the records, a few hundred a second at most.

Appends are idempotent (InitProducerId, which needs no right but WRITE on the topic): one whose outcome is unknown is
sent again with the same sequence number until the leader has answered, so that every record is there once and in order;
also one whose writer does not wait for it any more, before anything else is appended. A record that is late cannot take
back a newer one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from heliograph.cluster.admin import call_any
from heliograph.cluster.by_leader import leader_of
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.fetches import fetch
from heliograph.cluster.list_offsets import CONSUMER, EARLIEST, LATEST
from heliograph.cluster.log_reads import first_since, list_offset
from heliograph.cluster.messages import common_version, raise_for, unpacking
from heliograph.model.clock import time_of_day
from heliograph.model.errors import BrokerRefused, ProtocolError, RequestFailed
from heliograph.model.partition import TopicPartition
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.fetch import FetchWant
from heliograph.wire.fetch_request import FetchAsk
from heliograph.wire.produce import (
    PRODUCE_BY_ID_FROM,
    PRODUCE_FLEXIBLE_FROM,
    PRODUCE_VERSIONS,
    ProduceEntry,
    decode_produce,
    encode_produce,
)

BATCH_BYTES = 512 << 10  # below the default max.message.bytes of 1 MB
READ_BYTES = 1 << 20
AGAIN_S = 0.2
APPEND_LIMIT_S = 30.0
_MAGIC, _NO_CODEC = 2, 0
_BY_NAME = range(PRODUCE_VERSIONS[0], PRODUCE_BY_ID_FROM)
# What may pass when the leader is found, or its followers are back.
_AGAIN = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # right after it was created
    }
)
# The leader has forgotten the producer: with a new id the batch is the first of its own.
_FORGOTTEN = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)

Pair = tuple[bytes | None, bytes | None]


class LogRecord(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None


class RecordLog:
    """`purpose` names its connections: a read that waits for records holds up no append."""

    def __init__(self, client: ClusterClient, topic: str) -> None:
        self.topic = topic
        self._client = client
        self._where = TopicPartition(topic, 0)
        self._producer: tuple[int, int] | None = None  # id and epoch
        self._sequence = 0
        self._unsettled: Sequence[Pair] | None = None  # what may be there, or not
        self._lock = asyncio.Lock()

    # -- writing

    async def append(self, records: Sequence[Pair]) -> None:
        """Durable on return, in this order. `RequestFailed` if it could not be done in APPEND_LIMIT_S; what came before
        the record that failed is there."""
        async with self._lock:
            for portion in _portions(records):
                await self._settle(portion)
                self._unsettled = portion
                await self._append(portion)
                self._unsettled = None

    async def _settle(self, next_up: Sequence[Pair]) -> None:
        """An append that was given up, or whose writer was cancelled, may be there, or come yet: it is sent again
        before another one takes its sequence number, and would be taken for it."""
        if self._unsettled is not None and self._unsettled != next_up:
            await self._append(self._unsettled)
            self._unsettled = None

    async def _append(self, records: Sequence[Pair]) -> None:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + APPEND_LIMIT_S
        while True:
            try:
                await self._try(records)
            except BrokerRefused as refused:
                if refused.code in _FORGOTTEN:
                    self._producer = None
                elif refused.code not in _AGAIN:
                    self._unsettled = None  # it is not there, and never will be
                    raise
                if loop.time() >= give_up_at:
                    raise
            except RequestFailed:
                if loop.time() >= give_up_at:
                    raise
            else:
                self._sequence += len(records)
                return
            await asyncio.sleep(AGAIN_S)
            await self.look_again()

    async def look_again(self) -> None:
        """Read metadata again: its leader may have moved. Nobody else does so for a run that only stands by."""
        try:
            await self._client.refresh()
        except (RequestFailed, ProtocolError):
            return  # the cluster is away: the next try says so

    async def _try(self, records: Sequence[Pair]) -> None:
        if self._producer is None:
            self._producer, self._sequence = await self._introduce(), 0
        leader = leader_of(self._client, self._where)
        connection = await self._client.connection(leader.node, f"{self.topic}, appends")
        version = common_version(connection, ApiKey.PRODUCE, "Produce", _BY_NAME)
        timeout_ms = self._client.properties.request_timeout_ms
        entry = ProduceEntry(self.topic, 0, memoryview(self._batch(records)))
        body = await connection.request(
            ApiKey.PRODUCE,
            version,
            encode_produce(version, [entry], timeout_ms=timeout_ms),
            flexible=version >= PRODUCE_FLEXIBLE_FROM,
            timeout_ms=timeout_ms,
        )
        what = f"append to {self.topic}"
        with unpacking(what):
            answer = decode_produce(version, body).partitions[0]
        raise_for(answer.error, what)

    def _batch(self, records: Sequence[Pair]) -> bytearray:
        assert self._producer is not None
        producer_id, epoch = self._producer
        builder = MemoryRecordsBuilder(
            _MAGIC,
            _NO_CODEC,
            1 << 30,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self._sequence,
        )
        now_ms = int(time_of_day().timestamp() * 1000)
        for key, value in records:
            builder.append(now_ms, key, value)
        builder.close()
        return bytearray(builder.buffer())

    async def _introduce(self) -> tuple[int, int]:
        """A producer id from whichever broker; it may still be waking up."""
        request = InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=self._client.properties.request_timeout_ms,
            producer_id=-1,
            producer_epoch=-1,
        )
        response = await call_any(self._client, request, InitProducerIdResponse)
        with unpacking("a producer id"):
            raise_for(int(response.error_code), "a producer id")
            return int(response.producer_id), int(response.producer_epoch)

    # -- reading

    async def start(self) -> int:
        return await list_offset(self._client, self._where, EARLIEST, replica=CONSUMER)

    async def end(self) -> int:
        """What a consumer may read up to."""
        return await list_offset(self._client, self._where, LATEST, replica=CONSUMER)

    async def first_since(self, time_ms: int) -> int | None:
        """The first record that was appended at this time or later, by its writer's clock; None: there is none."""
        found = await first_since(self._client, self._where, time_ms)
        return found.offset if found is not None else None

    async def read(self, from_offset: int, *, wait_ms: int = 0) -> tuple[list[LogRecord], int]:
        """Records from there on, some of them, and where to go on; none, after `wait_ms`, where there are no more."""
        leader = leader_of(self._client, self._where)
        want = FetchWant(self.topic, 0, from_offset, READ_BYTES, leader.epoch)
        reply = await fetch(
            self._client,
            leader.node,
            f"{self.topic}, reads",
            FetchAsk([want], []),
            min_bytes=1,
            max_bytes=READ_BYTES,
            max_wait_ms=wait_ms,
            read_committed=False,
        )
        what = f"read of {self.topic} at {from_offset}"
        raise_for(reply.error, what)
        if not reply.partitions:  # a quota has emptied the answer
            return [], from_offset
        fetched = reply.partitions[0]
        raise_for(fetched.error, what)
        with unpacking(what):
            return _decoded(bytes(fetched.records), from_offset)


def _decoded(data: bytes, from_offset: int) -> tuple[list[LogRecord], int]:
    """Of whole batches; a compacted log has holes, and its first batch may begin before what was asked for."""
    found, next_offset = [], from_offset
    batches = MemoryRecords(data)
    while (batch := batches.next_batch()) is not None:
        if not batch.is_control_batch:
            found += [
                LogRecord(record.offset, record.key, record.value)
                for record in batch
                if record.offset >= from_offset
            ]
        next_offset = max(next_offset, batch.base_offset + batch.last_offset_delta + 1)
    return found, next_offset


def _portions(records: Sequence[Pair]) -> list[list[Pair]]:
    """As many as fit one batch each."""
    portions: list[list[Pair]] = []
    size = 0
    for record in records:
        own = sum(len(part or b"") for part in record) + 32
        if not portions or size + own > BATCH_BYTES:
            portions.append([])
            size = 0
        portions[-1].append(record)
        size += own
    return portions
