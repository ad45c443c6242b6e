"""Drives the real resynchronisation of one copier, as copier/resynchroniser.py does, in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heliograph.cluster.log_reads import LogSpan, ProducerState
from heliograph.copier import resync
from heliograph.copier.passage import corrupt
from heliograph.copier.ports import Batch
from heliograph.copier.recovery import stop_for_read
from heliograph.model.errors import (
    BrokerRefused,
    CorruptBatch,
    Disconnected,
    PartitionStop,
    ProtocolError,
    RequestFailed,
)
from heliograph.model.states import StopReason
from heliograph.wire.error_codes import ErrorCode

from .model_broker import NO_EPOCH, Answer, Led, ModelPartition

if TYPE_CHECKING:
    from .copier import SimCopier

UNSETTLED_MS = 50
RETRY_FIRST_MS = 100
RETRY_MAX_MS = 5_000
RETRY_FORGOTTEN_MS = 30_000
MISSING_LIMIT_MS = 15_000


class Asking:
    def __init__(self, copier: SimCopier) -> None:
        self._copier = copier
        self._running = False
        self._questions: resync.Resync | None = None
        self._interruptions = 0
        self._doubted = False
        self._missing_since_ms: int | None = None
        self._fruitless = 0
        self._last_offset, self._last_ms = -1, -RETRY_FORGOTTEN_MS

    def begin(self) -> None:
        if not self._running:
            self._running = True
            self._copier.lane.after(self._pause_ms(), self._start)

    def _pause_ms(self) -> int:
        now_ms, offset = self._copier.world.now_ms, self._copier.copy.next_offset or 0
        fresh = offset > self._last_offset or now_ms - self._last_ms > RETRY_FORGOTTEN_MS
        self._fruitless = 0 if fresh else self._fruitless + 1
        self._last_offset, self._last_ms = offset, now_ms
        if self._fruitless <= 1:
            return 0
        return min(RETRY_FIRST_MS << min(self._fruitless - 2, 10), RETRY_MAX_MS)

    def _start(self) -> None:
        copy = self._copier.copy
        if not copy.wants_resync or self._copier.over:
            self._finish()
        elif copy.stale:
            self._refresh(self._ask_first)
        else:
            self._ask_first()

    def _ask_first(self) -> None:
        copy = self._copier.copy
        if not copy.wants_resync:
            self._finish()
            return
        self._interruptions = copy.interruptions
        self._questions = resync.resynchronise(copy.spec)
        self._next(None)

    def _finish(self) -> None:
        self._running = False
        self._copier.attend()

    def _again(self) -> None:
        self._running = False
        if self._copier.copy.wants_resync and not self._copier.over:
            self.begin()
        else:
            self._copier.attend()

    def _next(self, answer: resync.Answer) -> None:
        if self._copier.over:
            return
        assert self._questions is not None
        lane, world = self._copier.lane, self._copier.world
        try:
            question = self._questions.send(answer)
        except StopIteration as done:
            self._found(done.value)
        except PartitionStop as stop:
            if self._copier.copy.interruptions == self._interruptions:
                self._doubt(stop)
            else:
                self._again()  # the answers were of two leaders
        except CorruptBatch as problem:
            self._copier.copy.stop(corrupt(problem))
            self._finish()
        else:
            if isinstance(question, resync.Unsettled):
                lane.after(UNSETTLED_MS, self._next, None)
            else:
                lane.after(world.delay_ms(), self._perform, question)

    def _found(self, found: resync.Synced) -> None:
        copy = self._copier.copy
        self._missing_since_ms = None
        if copy.wants_resync and copy.interruptions == self._interruptions:
            self._doubted = False
            copy.synced(found)
            self._copier.world.tell(self._copier.lane.name, "is synced at", found.position.source)
            self._copier.source_changed()
        self._again()

    def _doubt(self, stop: PartitionStop) -> None:
        if stop.reason != StopReason.SEQUENCE or self._doubted:
            self._copier.copy.stop(stop)
            self._finish()
        else:
            self._doubted = True
            self._refresh(self._again)

    def _failed(self, problem: RequestFailed | ProtocolError) -> None:
        stop = self._stop_for(problem)
        if stop is not None:
            self._copier.copy.stop(stop)
            self._finish()
        else:
            self._refresh(self._again)

    def _refresh(self, then: object) -> None:
        self._copier.copy.stale = False
        self._copier.lane.after(self._copier.world.delay_ms(), self._refreshed, then)

    def _refreshed(self, then: object) -> None:
        self._copier.read_metadata()
        assert callable(then)
        then()

    def _stop_for(self, problem: RequestFailed | ProtocolError) -> PartitionStop | None:
        if not isinstance(problem, BrokerRefused):
            return None
        if problem.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._missing_since_ms = None
            return stop_for_read(problem)
        now_ms = self._copier.world.now_ms
        if self._missing_since_ms is None:
            self._missing_since_ms = now_ms
        if now_ms - self._missing_since_ms < MISSING_LIMIT_MS:
            return None
        return PartitionStop(StopReason.RECREATED, "the topic is gone", hint="")

    # -- what the clusters answer

    def _perform(self, question: resync.Question) -> None:
        world, lane = self._copier.world, self._copier.lane
        try:
            if world.loses_message():
                raise Disconnected("the answer was lost")
            answer = self._answer_to(question)
        except (RequestFailed, ProtocolError) as problem:
            lane.after(world.delay_ms(), self._failed, problem)
        else:
            lane.after(world.delay_ms(), self._next, answer)

    def _answer_to(self, question: resync.Question) -> resync.Answer:
        world, copier = self._copier.world, self._copier
        match question:
            case resync.ReadProducer():
                partition, led = _reach(world.target.partition, copier.leader)
                view = partition.producers(led.leader).get(copier.copy.spec.producer_id)
                if view is None:
                    return None
                return ProducerState(
                    epoch=view.epoch, last_sequence=view.last_sequence, last_timestamp=view.last_timestamp
                )
            case resync.ReadTargetLog():
                return _span(*_reach(world.target.partition, copier.leader))
            case resync.ReadSourceLog():
                return _span(*_reach(world.source.partition, copier.source_leader))
            case resync.ReadTargetBatch(offset):
                return _batch(*_reach(world.target.partition, copier.leader), offset)
            case resync.ReadSourceBatch(offset):
                return _batch(*_reach(world.source.partition, copier.source_leader), offset)
            case resync.Unsettled():
                return None


def _reach(partition: ModelPartition | None, led: Led | None) -> tuple[ModelPartition, Led]:
    if partition is None:
        raise BrokerRefused("no such topic", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if led is None:
        raise BrokerRefused("no leader", code=ErrorCode.LEADER_NOT_AVAILABLE)
    if led.leader in partition.down:
        raise Disconnected("the broker is away")
    return partition, led


def _span(partition: ModelPartition, led: Led) -> LogSpan:
    start, watermark, end = (
        _offset(ask(*led)) for ask in (partition.log_start, partition.high_watermark, partition.log_end)
    )
    if not 0 <= start <= end or watermark > end:
        raise ProtocolError("an impossible log")
    return LogSpan(start=start, high_watermark=watermark, end=end)


def _offset(answer: Answer) -> int:
    if answer.error:
        raise BrokerRefused("refused", code=answer.error)
    return answer.offset


def _batch(partition: ModelPartition, led: Led, offset: int) -> Batch | None:
    fetched = partition.fetch(led.leader, offset, leader_epoch=led.epoch, last_fetched_epoch=NO_EPOCH)
    if fetched.error:
        raise BrokerRefused("fetch", code=fetched.error)
    for stored in fetched.batches:
        if stored.header.next_offset > offset:
            return stored.header, memoryview(bytearray(stored.data))
    return None
