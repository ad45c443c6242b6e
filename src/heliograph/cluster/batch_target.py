"""Batches into a cluster: appends to one broker, and the questions a copier asks of a target log."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from heliograph.cluster.admin import TopicConfig, describe_topic_configs
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.connection import Connection
from heliograph.cluster.empty_transactions import EmptyTransactions, FillProducer
from heliograph.cluster.flight import CAREFUL_UNACKNOWLEDGED_MS
from heliograph.cluster.grants import gap_grant_lines
from heliograph.cluster.line_name import LineName
from heliograph.cluster.list_offsets import DatedRecord
from heliograph.cluster.log_ends import LogEnds
from heliograph.cluster.log_reads import (
    Batches,
    LogSpan,
    first_since,
    read_batches,
    read_producers,
    read_segment_end,
    read_span,
)
from heliograph.cluster.markers import FEW_MARKERS, Marker, write_markers
from heliograph.cluster.messages import common_version
from heliograph.cluster.metadata import Leader
from heliograph.cluster.producer_states import ProducerState
from heliograph.cluster.record_deletion import delete_records
from heliograph.model.errors import HeliographError
from heliograph.model.partition import TopicPartition
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.produce import (
    PRODUCE_BY_ID_FROM,
    PRODUCE_FLEXIBLE_FROM,
    PRODUCE_VERSIONS,
    ProduceEntry,
    ProduceReply,
    decode_produce,
    encode_produce,
)

# Version 9 says the same as 8 in variable-length numbers, which cost twice the time to read.
APPEND_VERSIONS = PRODUCE_VERSIONS[: PRODUCE_VERSIONS.index(PRODUCE_FLEXIBLE_FROM)]
# How long a broker may hold a line up for the followers of one partition. It then answers for the others, and names
# those it still waits for: they go on by a patient line.
FOLLOWERS_WAIT_MS = 300
ANSWER_SLACK_MS = 1000  # the broker gives up first and says so; only a dead one is cut off


class AppendLine:
    """Appends on one connection: executed in the order they are sent. acks is always -1.

    Topics go by id (rule 8: a recreated topic refuses them) where the broker offers that and every entry has one.
    """

    def __init__(self, connection: Connection, *, followers_ms: int, timeout_ms: int) -> None:
        self.connection = connection
        self._timeout_ms = followers_ms
        self._answer_ms = timeout_ms + ANSWER_SLACK_MS
        self._version = common_version(connection, ApiKey.PRODUCE, "Produce", APPEND_VERSIONS)
        self._takes_ids = connection.versions[ApiKey.PRODUCE][1] >= PRODUCE_BY_ID_FROM
        self._names: dict[bytes, str] = {}
        self._sent: deque[tuple[asyncio.Future[memoryview], int]] = deque()

    @property
    def closed(self) -> bool:
        return self.connection.closed

    def close(self, reason: HeliographError) -> None:
        self.connection.close(reason)

    def send(self, entries: Sequence[ProduceEntry], permit: Callable[[], bool]) -> asyncio.Future[memoryview]:
        """Send now, one batch for each of these partitions, if `permit` says yes right before the last byte leaves;
        `decode` reads the answer."""
        version = self._version_for(entries)
        answer = self.connection.request(
            ApiKey.PRODUCE,
            version,
            encode_produce(version, entries, timeout_ms=self._timeout_ms),
            flexible=version >= PRODUCE_FLEXIBLE_FROM,
            timeout_ms=self._answer_ms,
            permit=permit,
        )
        self._sent.append((answer, version))
        return answer

    def _version_for(self, entries: Sequence[ProduceEntry]) -> int:
        if not (self._takes_ids and all(entry.topic_id for entry in entries)):
            return self._version
        for topic, _, _, topic_id in entries:
            self._names[topic_id] = topic
        return PRODUCE_BY_ID_FROM

    def decode(self, body: memoryview) -> ProduceReply:
        """Answers are read in the order in which they come; one that nobody reads is passed over."""
        while self._sent:
            answer, version = self._sent.popleft()
            if not answer.cancelled() and answer.exception() is None and answer.result() is body:
                reply = decode_produce(version, body, self._names)
                if reply.throttle_ms > 0:
                    self.connection.postpone(reply.throttle_ms / 1000)
                return reply
        raise AssertionError("an answer that is not of this line, or was read before")


class BatchTarget:
    """`link` names the connections: each link has its own."""

    def __init__(self, client: ClusterClient, link: str) -> None:
        self.client = client
        self._purpose = f"append for {link}"
        self._fill_purpose = f"fill for {link}"
        self._delete_purpose = f"delete records for {link}"
        self._lines: dict[tuple[int, LineName], AppendLine] = {}
        self._filling: set[tuple[int, str]] = set()  # brokers and lines that owe an answer
        self._ends = LogEnds(client)
        self._transactions = EmptyTransactions(client, link)

    def leader(self, where: TopicPartition) -> Leader | None:
        return self.client.leader(where)

    def topic_id(self, topic: str) -> str:
        return self.client.metadata.identity(topic)

    def has_followers(self, topic: str) -> bool:
        found = self.client.metadata.topics.get(topic)
        return found is None or found.replication_factor > 1

    async def refresh(self) -> None:
        await self.client.refresh()

    async def line_to(self, node: int, name: LineName) -> AppendLine:
        """The line of this name, on which appends go in order; a new one when the last has ended."""
        timeout_ms = self.client.properties.request_timeout_ms
        connection = await self.client.connection(
            node,
            f"{self._purpose}, line {name}",
            unacknowledged_ms=CAREFUL_UNACKNOWLEDGED_MS if name.careful else timeout_ms,
        )
        line = self._lines.get((node, name))
        if line is None or line.connection is not connection:
            followers_ms = timeout_ms if name.patient else min(timeout_ms, FOLLOWERS_WAIT_MS)
            line = self._lines[node, name] = AppendLine(
                connection, followers_ms=followers_ms, timeout_ms=timeout_ms
            )
        return line

    async def write_markers(
        self, node: int, markers: Sequence[Marker], permit: Callable[[], bool]
    ) -> dict[tuple[TopicPartition, int], int]:
        """Markers by this broker, in the order given within a partition, if `permit` says yes right before the last
        byte leaves: its code for each partition and producer id."""
        timeout_ms = self.client.properties.request_timeout_ms + ANSWER_SLACK_MS
        purpose = self._fill_purpose if len(markers) <= FEW_MARKERS else f"long {self._fill_purpose}"
        with self._idle_line(node, purpose) as line:
            return await write_markers(self.client, node, line, markers, permit, timeout_ms=timeout_ms)

    @contextmanager
    def _idle_line(self, node: int, purpose: str) -> Iterator[str]:
        """A connection on which no answer is due: a broker takes nothing more from one before it has answered."""
        line = next(
            name
            for nth in itertools.count(1)
            if (node, name := f"{purpose}, line {nth}") not in self._filling
        )
        self._filling.add((node, line))
        try:
            yield line
        finally:
            self._filling.discard((node, line))

    async def fence_fills(self, transactional_id: str) -> FillProducer:
        """All that was begun with this transactional id is over."""
        return await self._transactions.fence(transactional_id)

    async def write_empty_transaction(
        self,
        transactional_id: str,
        producer: FillProducer,
        where: TopicPartition,
        permit: Callable[[], bool],
    ) -> None:
        """One marker at the end of the partition's log. `permit` is asked before each request's last byte leaves."""
        await self._transactions.write(transactional_id, producer, where, permit)

    def gap_grants(self, prefix: str) -> str:
        """The lines that grant a right by which gaps can be filled, with transactional ids that begin so."""
        return gap_grant_lines(self.client.properties, prefix)

    async def delete_records(self, where: TopicPartition, before_offset: int) -> None:
        """The log starts at `before_offset` from now on. Waits for every follower."""
        await delete_records(self.client, where, before_offset, purpose=self._delete_purpose)

    async def log_ends(self, node: int, wheres: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return await self._ends.read(node, wheres)

    async def topic_configs(self, topics: Sequence[str], keys: Sequence[str]) -> Mapping[str, TopicConfig]:
        return await describe_topic_configs(self.client, topics, list(keys))

    async def span(self, where: TopicPartition) -> LogSpan:
        return await read_span(self.client, where)

    async def first_since(self, where: TopicPartition, time_ms: int) -> DatedRecord | None:
        return await first_since(self.client, where, time_ms)

    async def segment_end(self, where: TopicPartition, offset: int) -> int:
        return await read_segment_end(self.client, where, offset)

    async def producers(self, where: TopicPartition) -> Mapping[int, ProducerState]:
        """By producer id: everybody whom the leader remembers."""
        return await read_producers(self.client, where)

    async def batches_in(self, where: TopicPartition, first_offset: int, next_offset: int) -> Batches:
        return await read_batches(self.client, where, first_offset, next_offset)
