"""Questions to one replica of a partition, leader or follower: each broker cleans its own copy of a compacted log.

Brokers from 2.4 on answer consumers also as followers (Fetch 11). Must not know what is looked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from kafka.protocol.metadata import MetadataResponse

from heliograph.cluster.admin import call_any
from heliograph.cluster.batches_at import QUOTA_ROUNDS
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.fetches import fetch
from heliograph.cluster.log_reads import Batches
from heliograph.cluster.messages import raise_for, unpacking
from heliograph.cluster.metadata import from_response, request_for
from heliograph.model.partition import TopicPartition
from heliograph.wire.batch import BatchHeader, split_batches
from heliograph.wire.fetch import FetchWant
from heliograph.wire.fetch_request import FetchAsk

PORTION_BYTES = 1 << 20
_ANY_EPOCH = -1
_PURPOSE = "replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """`nodes`: by partition, the brokers that it is assigned to. `topic_id`: empty before Kafka 2.8."""

    topic_id: str
    nodes: Mapping[int, tuple[int, ...]]


async def read_replicas(client: ClusterClient, topic: str) -> Replicas:
    response = await call_any(client, request_for([topic]), MetadataResponse)
    what = f"replicas of topic {topic}"
    with unpacking(what):
        (found,) = response.topics
        raise_for(int(found.error_code), what)
        nodes = {each.partition_index: tuple(each.replica_nodes) for each in found.partitions}
    return Replicas(topic_id=from_response(response).topic_id(topic), nodes=nodes)


async def read_replica_batches(
    client: ClusterClient, node: int, where: TopicPartition, first_offset: int, next_offset: int
) -> Batches:
    """All batches of its log that hold offsets in [first_offset, next_offset), as far as they can be read."""
    found: list[tuple[BatchHeader, memoryview]] = []
    while first_offset < next_offset:
        came = [
            each
            for each in await _fetch(client, node, where, first_offset)
            if each[0].next_offset > first_offset
        ]
        if not came:
            break
        found += came
        first_offset = came[-1][0].next_offset
    wanted = [each for each in found if each[0].base_offset < next_offset]
    return Batches(
        headers=tuple(each[0] for each in wanted),
        views=tuple(each[1] for each in wanted),
        read_to=found[-1][0].next_offset if found else -1,
    )


async def _fetch(
    client: ClusterClient, node: int, where: TopicPartition, offset: int
) -> list[tuple[BatchHeader, memoryview]]:
    want = FetchWant(where.topic, where.partition, offset, PORTION_BYTES, _ANY_EPOCH)
    what = f"fetch of {where} at {offset} from broker {node}"
    for _ in range(QUOTA_ROUNDS):
        reply = await fetch(
            client,
            node,
            _PURPOSE,
            FetchAsk([want], []),
            min_bytes=0,
            max_bytes=PORTION_BYTES,
            max_wait_ms=0,
            read_committed=False,
        )
        raise_for(reply.error, what)
        if reply.partitions or not reply.throttle_ms:
            break
        await asyncio.sleep(reply.throttle_ms / 1000)  # over a quota a broker leaves the partition out
    with unpacking(what):
        fetched = reply.partitions[0]
    raise_for(fetched.error, what)
    with unpacking(what):
        return list(split_batches(fetched.records))
