"""Questions about logs: where they start and end, who wrote last, and their batches.

Of one log, and of many: then each leader is asked about all that it leads in one request (by_leader.py), and each
partition has an answer or a problem of its own. Nothing is clamped or defaulted: an answer is an offset, or
`BrokerRefused`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from heliograph.cluster.batches_at import fetch_in_quota
from heliograph.cluster.by_leader import (
    Epochs,
    Problem,
    answer_about,
    answered,
    ask_leaders,
    leader_of,
    unanswered,
)
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.list_offsets import (
    CONSUMER,
    EARLIEST,
    LATEST,
    OURSELVES,
    DatedRecord,
    list_offsets,
    list_offsets_led,
)
from heliograph.cluster.messages import raise_for, unpacking
from heliograph.cluster.producer_states import Producers, ProducerState, describe_producers
from heliograph.model.errors import ProtocolError, RequestFailed
from heliograph.model.partition import TopicPartition
from heliograph.wire.batch import MAGIC, BatchHeader, Codec, split_batches
from heliograph.wire.fetch import FetchedPartition, FetchWant

ANCHOR_WAIT_MS = 1000
BATCHES_BYTES = 1 << 20  # at a time, to compare them with a merged batch
SEGMENT_READ_BYTES = 4 << 20


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


async def list_offset(
    client: ClusterClient, where: TopicPartition, timestamp: int, *, replica: int, committed: bool = False
) -> int:
    found = await list_offsets(client, {where: timestamp}, replica=replica, committed=committed)
    return answer_about(where, found).offset


async def first_since(client: ClusterClient, where: TopicPartition, time_ms: int) -> DatedRecord | None:
    """The record with the lowest offset that has this time or a later one; None: there is none. Of brokers from Kafka
    0.10.1 on."""
    found = answer_about(where, await list_offsets(client, {where: time_ms}, replica=CONSUMER))
    return found if found.offset >= 0 else None


async def read_span(client: ClusterClient, where: TopicPartition) -> LogSpan:
    """Start, high watermark and log end."""
    return answer_about(where, await read_spans(client, [where]))


async def read_spans(
    client: ClusterClient, wheres: Iterable[TopicPartition]
) -> dict[TopicPartition, LogSpan | Problem]:
    """The end is read last: it is never behind the high watermark."""

    async def ask(node: int, epochs: Epochs) -> dict[TopicPartition, LogSpan | Problem]:
        latest = dict.fromkeys(epochs, LATEST)
        starts, high_watermarks, ends = await asyncio.gather(  # one connection, answered in this order
            list_offsets_led(client, node, epochs, dict.fromkeys(epochs, EARLIEST), replica=CONSUMER),
            list_offsets_led(client, node, epochs, latest, replica=CONSUMER),
            list_offsets_led(client, node, epochs, latest, replica=OURSELVES),
        )
        return {where: _span(where, starts[where], high_watermarks[where], ends[where]) for where in epochs}

    return await ask_leaders(client, wheres, ask)


def _span(where: TopicPartition, *found: DatedRecord | Problem) -> LogSpan | Problem:
    for each in found:
        if isinstance(each, (RequestFailed, ProtocolError)):
            return each
    start, high_watermark, end = (each.offset for each in found if isinstance(each, DatedRecord))
    if not 0 <= start <= end or high_watermark > end:
        return ProtocolError(f"{where}: impossible log [{start}, {end}) with high watermark {high_watermark}")
    return LogSpan(start=start, high_watermark=high_watermark, end=end)


async def read_stable_end(client: ClusterClient, where: TopicPartition) -> int:
    """Up to where a read_committed consumer may read."""
    return answer_about(where, await read_stable_ends(client, [where]))


async def read_stable_ends(
    client: ClusterClient, wheres: Iterable[TopicPartition]
) -> dict[TopicPartition, int | Problem]:
    found = await list_offsets(client, dict.fromkeys(wheres, LATEST), replica=CONSUMER, committed=True)
    ends = {where: each.offset for where, each in answered(found).items()}
    return {**unanswered(found), **ends}


async def read_producer(
    client: ClusterClient, where: TopicPartition, producer_id: int
) -> ProducerState | None:
    """What the leader remembers of this producer id; None: no state, any sequence would be accepted."""
    return (await read_producers(client, where)).get(producer_id)


async def read_producers(client: ClusterClient, where: TopicPartition) -> Producers:
    """Everybody whom the leader remembers, by producer id."""
    return answer_about(where, await describe_producers(client, [where]))


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
    reply = await fetch_in_quota(
        client,
        leader.node,
        [want],
        what=what,
        max_bytes=max_bytes,
        max_wait_ms=ANCHOR_WAIT_MS,
        committed=committed,
    )
    with unpacking(what):
        fetched = reply.partitions[0]
    raise_for(fetched.error, what)
    return fetched
