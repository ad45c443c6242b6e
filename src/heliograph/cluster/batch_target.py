"""Batches into a cluster: appends to one broker, and the questions a copier asks of a target log."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.connection import Connection
from heliograph.cluster.log_reads import LogSpan, ProducerState, read_batch, read_producer, read_span
from heliograph.cluster.messages import common_version
from heliograph.cluster.metadata import Leader
from heliograph.model.partition import TopicPartition
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.batch import BatchHeader
from heliograph.wire.produce import (
    PRODUCE_FLEXIBLE_FROM,
    PRODUCE_VERSIONS,
    ProduceEntry,
    ProduceReply,
    decode_produce,
    encode_produce,
)

# Version 9 says the same as 8 in variable-length numbers, which cost twice the time to read.
APPEND_VERSIONS = PRODUCE_VERSIONS[: PRODUCE_VERSIONS.index(PRODUCE_FLEXIBLE_FROM)]
ANSWER_SLACK_MS = 1000  # the broker gives up first and says so; only a dead one is cut off


class AppendLine:
    """Appends on one connection: executed in the order they are sent. acks is always -1."""

    def __init__(self, connection: Connection, timeout_ms: int) -> None:
        self.connection = connection
        self._timeout_ms = timeout_ms
        self._version = common_version(connection, ApiKey.PRODUCE, "Produce", APPEND_VERSIONS)

    @property
    def closed(self) -> bool:
        return self.connection.closed

    def send(self, entries: Sequence[ProduceEntry]) -> asyncio.Future[memoryview]:
        """Send now, one batch for each of these partitions; `decode` reads the answer."""
        return self.connection.request(
            ApiKey.PRODUCE,
            self._version,
            encode_produce(self._version, entries, timeout_ms=self._timeout_ms),
            flexible=False,
            timeout_ms=self._timeout_ms + ANSWER_SLACK_MS,
        )

    def decode(self, body: memoryview) -> ProduceReply:
        return decode_produce(self._version, body)


class BatchTarget:
    """`link` names the connections: each link has its own."""

    def __init__(self, client: ClusterClient, link: str) -> None:
        self.client = client
        self._purpose = f"append for {link}"
        self._lines: dict[int, AppendLine] = {}

    def leader(self, where: TopicPartition) -> Leader | None:
        return self.client.leader(where)

    def topic_id(self, topic: str) -> str:
        return self.client.metadata.topic_id(topic)

    async def refresh(self) -> None:
        await self.client.refresh()

    async def line_to(self, node: int) -> AppendLine:
        """The line on which all appends to this broker go, in order; a new one when the last has ended."""
        connection = await self.client.connection(node, self._purpose)
        line = self._lines.get(node)
        if line is None or line.connection is not connection:
            line = self._lines[node] = AppendLine(connection, self.client.properties.request_timeout_ms)
        return line

    async def span(self, where: TopicPartition) -> LogSpan:
        return await read_span(self.client, where)

    async def producer(self, where: TopicPartition, producer_id: int) -> ProducerState | None:
        return await read_producer(self.client, where, producer_id)

    async def batch_at(self, where: TopicPartition, offset: int) -> tuple[BatchHeader, memoryview] | None:
        return await read_batch(self.client, where, offset)
