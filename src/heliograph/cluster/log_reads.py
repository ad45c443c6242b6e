"""Questions to a partition's leader: where its log starts and ends, who wrote last, one batch.

Every question goes to the leader of current metadata with its epoch, so that a broker that is no longer the
leader refuses (FENCED_LEADER_EPOCH, NOT_LEADER) rather than answer from an old log. Nothing is clamped or
defaulted: an answer is an offset, or `BrokerRefused`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from kafka.protocol.admin import DescribeProducersRequest, DescribeProducersResponse
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from heliograph.cluster.client import CONTROL, ClusterClient
from heliograph.cluster.fetches import fetch
from heliograph.cluster.messages import raise_for, unpacking
from heliograph.cluster.metadata import Leader
from heliograph.model.errors import BrokerRefused, ProtocolError
from heliograph.model.partition import TopicPartition
from heliograph.wire.batch import MAGIC, BatchHeader, Codec, split_batches
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.fetch import FetchedPartition, FetchWant
from heliograph.wire.fetch_request import FetchAsk

LATEST, EARLIEST = -1, -2
CONSUMER = -1
# Neither a consumer (-1) nor a debugger (-2): a broker answers any other id with the log's end, not with the
# high watermark, and asks for no further right than DESCRIBE on the topic.
OURSELVES = 0x48454C49

ANCHOR_WAIT_MS = 1000
BATCHES_BYTES = 1 << 20  # at a time, to compare them with a merged batch
SEGMENT_READ_BYTES = 4 << 20
QUOTA_ROUNDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSpan:
    """Half-open: [start, end). `high_watermark` is what consumers may read up to."""

    start: int
    high_watermark: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """Whole batches of one log, in order. `aborted`: of transactions that they are part of, where committed records
    were asked for, producer id and first offset (wire/aborted.py). `read_to`: behind the last batch that was seen,
    which may begin behind what was asked for: up to there the log holds nothing else."""

    headers: tuple[BatchHeader, ...]
    views: tuple[memoryview, ...]
    aborted: tuple[tuple[int, int], ...] = ()
    read_to: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """What the leader remembers of one producer id on one partition."""

    epoch: int
    last_sequence: int
    last_timestamp: int
    transaction_start: int = -1  # the first offset of the transaction that is open, or -1
    coordinator_epoch: int = -1  # of the id's last marker, or -1


@dataclass(frozen=True, slots=True)
class DatedRecord:
    offset: int
    time_ms: int


def leader_of(client: ClusterClient, where: TopicPartition) -> Leader:
    leader = client.leader(where)
    topic = client.metadata.topics.get(where.topic)
    if topic is not None and topic.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise BrokerRefused(f"cluster {client.name!r} has no topic {where.topic}", code=topic.error)
    if topic is not None and topic.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        raise BrokerRefused(
            f"cluster {client.name!r} does not let us see topic {where.topic}:"
            f" {ErrorCode.name_of(topic.error)}",
            code=topic.error,
        )
    if leader is None:
        raise BrokerRefused(
            f"{where} of cluster {client.name!r} has no leader", code=ErrorCode.LEADER_NOT_AVAILABLE
        )
    return leader


async def list_offset(
    client: ClusterClient, where: TopicPartition, timestamp: int, *, replica: int, committed: bool = False
) -> int:
    """Brokers before Kafka 0.10.1 (version 0) know times by segments only: of a time they tell where a segment starts
    that was last written before it. So what is found may be older than was asked for, never younger."""
    return (await _list_offset(client, where, timestamp, replica=replica, committed=committed)).offset


async def first_since(client: ClusterClient, where: TopicPartition, time_ms: int) -> DatedRecord | None:
    """The record with the lowest offset that has this time or a later one; None: there is none. Of brokers from Kafka
    0.10.1 on."""
    found = await _list_offset(client, where, time_ms, replica=CONSUMER)
    return found if found.offset >= 0 else None


async def _list_offset(
    client: ClusterClient, where: TopicPartition, timestamp: int, *, replica: int, committed: bool = False
) -> DatedRecord:
    leader = leader_of(client, where)
    topic = ListOffsetsRequest.ListOffsetsTopic
    asked = topic.ListOffsetsPartition(
        partition_index=where.partition, current_leader_epoch=leader.epoch, timestamp=timestamp
    )
    request = ListOffsetsRequest(
        replica_id=replica,
        isolation_level=int(committed),
        topics=[topic(name=where.topic, partitions=[asked])],
        timeout_ms=client.properties.request_timeout_ms,
    )
    response = await client.call(leader.node, request, ListOffsetsResponse)
    what = f"offsets of {where} from broker {leader.node}"
    with unpacking(what):
        answer = response.topics[0].partitions[0]
        older = getattr(answer, "old_style_offsets", None)  # of version 0 only: the highest first
        code, offset = int(answer.error_code), int(older[0] if older else answer.offset)
        time_ms = int(getattr(answer, "timestamp", -1))
        is_first_version = getattr(response, "version", None) == 0
    raise_for(code, what)
    if is_first_version and not older and timestamp >= 0:  # no segment is as old
        return await _list_offset(client, where, EARLIEST, replica=replica)
    return DatedRecord(offset, time_ms)


async def read_span(client: ClusterClient, where: TopicPartition) -> LogSpan:
    """Start, high watermark and log end. The end is read last: it is never behind the high watermark."""
    start, high_watermark, end = await asyncio.gather(  # one connection, answered in this order
        list_offset(client, where, EARLIEST, replica=CONSUMER),
        list_offset(client, where, LATEST, replica=CONSUMER),
        list_offset(client, where, LATEST, replica=OURSELVES),
    )
    if not 0 <= start <= end or high_watermark > end:
        raise ProtocolError(f"{where}: impossible log [{start}, {end}) with high watermark {high_watermark}")
    return LogSpan(start=start, high_watermark=high_watermark, end=end)


async def read_stable_end(client: ClusterClient, where: TopicPartition) -> int:
    """Up to where a read_committed consumer may read."""
    return await list_offset(client, where, LATEST, replica=CONSUMER, committed=True)


async def read_producer(
    client: ClusterClient, where: TopicPartition, producer_id: int
) -> ProducerState | None:
    """What the leader remembers of this producer id; None: no state, any sequence would be accepted."""
    return (await read_producers(client, where)).get(producer_id)


async def read_producers(client: ClusterClient, where: TopicPartition) -> dict[int, ProducerState]:
    """Everybody whom the leader remembers, by producer id."""
    leader = leader_of(client, where)
    topic = DescribeProducersRequest.TopicRequest(name=where.topic, partition_indexes=[where.partition])
    request = DescribeProducersRequest(topics=[topic])
    response = await client.call(leader.node, request, DescribeProducersResponse)
    what = f"producers of {where} from broker {leader.node}"
    with unpacking(what):
        answer = response.topics[0].partitions[0]
        code = int(answer.error_code)
        states = {
            state.producer_id: ProducerState(
                epoch=state.producer_epoch,
                last_sequence=state.last_sequence,
                last_timestamp=state.last_timestamp,
                transaction_start=state.current_txn_start_offset,
                coordinator_epoch=state.coordinator_epoch,
            )
            for state in answer.active_producers or ()
        }
    raise_for(code, what)
    return states


async def read_batch(
    client: ClusterClient, where: TopicPartition, offset: int
) -> tuple[BatchHeader, memoryview] | None:
    """The batch that holds `offset` or, where there is a hole, the next one; None past the high watermark."""
    fetched = await _fetch_one(client, where, offset)
    for header, view in split_batches(fetched.records):
        if header.next_offset > offset:
            return header, view
    return None


async def read_batches(
    client: ClusterClient,
    where: TopicPartition,
    first_offset: int,
    next_offset: int,
    *,
    committed: bool = False,
) -> Batches:
    """All batches that hold records in [first_offset, next_offset), as far as they can be read: with `committed` up to
    the first transaction that is open, and with what the leader says of aborted ones."""
    found: list[tuple[BatchHeader, memoryview]] = []
    aborted: dict[tuple[int, int], None] = {}  # answers that meet one transaction all list it
    while first_offset < next_offset:
        fetched = await _fetch_one(client, where, first_offset, max_bytes=BATCHES_BYTES, committed=committed)
        aborted |= dict.fromkeys(fetched.aborted)
        came = [each for each in split_batches(fetched.records) if each[0].next_offset > first_offset]
        if not came:
            break
        found += came
        first_offset = came[-1][0].next_offset
    wanted = list(_beginning_before(next_offset, found))
    return Batches(
        headers=tuple(each[0] for each in wanted),
        views=tuple(each[1] for each in wanted),
        aborted=tuple(aborted),
        read_to=found[-1][0].next_offset if found else -1,
    )


async def read_segment_end(client: ClusterClient, where: TopicPartition, offset: int) -> int:
    """Where the leader's segment ends that holds this offset, or the high watermark if that is before it. A broker
    answers a fetch from one segment: an answer that has room left ends where the segment does."""
    max_bytes = SEGMENT_READ_BYTES
    while True:
        fetched = await _fetch_one(client, where, offset, max_bytes=max_bytes)
        headers = [header for header, _ in split_batches(fetched.records)]
        if len(fetched.records) < max_bytes:
            return headers[-1].next_offset if headers else offset
        if len(headers) > 1:
            offset = headers[-1].base_offset  # once more: whether another batch follows in the segment
        else:
            max_bytes *= 2


def _beginning_before(
    next_offset: int, found: list[tuple[BatchHeader, memoryview]]
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """A compressed set of messages of the formats before Kafka 0.11 has its last offset in its header. Of those whose
    last one is not before `next_offset` only the first can begin before it."""
    for header, view in found:
        is_set = header.magic < MAGIC and header.codec is not Codec.NONE
        if header.base_offset < next_offset or is_set:
            yield header, view
        if header.next_offset >= next_offset:
            return


async def _fetch_one(
    client: ClusterClient,
    where: TopicPartition,
    offset: int,
    *,
    max_bytes: int = 1,
    committed: bool = False,
) -> FetchedPartition:
    """`max_bytes`: one whole batch comes in any case."""
    leader = leader_of(client, where)
    want = FetchWant(where.topic, where.partition, offset, max_bytes, leader.epoch)
    what = f"fetch of {where} at {offset} from broker {leader.node}"
    for _ in range(QUOTA_ROUNDS):
        reply = await fetch(
            client,
            leader.node,
            CONTROL,
            FetchAsk([want], []),
            min_bytes=1,
            max_bytes=max_bytes,
            max_wait_ms=ANCHOR_WAIT_MS,
            read_committed=committed,
        )
        raise_for(reply.error, what)
        if reply.partitions or not reply.throttle_ms:
            break
        await asyncio.sleep(reply.throttle_ms / 1000)  # over a quota a broker leaves the partition out
    with unpacking(what):
        fetched = reply.partitions[0]
    raise_for(fetched.error, what)
    return fetched
