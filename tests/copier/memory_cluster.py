"""A Kafka cluster in memory behind the copier's ports: brokers that freeze, die and lose leaderships on command.

Owns the faults. `leaders` is the truth; what a client believes is read from it by `refresh`, as with metadata.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from heliograph.cluster.log_reads import LogSpan, ProducerState
from heliograph.cluster.metadata import Leader
from heliograph.copier.ports import Batch
from heliograph.model.errors import BrokerRefused, Disconnected, HeliographError
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.fetch import FetchedPartition, FetchReply, FetchWant
from heliograph.wire.produce import ProducedPartition, ProduceEntry, ProduceReply

from .memory_log import MemoryLog

# What happens to an append: None is nothing special; a code refuses it without appending.
Fault = Callable[[TopicPartition], int | None]


class MemoryCluster:
    """Both ports at once: tests use one as a source and another as a target."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, MemoryLog] = {}
        self.leaders: dict[TopicPartition, Leader] = {}
        self.believed: dict[TopicPartition, Leader] = {}
        self.on_metadata: Callable[[], None] = lambda: None
        self.dead: set[int] = set()
        self.line_open: dict[int, asyncio.Event] = {}  # a node whose connection takes until this is set
        self.fault: Fault = lambda _where: None
        self.fetch_error: dict[TopicPartition, int] = {}
        self.appends: list[tuple[int, TopicPartition]] = []  # which node was sent what
        self.fetches = 0
        self.topic_ids: dict[str, str] = {}
        self.spans = 0
        self.largest_fetch_bytes = 0
        self._lines: dict[int, MemoryLine] = {}

    # -- what a test does

    def create(self, where: TopicPartition, node: int = 1) -> MemoryLog:
        self.leaders[where] = self.believed[where] = Leader(node, 0)
        self.logs[where] = MemoryLog()
        return self.logs[where]

    def move(self, where: TopicPartition, node: int) -> None:
        self.leaders[where] = Leader(node, self.leaders[where].epoch + 1)

    def kill(self, node: int) -> None:
        self.dead.add(node)
        self.line(node).close(Disconnected(f"broker {node} is gone"))

    def line(self, node: int) -> MemoryLine:
        line = self._lines.get(node)
        if line is None or line.closed:
            line = self._lines[node] = MemoryLine(self, node)
        return line

    # -- both ports

    def leader(self, where: TopicPartition) -> Leader | None:
        return self.believed.get(where)

    def topic_id(self, topic: str) -> str:
        return self.topic_ids.get(topic, "")

    async def refresh(self) -> None:
        await asyncio.sleep(0)
        self.believed = {where: led for where, led in self.leaders.items() if led.node not in self.dead}
        self.on_metadata()

    async def span(self, where: TopicPartition) -> LogSpan:
        self.spans += 1
        return (await self._led(where)).span

    async def batch_at(self, where: TopicPartition, offset: int) -> Batch | None:
        stored = (await self._led(where)).holding(offset)
        return None if stored is None else (stored.header, memoryview(bytearray(stored.data)))

    async def _led(self, where: TopicPartition) -> MemoryLog:
        await asyncio.sleep(0)
        believed = self.believed.get(where)
        if believed is None:
            raise BrokerRefused(f"{where} has no leader", code=ErrorCode.LEADER_NOT_AVAILABLE)
        if believed.node in self.dead:
            raise Disconnected(f"broker {believed.node} is gone")
        if believed != self.leaders[where]:
            raise BrokerRefused(f"{where} has moved", code=ErrorCode.FENCED_LEADER_EPOCH)
        return self.logs[where]

    # -- the source's port

    async def fetch(
        self, node: int, wants: Sequence[FetchWant], *, max_bytes: int, max_wait_ms: int
    ) -> FetchReply:
        await asyncio.sleep(0)
        self.fetches += 1
        partitions = self._fetch(node, wants, max_bytes)
        if not any(len(fetched.records) or fetched.error for fetched in partitions):
            await asyncio.sleep(max_wait_ms / 1000)
            partitions = self._fetch(node, wants, max_bytes)
        return FetchReply(0, 0, partitions)

    def _fetch(self, node: int, wants: Sequence[FetchWant], max_bytes: int) -> list[FetchedPartition]:
        if node in self.dead:
            raise Disconnected(f"broker {node} is gone")
        partitions: list[FetchedPartition] = []
        left_bytes = max_bytes
        for want in wants:
            fetched = self._fetch_one(node, want, left_bytes, first=left_bytes == max_bytes)
            left_bytes -= len(fetched.records)
            partitions.append(fetched)
        self.largest_fetch_bytes = max(self.largest_fetch_bytes, max_bytes - left_bytes)
        return partitions

    def _fetch_one(self, node: int, want: FetchWant, left_bytes: int, *, first: bool) -> FetchedPartition:
        where = TopicPartition(want.topic, want.partition)
        log = self.logs[where]
        error = self.fetch_error.get(where, 0)
        if self.leaders[where].node != node:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif not log.start <= want.next_offset <= log.end:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        limit_bytes = min(want.max_bytes, left_bytes)
        records = b"" if error else log.read(want.next_offset, limit_bytes, at_least_one=first)
        watermark = log.span.high_watermark
        view = memoryview(bytearray(records))
        return FetchedPartition(*where, error, watermark, watermark, log.start, -1, view, None, None)

    # -- the target's port

    async def line_to(self, node: int) -> MemoryLine:
        await asyncio.sleep(0)
        if node in self.line_open:
            await self.line_open[node].wait()
        if node in self.dead:
            raise Disconnected(f"broker {node} is gone")
        return self.line(node)

    async def producer(self, where: TopicPartition, producer_id: int) -> ProducerState | None:
        return (await self._led(where)).producer(producer_id)


