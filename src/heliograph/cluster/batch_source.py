"""Batches out of a cluster: fetches from one broker, and the questions a copier asks of a source log."""

from __future__ import annotations

from collections.abc import Sequence

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.log_reads import LogSpan, read_batch, read_span
from heliograph.cluster.messages import common_version
from heliograph.cluster.metadata import Leader
from heliograph.model.partition import TopicPartition
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.batch import BatchHeader
from heliograph.wire.fetch import (
    FETCH_FLEXIBLE_FROM,
    FETCH_VERSIONS,
    FetchReply,
    FetchWant,
    decode_fetch,
    encode_fetch,
)

FETCH = "fetch"


class BatchSource:
    def __init__(self, client: ClusterClient) -> None:
        self.client = client

    def leader(self, where: TopicPartition) -> Leader | None:
        return self.client.leader(where)

    async def refresh(self) -> None:
        await self.client.refresh()

    async def fetch(
        self, node: int, wants: Sequence[FetchWant], *, max_bytes: int, max_wait_ms: int
    ) -> FetchReply:
        properties = self.client.properties
        connection = await self.client.connection(node, FETCH)
        version = common_version(connection, ApiKey.FETCH, "Fetch", FETCH_VERSIONS)
        body = encode_fetch(
            version,
            wants,
            max_wait_ms=max_wait_ms,
            min_bytes=properties.fetch_min_bytes,
            max_bytes=max_bytes,
            read_committed=True,
        )
        answer = await connection.request(
            ApiKey.FETCH,
            version,
            [body],
            flexible=version >= FETCH_FLEXIBLE_FROM,
            timeout_ms=properties.request_timeout_ms + max_wait_ms,
        )
        return decode_fetch(version, answer)

    async def span(self, where: TopicPartition) -> LogSpan:
        return await read_span(self.client, where)

    async def batch_at(self, where: TopicPartition, offset: int) -> tuple[BatchHeader, memoryview] | None:
        return await read_batch(self.client, where, offset)
