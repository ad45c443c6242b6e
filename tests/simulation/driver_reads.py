"""In the place of cluster/log_reads.py, for the driver: what it asks a source to know where a mirror begins."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar, cast

from heliograph.cluster.by_leader import Problem
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.list_offsets import DatedRecord
from heliograph.cluster.log_reads import LogSpan
from heliograph.model.errors import ProtocolError, RequestFailed
from heliograph.model.partition import TopicPartition
from heliograph.wire.batch import BatchHeader

from .model_broker import ModelPartition
from .record_reader import records_of
from .replica import Stored
from .sim_client import SimClient
from .sim_questions import Questions, offset_of

NO_OFFSET = -1

T = TypeVar("T")


async def read_spans(
    client: ClusterClient, wheres: Iterable[TopicPartition]
) -> dict[TopicPartition, LogSpan | Problem]:
    return await _of_each(wheres, _questions(client).span)


async def batches_at(
    client: ClusterClient,
    offsets: Mapping[TopicPartition, int],
    read: Callable[[BatchHeader, memoryview], T],
) -> dict[TopicPartition, T | Problem | None]:
    async def read_one(where: TopicPartition) -> T | None:
        batch = await _questions(client).batch_at(where, offsets[where])
        return None if batch is None else read(*batch)

    return await _of_each(offsets, read_one)


async def read_stable_ends(
    client: ClusterClient, wheres: Iterable[TopicPartition]
) -> dict[TopicPartition, int | Problem]:
    sim = cast(SimClient, client)

    async def read_one(where: TopicPartition) -> int:
        node, epoch = sim.reach(where)
        end: int = await sim.ask(node, lambda: offset_of(sim.replica(where, node).stable_end(node, epoch)))
        return end

    return await _of_each(wheres, read_one)


async def list_offsets(
    client: ClusterClient, times: Mapping[TopicPartition, int], *, replica: int, committed: bool = False
) -> dict[TopicPartition, DatedRecord | Problem]:
    """By a time, for a consumer: the first record that is not older, markers among them."""
    del replica
    sim = cast(SimClient, client)

    async def read_one(where: TopicPartition) -> DatedRecord:
        node, epoch = sim.reach(where)

        def look() -> DatedRecord:
            partition = sim.replica(where, node)
            ask = partition.stable_end if committed else partition.high_watermark
            found = first_dated(partition, node, times[where], offset_of(ask(node, epoch)))
            return DatedRecord(NO_OFFSET, -1) if found is None else found

        found: DatedRecord = await sim.ask(node, look)
        return found

    return await _of_each(times, read_one)


async def _of_each(
    wheres: Iterable[TopicPartition], read_one: Callable[[TopicPartition], Awaitable[T]]
) -> dict[TopicPartition, T | Problem]:
    """A message to a broker about each of them: a world loses some, and not all together."""
    asked = list(wheres)
    answers = await asyncio.gather(*map(read_one, asked), return_exceptions=True)
    found: dict[TopicPartition, T | Problem] = {}
    for where, answer in zip(asked, answers, strict=True):
        if isinstance(answer, BaseException) and not isinstance(answer, (RequestFailed, ProtocolError)):
            raise answer
        found[where] = answer
    return found


def first_dated(partition: ModelPartition, node: int, time_ms: int, limit: int) -> DatedRecord | None:
    log = partition.replicas[node]
    for stored in log.batches:
        if stored.header.max_timestamp >= time_ms:
            found = next(
                DatedRecord(*each) for each in _times(stored) if each[1] >= time_ms and each[0] >= log.start
            )
            return found if found.offset < limit else None
    return None


def _times(stored: Stored) -> list[tuple[int, int]]:
    base = stored.header.base_offset
    return [(base + each.offset_delta, each.timestamp) for each in records_of(stored.data)]


def _questions(client: ClusterClient) -> Questions:
    return Questions(cast(SimClient, client), "")