class MemoryLine:
    """Appends to one broker, executed in order; while it is frozen they wait, and may be lost with it."""

    def __init__(self, cluster: MemoryCluster, node: int) -> None:
        self.closed = False
        self.frozen = False
        self.most_in_flight = 0
        self._cluster = cluster
        self._node = node
        self._replies: dict[int, ProduceReply] = {}
        self._waiting: list[tuple[list[tuple[TopicPartition, bytes]], asyncio.Future[memoryview]]] = []

    def send(self, entries: Sequence[ProduceEntry]) -> asyncio.Future[memoryview]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[memoryview] = loop.create_future()
        batches = [(TopicPartition(entry.topic, entry.partition), bytes(entry.batch)) for entry in entries]
        assert len({where for where, _ in batches}) == len(batches)
        self._waiting.append((batches, answer))
        self.most_in_flight = max(self.most_in_flight, len(self._waiting))
        loop.call_soon(self._execute)
        return answer

    def decode(self, body: memoryview) -> ProduceReply:
        return self._replies.pop(int.from_bytes(body, "big"))

    def thaw(self) -> None:
        self.frozen = False
        self._execute()

    def close(self, reason: HeliographError) -> None:
        self.closed = True
        while self._waiting:
            self._waiting.pop(0)[1].set_exception(reason)

    def _execute(self) -> None:
        while self._waiting and not self.frozen:
            batches, answer = self._waiting.pop(0)
            partitions = [self._append(where, batch) for where, batch in batches]
            self._replies[id(answer)] = ProduceReply(0, partitions)
            answer.set_result(memoryview(id(answer).to_bytes(8, "big")))

    def _append(self, where: TopicPartition, batch: bytes) -> ProducedPartition:
        cluster = self._cluster
        cluster.appends.append((self._node, where))
        error = cluster.fault(where)
        if cluster.leaders[where].node != self._node:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if error is not None:
            return ProducedPartition(*where, error, -1, -1, "")
        appended = cluster.logs[where].append(memoryview(bytearray(batch)))
        return ProducedPartition(*where, appended.error, appended.base_offset, 0, "")
