"""The topics that Heliograph keeps on a target cluster: made when they are missing, replicated like the cluster's own.

Owns their shape. What is in them: docs/LEDGER.md.
"""

from __future__ import annotations

import asyncio

from heliograph.cluster.admin import create_topic
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.offsets_topic import OFFSETS_TOPIC, read_offsets_topic
from heliograph.cluster.record_log import RecordLog
from heliograph.model.errors import BrokerRefused, ProtocolError, RequestFailed
from heliograph.model.ledger import COMMANDS_TOPIC, EVENTS_TOPIC, LEDGER_TOPIC
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

EVENTS_LAST_MS = 30 * 86_400_000
LEADER_LIMIT_S = 15.0
LOOK_S = 0.1
# Of a few records a day, by what brokers take unless they are told: nothing would be cleaned for weeks, as the segment
# that is written is left alone. Batches are of 512 KB at most, and 4.x takes no segments below 1 MB.
_COMPACTED = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.ms": str(3_600_000),
    "segment.bytes": str(4 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}
CONFIGS = {
    LEDGER_TOPIC: _COMPACTED,
    COMMANDS_TOPIC: _COMPACTED,
    EVENTS_TOPIC: {
        "cleanup.policy": "delete",
        "retention.ms": str(EVENTS_LAST_MS),
        "compression.type": "producer",
    },
}


class OwnTopics:
    """Of one cluster, by one client of it."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    async def open(self, topic: str) -> RecordLog:
        """Made if it is missing. `BrokerRefused` with the broker's code where a right is missing, or it cannot be
        made."""
        await _ensure(self._client, topic)
        return RecordLog(self._client, topic)

    async def find(self, topic: str) -> RecordLog | None:
        """None: there is no such topic."""
        await _learn(self._client, topic)
        if not _exists(self._client, topic):
            return None
        await _await_leader(self._client, topic)
        return RecordLog(self._client, topic)


async def _ensure(client: ClusterClient, topic: str) -> None:
    await _learn(client, topic)
    if not _exists(client, topic):
        factor = await replication_factor(client)
        await create_topic(client, topic, partitions=1, replication_factor=factor, configs=CONFIGS[topic])
    await _await_leader(client, topic)


async def _learn(client: ClusterClient, topic: str) -> None:
    client.follow([topic])
    await client.refresh()


def _exists(client: ClusterClient, topic: str) -> bool:
    found = client.metadata.topics.get(topic)
    if found is not None and found.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        raise BrokerRefused(
            f"cluster {client.name!r} does not let us see topic {topic}",
            code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        )
    return found is not None and bool(found.leaders)


async def replication_factor(client: ClusterClient) -> int:
    """As the topic has in which the cluster keeps its groups' offsets; by its config, where that is not there yet."""
    offsets = (await client.read_metadata([OFFSETS_TOPIC])).topics.get(OFFSETS_TOPIC)
    if offsets is not None and offsets.leaders:
        return offsets.replication_factor
    by_config = await read_offsets_topic(client)
    return min(by_config.replication_factor if by_config else 3, max(len(client.metadata.brokers), 1))


async def _await_leader(client: ClusterClient, topic: str) -> None:
    try:
        async with asyncio.timeout(LEADER_LIMIT_S):
            while client.leader(TopicPartition(topic, 0)) is None:
                await asyncio.sleep(LOOK_S)
                try:
                    await client.refresh()
                except (RequestFailed, ProtocolError):
                    continue  # the cluster may be away for a moment; the limit counts
    except TimeoutError:
        raise BrokerRefused(
            f"topic {topic} has no leader after {LEADER_LIMIT_S:.0f} s", code=ErrorCode.LEADER_NOT_AVAILABLE
        ) from None
