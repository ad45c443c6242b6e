"""In the place of cluster/log_reads.py, for the driver: what it asks a source to know where a mirror begins."""

from __future__ import annotations

from typing import cast

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.list_offsets import DatedRecord
from heliograph.cluster.log_reads import LogSpan
from heliograph.copier.ports import Batch
from heliograph.model.partition import TopicPartition

from .model_broker import ModelPartition
from .record_reader import records_of
from .replica import Stored
from .sim_client import SimClient
from .sim_questions import Questions, offset_of

NO_OFFSET = -1


async def read_span(client: ClusterClient, where: TopicPartition) -> LogSpan:
    return await _questions(client).span(where)


async def read_batch(client: ClusterClient, where: TopicPartition, offset: int) -> Batch | None:
    return await _questions(client).batch_at(where, offset)


async def read_stable_end(client: ClusterClient, where: TopicPartition) -> int:
    sim = cast(SimClient, client)
    node, epoch = sim.reach(where)
    end: int = await sim.ask(node, lambda: offset_of(sim.replica(where, node).stable_end(node, epoch)))
    return end


async def list_offset(
    client: ClusterClient, where: TopicPartition, timestamp: int, *, replica: int, committed: bool = False
) -> int:
    """By a time, for a consumer: the first record that is not older, markers among them."""
    del replica
    sim = cast(SimClient, client)
    node, epoch = sim.reach(where)

    def look() -> int:
        partition = sim.replica(where, node)
        ask = partition.stable_end if committed else partition.high_watermark
        found = first_dated(partition, node, timestamp, offset_of(ask(node, epoch)))
        return NO_OFFSET if found is None else found.offset

    found: int = await sim.ask(node, look)
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
