"""Sights on a real broker: of many partitions at once the same is seen as of each by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from heliograph.cluster.batches_at import SHARES_BYTES
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.log_reads import (
    read_batch,
    read_producer,
    read_producers,
    read_span,
    read_stable_end,
)
from heliograph.cluster.properties import parse_properties
from heliograph.controller.sights import Pair, read_sights
from heliograph.controller.snapshot import PartitionSight
from heliograph.lab.cluster import LabCluster
from heliograph.model.admission import LastBatch
from heliograph.model.partition import TopicPartition
from heliograph.wire.filler import is_filler
from tests.support.records import Record
from tests.support.topics import create_topic, delete_records
from tests.support.transactions import TransactionalWriter
from tests.support.workload import produce_records

pytestmark = pytest.mark.kafka

PARTITIONS = 50
KINDS = ("empty", "records", "large", "aborted", "open", "cut", "emptied")
RECORDS = 5
STABLE_LIMIT_S = 30.0


def kind_of(partition: int) -> str:
    return KINDS[partition % len(KINDS)]


def fill(bootstrap: str, topic: str) -> TransactionalWriter:
    """The last one's transaction is left open."""
    create_topic(bootstrap, topic, PARTITIONS)
    closed, still_open = (TransactionalWriter(bootstrap, name) for name in ("closed", "open"))
    for partition in range(PARTITIONS):
        kind = kind_of(partition)
        value = b"x" * (SHARES_BYTES[0] * 20 if kind == "large" else 10)
        if kind in ("records", "large", "cut", "emptied"):
            records = [Record(value=value, key=str(n).encode()) for n in range(RECORDS)]
            produce_records(bootstrap, topic, records, partition=partition)
        if kind == "aborted":
            closed.write(topic, RECORDS, partition)
            closed.abort()
        if kind == "open":
            still_open.write(topic, RECORDS, partition)
        if kind in ("cut", "emptied"):
            before_offset = RECORDS if kind == "emptied" else 2
            delete_records(bootstrap, topic, partition, before_offset=before_offset)
    return still_open


async def until_stable(client: ClusterClient, wheres: list[TopicPartition]) -> None:
    """A producer's transaction is over before its markers are in the log."""
    async with asyncio.timeout(STABLE_LIMIT_S):
        for where in wheres:
            if kind_of(where.partition) != "aborted":
                continue
            while await read_stable_end(client, where) == 0:  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.02)


async def seen_alone(client: ClusterClient, where: TopicPartition, own_id: int) -> PartitionSight:
    """By one question after the other."""
    span = await read_span(client, where)
    last = None
    if span.start < span.high_watermark:
        last = await read_batch(client, where, span.high_watermark - 1)
        assert last is not None
    return PartitionSight(
        source=span,
        source_end=await read_stable_end(client, where),
        target=span,
        last_batch=LastBatch(producer_id=last[0].producer_id, last_sequence=last[0].last_sequence)
        if last
        else None,
        producer=await read_producer(client, where, own_id),
        ends_in_filler=last is not None and is_filler(*last),
        ends_in_gap=last is not None and last[0].is_control,
    )


async def test_of_many_partitions_the_same_is_seen_as_of_each_by_itself(
    source_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    bootstrap, topic = source_cluster.bootstrap_servers, unique_topic("sights")
    still_open = await asyncio.to_thread(fill, bootstrap, topic)
    client = ClusterClient("source", parse_properties({"bootstrap.servers": bootstrap}))
    client.follow([topic])
    await client.connect()
    try:
        wheres = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        await until_stable(client, wheres)
        ids = {where: min(await read_producers(client, where), default=7) for where in wheres}
        wanted = [
            Pair(source=where, target=where, own_id=own_id, committed=True) for where, own_id in ids.items()
        ]
        together = await read_sights(client, client, wanted)
        alone = {where: await seen_alone(client, where, own_id) for where, own_id in ids.items()}
    finally:
        await client.aclose()
        await asyncio.to_thread(still_open.abort)
    assert together == alone
    of_kind = {kind_of(where.partition): sight for where, sight in together.items()}
    assert [kind for kind in KINDS if of_kind[kind].ends_in_gap] == ["aborted"]
    assert [kind for kind in KINDS if of_kind[kind].last_batch is None] == ["empty", "emptied"]
    assert [kind for kind in KINDS if of_kind[kind].source_end == 0] == ["empty", "open"]
    assert [kind for kind in KINDS if (span := of_kind[kind].target) and span.start] == ["cut", "emptied"]
