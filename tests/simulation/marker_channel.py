"""A broker's end of a connection for WriteTxnMarkers: requests arrive in order and are executed one at a time.

A broker takes a request's markers one after another, each as an append of its own, so that what others send gets in
between, and a marker may be refused while the next one is taken. It answers when all are on all replicas, with one
error for each producer id and partition: that of the marker that was settled last. A request whose connection was
closed may still execute, and for as long as an append may (broker_channel.py).

A broker counts down to its answer when a marker is settled, but looks whether that was the last one only behind an
append: if the last marker is for a partition that it has not, and all others are settled by then, it never answers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

from .answers import Answer, Waiting
from .broker_channel import FLIGHT_S
from .control_batch import EndMarker
from .model_broker import ModelPartition
from .target_log import TargetLog

if TYPE_CHECKING:
    from .marker_line import MarkerLine

PAUSES = 0.2  # how often others get in between two markers of a request
PAUSE_S = (0.0005, 0.02)
Pair = tuple[TopicPartition, int]  # the producer id


@dataclass(frozen=True, slots=True)
class Wanted:
    """A marker, and the leader epoch that the lane believed in."""

    where: TopicPartition
    marker: EndMarker
    believed_epoch: int

    @property
    def pair(self) -> Pair:
        return self.where, self.marker.producer_id


@dataclass(slots=True, eq=False)
class MarkerRequest:
    wanted: deque[Wanted]
    permit: Callable[[], bool]
    answer: asyncio.Future[dict[Pair, int]]
    sent_at: float = 0.0
    dropped: bool = False
    executed: bool = False
    errors: dict[Pair, int] = field(default_factory=dict)
    awaited: list[tuple[Pair, ModelPartition, Waiting]] = field(default_factory=list)
    logs: dict[TargetLog, None] = field(default_factory=dict)  # that tell when something changes
    settled: int = 0
    skipped: int = 0
    never_answered: bool = False

    def settle(self, pair: Pair, error: int) -> None:
        self.errors[pair] = int(error)
        self.settled += 1

    def skip(self, pair: Pair, error: int) -> None:
        """The broker does not have the partition."""
        self.settle(pair, error)
        self.skipped += 1
        self.never_answered = not self.wanted and not self.awaited and self.skipped < self.settled


class MarkerChannel:
    """`patience_s`: how long the broker waits for the followers of a request's markers."""

    def __init__(self, line: MarkerLine, patience_s: float) -> None:
        self._line = line
        self._node = line.node
        self._cluster = line.cluster
        self._world = line.cluster.world
        self._patience_s = patience_s
        self._arrived: deque[MarkerRequest] = deque()
        self._executing: MarkerRequest | None = None
        self._last_arrival = self._last_answer = 0.0

    def travel(self, request: MarkerRequest) -> None:
        self._last_arrival = max(self._last_arrival, self._world.now + self._world.delay_s(may_be_late=True))
        self._world.last_arrival = max(self._world.last_arrival, self._last_arrival)
        self._world.at(self._last_arrival, self._arrive, request)

    def _arrive(self, request: MarkerRequest) -> None:
        if not request.dropped:
            self._arrived.append(request)
            self._execute_next()

    def _execute_next(self) -> None:
        if self._executing is None and self._arrived:
            self._executing = self._arrived.popleft()
            self._go_on(self._executing)

    def _go_on(self, request: MarkerRequest) -> None:
        """The next markers, until others get in between."""
        if self._cluster.is_frozen(self._node):
            self._cluster.when_thawed(self._node, self._go_on, request)
            return
        while request.wanted:
            late = self._world.now - request.sent_at > FLIGHT_S
            if late or self._node in self._cluster.down or (request.dropped and not request.executed):
                self._over(request, answers=False)
                return
            request.executed = True
            self._write(request, request.wanted.popleft())
            if request.wanted and self._world.chance.random() < PAUSES:
                self._world.after(self._world.chance.uniform(*PAUSE_S), self._go_on, request)
                return
        self._world.after(self._patience_s, self._give_up, request)
        self.look()

    def _write(self, request: MarkerRequest, wanted: Wanted) -> None:
        log = self._cluster.log(wanted.where)
        assert isinstance(log, TargetLog)
        if not self._cluster.takes_markers:
            request.settle(wanted.pair, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            return
        if log.partition is None or self._node not in log.partition.replicas:
            request.skip(wanted.pair, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        answer = self._answer_of(log.partition, wanted)
        self._world.tell("  broker", self._node, "says of", wanted.where, wanted.marker, answer)
        if not isinstance(answer, Waiting):
            request.settle(wanted.pair, answer.error)
            return
        log.judge.sent(self._line.process, request.sent_at)
        log.marked(answer, wanted.believed_epoch)
        outcome = log.partition.outcome(answer)
        if outcome is not None:
            request.settle(wanted.pair, outcome.error)
        else:
            request.awaited.append((wanted.pair, log.partition, answer))
            request.logs[log] = None
            log.await_followers(self)

    def _answer_of(self, partition: ModelPartition, wanted: Wanted) -> Answer | Waiting:
        if partition.rules.min_insync > 1 and self._world.refuses_marker():
            return Answer(ErrorCode.NOT_ENOUGH_REPLICAS)  # a follower was out of the in-sync set for a moment
        return partition.write_marker(self._node, wanted.marker)

    def look(self) -> None:
        """Whether the wait for followers is over, one way or another."""
        request = self._executing
        if request is None or request.wanted:
            return
        for each in list(request.awaited):
            pair, partition, waiting = each
            outcome = partition.outcome(waiting)
            if outcome is not None:
                request.settle(pair, outcome.error)
                request.awaited.remove(each)
        if self._node in self._cluster.down:
            self._over(request, answers=False)
        elif not request.awaited and not self._cluster.is_frozen(self._node):
            self._over(request, answers=True)

    def _give_up(self, request: MarkerRequest) -> None:
        if self._executing is request:
            for pair, _, _ in request.awaited:
                request.settle(pair, ErrorCode.REQUEST_TIMED_OUT)
            request.awaited.clear()
            if self._cluster.is_frozen(self._node):
                self._cluster.when_thawed(self._node, self.look)
            else:
                self.look()

    def _over(self, request: MarkerRequest, *, answers: bool) -> None:
        for log in request.logs:
            log.await_no_more(self)
        if answers and request.never_answered:
            return  # and nothing that comes behind it on this connection is executed
        self._executing = None
        world, process = self._world, self._line.process
        if answers and not world.loses_message():
            self._last_answer = max(self._last_answer, world.now + world.delay_s(may_be_late=True))
            process.at(self._last_answer, process.loop.arrive, self._line.deliver, request)
        elif not answers or world.chance.random() < 0.5:
            process.after(world.delay_s(), self._line.broke)  # else nothing comes: the lane waits in vain
        self._execute_next()
