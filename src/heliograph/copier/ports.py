"""What the copier needs of the outside: a source and a target of batches.

cluster.BatchSource and cluster.BatchTarget are the real ones; tests wrap them to inject faults.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from heliograph.cluster.admin import TopicConfig
from heliograph.cluster.empty_transactions import FillProducer
from heliograph.cluster.line_name import LineName
from heliograph.cluster.list_offsets import DatedRecord
from heliograph.cluster.log_reads import Batches, LogSpan
from heliograph.cluster.markers import Marker
from heliograph.cluster.metadata import Leader
from heliograph.cluster.producer_states import ProducerState
from heliograph.cluster.transactions import OpenTransaction
from heliograph.model.errors import HeliographError
from heliograph.model.partition import TopicPartition
from heliograph.model.policy import Isolation
from heliograph.wire.batch import BatchHeader
from heliograph.wire.fetch import FetchReply
from heliograph.wire.fetch_request import FetchAsk
from heliograph.wire.produce import ProduceEntry, ProduceReply

Batch = tuple[BatchHeader, memoryview]


class SourcePort(Protocol):
    def leader(self, where: TopicPartition) -> Leader | None: ...

    def topic_id(self, topic: str) -> str:
        """The same for as long as it is the same topic, an id where there are any; empty where it is not known."""
        ...

    async def refresh(self) -> None: ...

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
        """A broker answers the requests of one line one after another, and those of different lines side by side."""
        ...

    async def span(self, where: TopicPartition) -> LogSpan: ...

    async def batch_at(self, where: TopicPartition, offset: int) -> Batch | None: ...

    async def batches_in(
        self, where: TopicPartition, first_offset: int, next_offset: int, *, committed: bool = False
    ) -> Batches:
        """All that hold records in [first_offset, next_offset), as far as they can be read; `committed`: up to the last
        stable offset, with what was aborted."""
        ...

    async def open_transaction(self, where: TopicPartition) -> OpenTransaction | None:
        """The oldest transaction that is open; None: there is none."""
        ...


class LinePort(Protocol):
    """Appends that are executed in the order they are sent."""

    @property
    def closed(self) -> bool: ...

    def send(self, entries: Sequence[ProduceEntry], permit: Callable[[], bool]) -> asyncio.Future[memoryview]:
        """`permit` is asked right before the last byte leaves; if it says no, the line is closed instead."""
        ...

    def close(self, reason: HeliographError) -> None: ...

    def decode(self, body: memoryview) -> ProduceReply: ...


class TargetPort(Protocol):
    def leader(self, where: TopicPartition) -> Leader | None: ...

    def topic_id(self, topic: str) -> str:
        """The same for as long as it is the same topic, an id where there are any; empty where it is not known."""
        ...

    def has_followers(self, topic: str) -> bool:
        """Whether an append there waits for anybody but the leader."""
        ...

    async def refresh(self) -> None: ...

    async def line_to(self, node: int, name: LineName) -> LinePort: ...

    async def log_ends(self, node: int, wheres: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The log ends of these partitions by their leader; those it refuses to tell are left out."""
        ...

    async def topic_configs(self, topics: Sequence[str], keys: Sequence[str]) -> Mapping[str, TopicConfig]:
        """These configs of these topics, or the problem for each topic whose configs cannot be read."""
        ...

    async def span(self, where: TopicPartition) -> LogSpan: ...

    async def first_since(self, where: TopicPartition, time_ms: int) -> DatedRecord | None:
        """The record with the lowest offset that has this time or a later one; None: there is none."""
        ...

    async def segment_end(self, where: TopicPartition, offset: int) -> int:
        """Where the leader's segment ends that holds this offset; of the one that is written, the high watermark."""
        ...

    async def producers(self, where: TopicPartition) -> Mapping[int, ProducerState]: ...

    async def batches_in(self, where: TopicPartition, first_offset: int, next_offset: int) -> Batches: ...

    async def delete_records(self, where: TopicPartition, before_offset: int) -> None: ...

    async def write_markers(
        self, node: int, markers: Sequence[Marker], permit: Callable[[], bool]
    ) -> Mapping[tuple[TopicPartition, int], int]:
        """One error code for each partition and producer id, of however many markers: that of the last one.
        `permit` is asked right before the last byte leaves."""
        ...

    async def fence_fills(self, transactional_id: str) -> FillProducer:
        """All others with this transactional id are fenced off, and what they have begun is over."""
        ...

    async def write_empty_transaction(
        self,
        transactional_id: str,
        producer: FillProducer,
        where: TopicPartition,
        permit: Callable[[], bool],
    ) -> None:
        """One marker at the end of the partition's log; after an error it may come later, until `fence_fills`.
        `permit` is asked right before the last byte of each request leaves."""
        ...

    def gap_grants(self, prefix: str) -> str:
        """The lines for a shell that grant a right by which gaps can be filled, with transactional ids of this
        prefix."""
        ...
