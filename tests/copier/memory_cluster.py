"""A Kafka cluster in memory behind the copier's ports: brokers that freeze, die and lose leaderships on command.

Owns the faults. `leaders` is the truth; what a client believes is read from it by `refresh`, as with metadata.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from heliograph.cluster.admin import TopicConfig
from heliograph.cluster.empty_transactions import FillProducer
from heliograph.cluster.line_name import LineName
from heliograph.cluster.list_offsets import DatedRecord
from heliograph.cluster.log_reads import Batches, LogSpan
from heliograph.cluster.markers import Marker
from heliograph.cluster.metadata import Leader
from heliograph.cluster.producer_states import ProducerState
from heliograph.cluster.transactions import OpenTransaction
from heliograph.copier.ports import Batch
from heliograph.model.errors import BrokerRefused, Disconnected, HeliographError
from heliograph.model.marker_label import MarkerLabel
from heliograph.model.partition import TopicPartition
from heliograph.model.policy import Isolation
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.fetch import FetchedPartition, FetchReply, FetchWant
from heliograph.wire.fetch_request import FetchAsk
from heliograph.wire.produce import ProducedPartition, ProduceEntry, ProduceReply
from tests.support.model_sessions import ModelSessions

from .memory_log import MemoryLog
from .memory_transactions import MemoryTransactions

# What happens to an append: None is nothing special; a code refuses it without appending.
Fault = Callable[[TopicPartition], int | None]
Permit = Callable[[], bool]


class Delivery(NamedTuple):
    """One batch that reached a broker, and how."""

    node: int
    line: LineName
    where: TopicPartition
    topic_id: bytes


class MemoryCluster:
    """Both ports at once: tests use one as a source and another as a target."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, MemoryLog] = {}
        self.leaders: dict[TopicPartition, Leader] = {}
        self.believed: dict[TopicPartition, Leader] = {}
        self.on_metadata: Callable[[], None] = lambda: None
        self.dead: set[int] = set()
        # a node, or a line, whose connection takes until this is set
        self.line_open: dict[int | LineName, asyncio.Event] = {}
        self.refreshes = 0
        self.fault: Fault = lambda _where: None
        self.marker_fault: Callable[[TopicPartition, MarkerLabel], int | None] = lambda _where, _label: None
        self.delete_error = 0
        self.deletions: list[tuple[TopicPartition, int]] = []
        self.transactions = MemoryTransactions(self.logs)
        self.marker_answer = asyncio.Event()  # until it is set, nobody is answered
        self.marker_answer.set()
        self.fetch_error: dict[TopicPartition, int] = {}
        self.appends: list[tuple[int, TopicPartition]] = []  # which node was sent what
        self.deliveries: list[Delivery] = []
        self.frozen: set[int] = set()  # nodes that execute nothing
        self.hung: set[int] = set()  # nodes that never answer a question
        self.asked_fails: HeliographError | None = None  # what every question ends with
        self.asked = 0
        self.buffer_bytes = 0  # what answers to fetches are received into, at least
        self.throttle_ms = 0  # what a quota makes clients wait
        self.unreadable_configs: dict[str, str] = {}  # why, by topic
        self.slots = 1000  # how many fetch sessions a broker keeps
        self.configs: dict[str, dict[str, str]] = {}  # of topics, where they are not what a mirror needs
        self.stamps: set[str] = set()  # topics whose broker writes its own time into batches
        self.fetch_fails: HeliographError | None = None  # what every fetch ends with
        self.compares_epochs = True  # a fetch tells that the log was truncated
        self.fetches = 0
        self.isolations: set[Isolation] = set()  # of the fetches
        self.wants: list[FetchWant] = []
        self.asks: list[FetchAsk] = []
        self.sessions: dict[int, ModelSessions] = {}  # by node
        self.diverging: dict[TopicPartition, tuple[int, int]] = {}  # epoch and where it ended
        self.open_transactions: dict[TopicPartition, OpenTransaction] = {}
        self.ends_asked = 0
        self.transactions_asked = 0
        self.topic_ids: dict[str, str] = {}
        self.unreplicated: set[str] = set()
        self.spans = 0
        self.largest_fetch_bytes = 0
        self._lines: dict[tuple[int, LineName], MemoryLine] = {}

    # -- what a test does

    def create(self, where: TopicPartition, node: int = 1) -> MemoryLog:
        self.leaders[where] = self.believed[where] = Leader(node, 0)
        self.logs[where] = MemoryLog()
        return self.logs[where]

    def move(self, where: TopicPartition, node: int) -> None:
        self.leaders[where] = Leader(node, self.leaders[where].epoch + 1)

    def kill(self, node: int) -> None:
        self.dead.add(node)
        self.sessions.pop(node, None)
        for line in self.lines(node):
            line.close(Disconnected(f"broker {node} is gone"))

    def thaw(self, node: int) -> None:
        self.frozen.discard(node)
        for line in self.lines(node):
            line.thaw()

    def has_in_flight(self, where: TopicPartition, but: MemoryLine) -> bool:
        return any(line.holds(where) for line in self._lines.values() if line is not but)

    def lines(self, node: int) -> list[MemoryLine]:
        return [line for (to, _), line in self._lines.items() if to == node]

    def line(self, node: int, name: LineName = LineName(0)) -> MemoryLine:  # noqa: B008 - a value
        line = self._lines.get((node, name))
        if line is None or line.closed:
            line = self._lines[node, name] = MemoryLine(self, node, name)
        return line

    # -- both ports

    def leader(self, where: TopicPartition) -> Leader | None:
        return self.believed.get(where)

    def topic_id(self, topic: str) -> str:
        return self.topic_ids.get(topic, "")

    def has_followers(self, topic: str) -> bool:
        return topic not in self.unreplicated

    async def refresh(self) -> None:
        await asyncio.sleep(0)
        self.refreshes += 1
        self.believed = {where: led for where, led in self.leaders.items() if led.node not in self.dead}
        self.on_metadata()

    async def span(self, where: TopicPartition) -> LogSpan:
        self.spans += 1
        return (await self._led(where)).span

    async def batch_at(self, where: TopicPartition, offset: int) -> Batch | None:
        stored = (await self._led(where)).holding(offset)
        return None if stored is None else (stored.header, memoryview(bytearray(stored.data)))

    async def batches_in(
        self, where: TopicPartition, first_offset: int, next_offset: int, *, committed: bool = False
    ) -> Batches:
        log = await self._led(where)
        end = log.stable_end if committed else log.end
        stored = [
            each
            for each in log.batches
            if each.header.next_offset > first_offset
            and each.header.base_offset < next_offset
            and each.header.next_offset <= end
        ]
        return Batches(
            headers=tuple(each.header for each in stored),
            views=tuple(memoryview(bytearray(each.data)) for each in stored),
            aborted=log.aborted_from(first_offset) if committed else (),
            read_to=_read_to(log, first_offset, next_offset, end),
        )

    async def _led(self, where: TopicPartition) -> MemoryLog:
        await asyncio.sleep(0)
        believed = self.believed.get(where)
        self.asked += 1
        if self.asked_fails is not None:
            raise self.asked_fails
        if believed is not None and believed.node in self.hung:
            await asyncio.Event().wait()
        if believed is None:
            raise BrokerRefused(f"{where} has no leader", code=ErrorCode.LEADER_NOT_AVAILABLE)
        if believed.node in self.dead:
            raise Disconnected(f"broker {believed.node} is gone")
        if believed != self.leaders[where]:
            raise BrokerRefused(f"{where} has moved", code=ErrorCode.FENCED_LEADER_EPOCH)
        return self.logs[where]

    # -- the source's port

    async def fetch(
        self,
        node: int,
        _line: str,
        ask: FetchAsk,
        *,
        max_bytes: int,
        max_wait_ms: int,
        isolation: Isolation,
    ) -> FetchReply:
        await asyncio.sleep(0)
        self.fetches += 1
        self.isolations.add(isolation)
        self.asks.append(ask)
        self.wants.extend(ask.wants)
        opened = self.sessions.setdefault(node, ModelSessions(self.slots)).open(ask)
        if isinstance(opened, FetchReply):
            return opened
        partitions = self._fetch(node, opened.wants, max_bytes)
        if not any(len(got.records) or got.error or got.diverging_epoch for got in partitions):
            await asyncio.sleep(max_wait_ms / 1000)
            partitions = self._fetch(node, opened.wants, max_bytes)
        return opened.reply(
            partitions,
            throttle_ms=self.throttle_ms,
            compares_epochs=self.compares_epochs,
        )

    def _fetch(self, node: int, wants: Sequence[FetchWant], max_bytes: int) -> list[FetchedPartition]:
        if self.fetch_fails is not None:
            raise self.fetch_fails
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
        diverging = self.diverging.get(where)
        if diverging is not None and want.last_fetched_epoch > diverging[0]:
            return FetchedPartition(*where, 0, -1, -1, -1, -1, memoryview(b""), diverging, None)
        limit_bytes = min(want.max_bytes, left_bytes)
        records = b"" if error else log.read(want.next_offset, limit_bytes, at_least_one=first)
        watermark = log.span.high_watermark
        size_bytes = len(records)
        view = memoryview(bytearray(records.ljust(self.buffer_bytes, b"\0") if records else b""))[:size_bytes]
        aborted = log.aborted_from(want.next_offset)
        return FetchedPartition(
            *where, error, watermark, log.stable_end, log.start, -1, view, None, None, aborted
        )

    async def open_transaction(self, where: TopicPartition) -> OpenTransaction | None:
        self.transactions_asked += 1
        await self._led(where)
        return self.open_transactions.get(where)

    # -- the target's port

    async def line_to(self, node: int, name: LineName) -> MemoryLine:
        await asyncio.sleep(0)
        for key in (node, name):
            if key in self.line_open:
                await self.line_open[key].wait()
        if node in self.dead:
            raise Disconnected(f"broker {node} is gone")
        return self.line(node, name)

    async def log_ends(self, node: int, wheres: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        await asyncio.sleep(0)
        self.ends_asked += 1
        if node in self.dead:
            raise Disconnected(f"broker {node} is gone")
        return {where: self.logs[where].end for where in wheres if self.leaders[where].node == node}

    async def topic_configs(self, topics: Sequence[str], _keys: Sequence[str]) -> dict[str, TopicConfig]:
        await asyncio.sleep(0)
        return {
            topic: TopicConfig(
                own={}, effective=self.configs.get(topic, {}), problem=self.unreadable_configs.get(topic)
            )
            for topic in topics
        }

    async def first_since(self, where: TopicPartition, time_ms: int) -> DatedRecord | None:
        return (await self._led(where)).first_since(time_ms)

    async def segment_end(self, where: TopicPartition, offset: int) -> int:
        return (await self._led(where)).segment_end(offset)

    async def producers(self, where: TopicPartition) -> dict[int, ProducerState]:
        return (await self._led(where)).remembered()

    async def delete_records(self, where: TopicPartition, before_offset: int) -> None:
        log = await self._led(where)
        if self.delete_error:
            raise BrokerRefused(f"{where}: no", code=self.delete_error)
        self.deletions.append((where, before_offset))
        log.delete_before(before_offset)

    async def write_markers(
        self, node: int, markers: Sequence[Marker], permit: Permit
    ) -> dict[tuple[TopicPartition, int], int]:
        """The last code for each partition and producer id, as brokers answer."""
        await asyncio.sleep(0)
        if node in self.dead or not permit():
            raise Disconnected(f"broker {node} is gone")
        codes: dict[tuple[TopicPartition, int], int] = {}
        for where, label in markers:
            code = self.marker_fault(where, label)
            if self.leaders[where].node != node:
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            codes[where, label.producer_id] = self.logs[where].write_marker(label) if code is None else code
        await self.marker_answer.wait()
        if ErrorCode.CLUSTER_AUTHORIZATION_FAILED in codes.values():
            raise BrokerRefused(
                "no markers of yours",
                code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                hint="grant ALTER or CLUSTER_ACTION",
            )
        return codes

    async def fence_fills(self, transactional_id: str) -> FillProducer:
        await asyncio.sleep(0)
        return await self.transactions.fence(transactional_id)

    async def write_empty_transaction(
        self, transactional_id: str, producer: FillProducer, where: TopicPartition, permit: Permit
    ) -> None:
        await asyncio.sleep(0)
        await self.transactions.write(transactional_id, producer, where, permit)

    def gap_grants(self, prefix: str) -> str:
        return (
            f"kafka-acls.sh --transactional-id {prefix}  # or, much quicker: kafka-acls.sh --operation Alter"
        )


class Request(NamedTuple):
    batches: list[tuple[TopicPartition, bytes]]
    answer: asyncio.Future[memoryview]
    permit: Permit


class MemoryLine:
    """Appends to one broker, executed in order; while it is frozen they wait, and may be lost with it. While it is
    clogged the last byte of none has left yet."""

    def __init__(self, cluster: MemoryCluster, node: int, name: LineName) -> None:
        self.closed = False
        self.frozen = False
        self.clogged = False
        self.most_in_flight = 0
        self.most_entries = 0
        self.name = name
        self._cluster = cluster
        self._node = node
        self._replies: dict[int, ProduceReply] = {}
        self._leaving: list[Request] = []
        self._waiting: list[Request] = []

    def send(self, entries: Sequence[ProduceEntry], permit: Permit) -> asyncio.Future[memoryview]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[memoryview] = loop.create_future()
        batches = [(TopicPartition(entry.topic, entry.partition), bytes(entry.batch)) for entry in entries]
        assert len({where for where, _ in batches}) == len(batches)
        for entry in entries:
            where = TopicPartition(entry.topic, entry.partition)
            assert not self._cluster.has_in_flight(where, but=self), f"{where} is on two lines at once"
            self._cluster.deliveries.append(Delivery(self._node, self.name, where, entry.topic_id))
        self._leaving.append(Request(batches, answer, permit))
        self.most_in_flight = max(self.most_in_flight, len(self._waiting) + len(self._leaving))
        self.most_entries = max(self.most_entries, len(batches))
        if not self.clogged:
            self._leave()
        return answer

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._leaving

    def holds(self, where: TopicPartition) -> bool:
        return any(where == to for request in (*self._waiting, *self._leaving) for to, _ in request.batches)

    def lose_answers(self) -> list[Request]:
        """The connection ends with these on their way: nobody hears of them, but they may execute yet."""
        lost, self._waiting = self._waiting, []
        self.closed = True
        for request in lost:
            request.answer.set_exception(Disconnected(f"broker {self._node} closed the connection"))
        return lost

    def unclog(self) -> None:
        self.clogged = False
        self._leave()

    def _leave(self) -> None:
        while self._leaving:
            request = self._leaving[0]
            if not request.permit():
                self.close(Disconnected(f"a request to broker {self._node} was not permitted any more"))
                return
            self._waiting.append(self._leaving.pop(0))
            asyncio.get_running_loop().call_soon(self._execute)

    def decode(self, body: memoryview) -> ProduceReply:
        return self._replies.pop(int.from_bytes(body, "big"))

    def thaw(self) -> None:
        self.frozen = False
        self._execute()

    def close(self, reason: HeliographError) -> None:
        self.closed = True
        requests, self._waiting, self._leaving = [*self._waiting, *self._leaving], [], []
        for request in requests:
            request.answer.set_exception(reason)

    def _execute(self) -> None:
        while self._waiting and not (self.frozen or self._node in self._cluster.frozen):
            batches, answer, _ = self._waiting.pop(0)
            partitions = [self._append(where, batch) for where, batch in batches]
            self._replies[id(answer)] = ProduceReply(self._cluster.throttle_ms, partitions)
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
        time_ms = 1 if where.topic in cluster.stamps else appended.time_ms
        return ProducedPartition(*where, appended.error, appended.base_offset, 0, "", time_ms)


def _read_to(log: MemoryLog, first_offset: int, next_offset: int, end: int) -> int:
    """Behind the last batch that whoever reads these offsets sees."""
    ends = [each.header.next_offset for each in log.batches if first_offset < each.header.next_offset <= end]
    return next((each for each in ends if each >= next_offset), ends[-1] if ends else -1)
