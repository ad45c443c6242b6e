"""A connection to a target broker: appends in order, answers in order, and what becomes of them when it breaks.

The broker handles one request of a line at a time, the wait for its followers included. A request that has left may
execute after the line was closed, up to FLIGHT_MS after it was sent; closing drops the others, the last ones first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from heliograph.wire.batch import read_header
from heliograph.wire.error_codes import ErrorCode

from .model_broker import Answer, Led, ModelPartition, Waiting

if TYPE_CHECKING:
    from .lane import SimLane
    from .world import World

FLIGHT_MS = 1_000
BROKER_PATIENCE_MS = 600


class Request:
    __slots__ = ("batch", "dropped", "executed", "partition", "settle", "topic_id", "waiting")

    def __init__(self, batch: bytes, topic_id: str, settle: Callable[[Answer | None], None]) -> None:
        self.batch = batch
        self.topic_id = topic_id
        self.settle = settle
        self.dropped = False
        self.executed = False
        self.waiting: Waiting | None = None
        self.partition: ModelPartition | None = None


class Line:
    """`led`: the leader that the copier believes in. A broker that is sent an append is not told."""

    def __init__(self, world: World, lane: SimLane, led: Led, *, careful: bool) -> None:
        self.led = led
        self.node = led.leader
        self.careful = careful
        self.closed = False
        self.due: deque[Request] = deque()
        self._world = world
        self._lane = lane
        self._at_broker: deque[Request] = deque()
        self._executing: Request | None = None
        self._broken = False
        self._last_arrival_ms = self._last_answer_ms = 0

    def send(self, batch: bytes, topic_id: str, settle: Callable[[Answer | None], None]) -> None:
        """`settle` is given the answer, or None when none will come."""
        now_ms = self._world.now_ms
        request = Request(batch, topic_id, settle)
        self.due.append(request)
        arrives_ms = max(self._last_arrival_ms, now_ms + self._world.delay_ms(may_be_late=True))
        self._last_arrival_ms = arrives_ms
        self._world.after(arrives_ms - now_ms, self._arrive, request)
        self._lane.after(FLIGHT_MS, self._time_out, request)

    def close(self) -> None:
        """The lane's side ends it, or notices that it has ended."""
        if self.closed:
            return
        self.closed = True
        for request in self.due:
            if not request.executed and self._world.chance.random() < 0.5:
                self._drop_from(request)
                break
        while self.due:
            self.due.popleft().settle(None)

    def _drop_from(self, first: Request) -> None:
        for request in list(self.due)[self.due.index(first) :]:
            request.dropped = True

    def _time_out(self, request: Request) -> None:
        if request in self.due:
            self.close()

    # -- at the broker

    def _arrive(self, request: Request) -> None:
        if not request.dropped:
            self._at_broker.append(request)
            self._execute_next()

    def _execute_next(self) -> None:
        world = self._world
        while self._at_broker and self._executing is None:
            request = self._at_broker.popleft()
            if request.dropped:
                continue
            partition = world.target.partition
            if partition is not None and (self.node in partition.down or self.node not in partition.replicas):
                request.dropped = True
                self._lane.after(world.delay_ms(), self.close)
                return
            request.executed = True
            answer = world.target.produce(self.node, memoryview(bytearray(request.batch)), request.topic_id)
            world.target.executed(answer, self.led, read_header(memoryview(request.batch)).base_sequence)
            if isinstance(answer, Waiting):
                assert partition is not None
                request.waiting, request.partition = answer, partition
                self._executing = request
                world.target.waiters.append((self, request))
                world.after(BROKER_PATIENCE_MS, self._give_up, request)
                world.target.settle_waiters()
            else:
                self._answer(answer)

    def can_answer(self, request: Request) -> bool:
        """Whether the broker's wait for its followers is over, one way or another."""
        assert request.waiting is not None
        assert request.partition is not None
        down = self.node in request.partition.down
        return down or request.partition.outcome(request.waiting) is not None

    def answer(self, request: Request) -> None:
        assert request.waiting is not None
        assert request.partition is not None
        self._executing = None
        answer = request.partition.outcome(request.waiting)
        if self.node in request.partition.down or answer is None:
            self._lane.after(self._world.delay_ms(), self.close)
        else:
            self._answer(answer)
            self._execute_next()

    def _give_up(self, request: Request) -> None:
        if self._executing is request:
            self._executing = None
            self._world.target.waiters.remove((self, request))
            self._answer(Answer(ErrorCode.REQUEST_TIMED_OUT))
            self._execute_next()

    def _answer(self, answer: Answer) -> None:
        world = self._world
        if self._broken:
            return
        if world.loses_message():
            self._broken = True  # and with it all that would come behind
            self._lane.after(world.delay_ms(may_be_late=True), self.close)
            return
        at_ms = max(self._last_answer_ms, world.now_ms + world.delay_ms(may_be_late=True))
        self._last_answer_ms = at_ms
        self._lane.after(at_ms - world.now_ms, self._deliver, answer)

    def _deliver(self, answer: Answer) -> None:
        if not self.closed and self.due:
            self.due.popleft().settle(answer)
