"""A broker's end of one append line: requests arrive in order and are executed one at a time, the wait for followers
included. A request whose connection was closed may still execute, up to the request timeout after it was sent: what a
broker that hangs for longer does with it is outside of what the lanes' clearance promises."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from heliograph.model.partition import TopicPartition
from heliograph.wire.batch import read_header
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.produce import ProducedPartition, ProduceReply

from .answers import Answer, Waiting
from .model_broker import ModelPartition

if TYPE_CHECKING:
    from .sim_line import Request, SimLine
    from .target_log import TargetLog

FLIGHT_S = 30.0
Awaited = tuple["TargetLog", ModelPartition, Waiting]


class Channel:
    """`patience_s`: how long the broker waits for the followers of one append."""

    def __init__(self, line: SimLine, patience_s: float) -> None:
        self._line = line
        self._node = line.node
        self._cluster = line.cluster
        self._world = line.cluster.world
        self._patience_s = patience_s
        self._arrived: deque[Request] = deque()
        self._answers: dict[TopicPartition, Answer] = {}
        self._append_times: dict[TopicPartition, int] = {}
        self._awaited: dict[TopicPartition, Awaited] = {}
        self._executing: Request | None = None
        self._closed = False  # at the broker's end: nothing more is executed
        self._broken = False  # no answer comes any more
        self._last_arrival = self._last_answer = 0.0

    def travel(self, request: Request) -> None:
        self._last_arrival = max(self._last_arrival, self._world.now + self._world.delay_s(may_be_late=True))
        self._world.last_arrival = max(self._world.last_arrival, self._last_arrival)
        self._world.at(self._last_arrival, self._arrive, request)

    def _arrive(self, request: Request) -> None:
        if not request.dropped and not self._closed:
            self._arrived.append(request)
            self._execute_next()

    def _execute_next(self) -> None:
        while self._arrived and self._executing is None:
            if self._cluster.is_frozen(self._node):
                self._cluster.when_thawed(self._node, self._execute_next)
                return
            request = self._arrived.popleft()
            if request.dropped:
                continue
            if self._node in self._cluster.down or self._world.now - request.sent_at > FLIGHT_S:
                self._arrived.clear()
                self._closed = True
                self._break()
                return
            self._execute(request)

    def _execute(self, request: Request) -> None:
        request.executed = True
        self._executing = request
        self._answers = {}
        self._append_times = {}
        self._awaited = {}
        for where, batch, topic_id, believed_epoch in request.batches:
            log = self._line.log_of(where)
            refusal = self._cluster.topics[where.topic].refusal
            answer = Answer(refusal) if refusal else self._append(log, batch, topic_id, believed_epoch)
            self._world.tell("  broker", self._node, "says of", where, answer)
            if isinstance(answer, Waiting):
                log.judge.sent(self._line.process, request.sent_at)
                assert log.partition is not None
                self._awaited[where] = (log, log.partition, answer)
                log.await_followers(self)
            else:
                self._answers[where] = answer
        if self._awaited:
            self._world.after(self._patience_s, self._give_up, request)
        self.look()

    def _append(self, log: TargetLog, batch: bytes, topic_id: str, believed_epoch: int) -> Answer | Waiting:
        if log.partition is not None and self._node not in log.partition.replicas:
            return Answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        view = memoryview(bytearray(batch))
        answer = log.produce(self._node, view, topic_id)
        log.executed(answer, believed_epoch, read_header(view))
        return answer

    def look(self) -> None:
        """Whether the wait for followers is over, one way or another."""
        request = self._executing
        if request is None:
            return
        if self._node in self._cluster.down:
            self._settle()
            self._break()
            return
        for where, (log, partition, waiting) in list(self._awaited.items()):
            outcome = partition.outcome(waiting)
            if outcome is not None:
                self._answers[where] = outcome
                self._append_times[where] = waiting.append_time if not outcome.error else -1
                del self._awaited[where]
                log.await_no_more(self)
        if not self._awaited and not self._cluster.is_frozen(self._node):
            self._settle()
            self._answer(request)
            self._execute_next()

    def _give_up(self, request: Request) -> None:
        if self._executing is request:
            if self._cluster.is_frozen(self._node):
                self._cluster.when_thawed(self._node, self._give_up, request)
                return
            for where in self._awaited:
                self._answers[where] = Answer(ErrorCode.REQUEST_TIMED_OUT)
            self._settle()
            self._answer(request)
            self._execute_next()

    def _settle(self) -> None:
        for log, _, _ in self._awaited.values():
            log.await_no_more(self)
        self._executing, self._awaited = None, {}

    def _break(self) -> None:
        self._broken = True
        self._line.process.after(self._world.delay_s(), self._line.broke)

    def _answer(self, request: Request) -> None:
        world = self._world
        if self._broken:
            return
        if world.loses_message():
            if world.chance.random() < 0.5:
                self._break()  # and with it all that would come behind
            self._broken = True  # else nothing comes: the lane waits until its patience is over
            return
        rows = [
            ProducedPartition(*where, answer.error, answer.offset, 0, "", self._append_times.get(where, -1))
            for where, answer in self._answers.items()
        ]
        self._last_answer = max(self._last_answer, world.now + world.delay_s(may_be_late=True))
        reply = ProduceReply(world.throttle_ms(), rows)
        process = self._line.process
        process.at(self._last_answer, process.loop.arrive, self._line.deliver, request, reply)
