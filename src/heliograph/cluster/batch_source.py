"""Batches out of a cluster: fetches from one broker, and the questions a copier asks of a source log."""

from __future__ import annotations

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.fetches import fetch
from heliograph.cluster.log_reads import (
    Batches,
    LogSpan,
    read_batch,
    read_batches,
    read_span,
)
from heliograph.cluster.metadata import Leader
from heliograph.cluster.transactions import OpenTransaction, OpenTransactions
from heliograph.model.partition import TopicPartition
from heliograph.model.policy import Isolation
from heliograph.wire.batch import BatchHeader
from heliograph.wire.fetch import FetchReply
from heliograph.wire.fetch_request import FetchAsk


class BatchSource:
    """`link` names the connections: each link has its own, and so has each isolation and each line of fetches. A broker
    answers one request of a connection at a time, and a long poll takes long."""

    def __init__(self, client: ClusterClient, link: str) -> None:
        self.client = client
        self._link = link
        self._transactions = OpenTransactions(client)

    def leader(self, where: TopicPartition) -> Leader | None:
        return self.client.leader(where)

    def topic_id(self, topic: str) -> str:
        return self.client.metadata.identity(topic)

    async def refresh(self) -> None:
        await self.client.refresh()

    async def fetch(
        self,
        node: int,
        line: str,
        ask: FetchAsk,
        *,
        max_bytes: int,
        max_wait_ms: int,
        isolation: Isolation,
    ) -> FetchReply:
        return await fetch(
            self.client,
            node,
            f"fetch, {line}, {isolation}, for {self._link}",
            ask,
            min_bytes=self.client.properties.fetch_min_bytes,
            max_bytes=max_bytes,
            max_wait_ms=max_wait_ms,
            read_committed=isolation is Isolation.READ_COMMITTED,
        )

    async def span(self, where: TopicPartition) -> LogSpan:
        return await read_span(self.client, where)

    async def open_transaction(self, where: TopicPartition) -> OpenTransaction | None:
        return await self._transactions.oldest(where)

    async def batch_at(self, where: TopicPartition, offset: int) -> tuple[BatchHeader, memoryview] | None:
        return await read_batch(self.client, where, offset)

    async def batches_in(
        self, where: TopicPartition, first_offset: int, next_offset: int, *, committed: bool = False
    ) -> Batches:
        return await read_batches(self.client, where, first_offset, next_offset, committed=committed)
