"""A lane's end of one append line, behind the copier's LinePort, as cluster/connection.py behaves.

What is sent may stay in the process's own buffer for a while, also while the process is frozen. The last byte of a
request is held back until all others are with the kernel; then its permit is asked. If it says no, all ends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from heliograph.cluster.batch_target import ANSWER_SLACK_MS, FOLLOWERS_WAIT_MS
from heliograph.cluster.line_name import LineName
from heliograph.model.errors import Disconnected, HeliographError, RequestTimedOut
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.produce import ProduceEntry, ProduceReply

from .broker_channel import Channel
from .target_log import TargetLog

if TYPE_CHECKING:
    from .sim_target import SimTarget


@dataclass(slots=True, eq=False)
class Request:
    """`batches`: where, the batch, the topic's id, and the leader epoch that the lane believed in."""

    batches: list[tuple[TopicPartition, bytes, str, int]]
    permit: Callable[[], bool] | None
    answer: asyncio.Future[memoryview]
    sent_at: float
    dropped: bool = False
    executed: bool = False


class SimLine:
    def __init__(self, target: SimTarget, node: int, name: LineName) -> None:
        self.node = node
        self.cluster = target.client.cluster
        self.process = target.client.process
        self.closed = False
        self._target = target
        self._world = self.cluster.world
        timeout_ms = target.client.properties.request_timeout_ms
        self._answer_s = (timeout_ms + ANSWER_SLACK_MS) / 1000
        patience_ms = timeout_ms if name.patient else min(timeout_ms, FOLLOWERS_WAIT_MS)
        self._channel = Channel(self, patience_ms / 1000)
        self._leaving: deque[Request] = deque()
        self._due: deque[Request] = deque()
        self._replies: dict[int, ProduceReply] = {}
        self._sent = 0

    def log_of(self, where: TopicPartition) -> TargetLog:
        log = self.cluster.log(where)
        assert isinstance(log, TargetLog)
        return log

    # -- LinePort

    def send(
        self, entries: Sequence[ProduceEntry], permit: Callable[[], bool] | None = None
    ) -> asyncio.Future[memoryview]:
        answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        request = Request([self._batch(entry) for entry in entries], permit, answer, self._world.now)
        if self.closed:
            answer.set_exception(Disconnected("the line is closed"))
            return answer
        if self._world.traces:
            words = [f"{where}@{leader}" for where, _, _, leader in request.batches]
            self._world.tell(self.process.name, "sends to", self.node, *words)
        self._due.append(request)
        self._leaving.append(request)
        self.process.after(self._answer_s, self._time_out, request)
        if len(self._leaving) == 1:
            wait_s = self._world.clogged_s()
            if wait_s:
                self.process.after(wait_s, self._leave)
            else:
                self._leave()
        return answer

    def _batch(self, entry: ProduceEntry) -> tuple[TopicPartition, bytes, str, int]:
        where = TopicPartition(entry.topic, entry.partition)
        by_id = entry.topic_id and self._world.plan.produces_by_id
        leader = self._target.leader(where)
        epoch = leader.epoch if leader is not None else -1
        return where, bytes(entry.batch), str(UUID(bytes=entry.topic_id)) if by_id else "", epoch

    def close(self, reason: HeliographError) -> None:
        if self.closed:
            return
        self.closed = True
        self._leaving.clear()
        self.drop_some()
        while self._due:
            answer = self._due.popleft().answer
            if not answer.done():
                answer.set_exception(reason)
                answer.exception()  # an answer nobody waits for any more is no news

    def decode(self, body: memoryview) -> ProduceReply:
        return self._replies.pop(int.from_bytes(body, "big"))

    # -- what becomes of requests

    def drop_some(self) -> None:
        """The connection ends: of what is on its way, the last ones do not arrive, or all do."""
        drops = False
        for request in self._due:
            drops = drops or (not request.executed and self._world.chance.random() < 0.5)
            request.dropped = request.dropped or drops

    def _leave(self) -> None:
        while self._leaving and not self.closed:
            request = self._leaving[0]
            if request.permit is not None and not request.permit():
                self._world.tell(self.process.name, "may not send any more")
                self.close(Disconnected("a request was not permitted any more"))
                return
            request.sent_at = self._world.now
            self._channel.travel(self._leaving.popleft())

    def _time_out(self, request: Request) -> None:
        if not self.closed and not request.answer.done():
            self.close(RequestTimedOut(f"broker {self.node} did not answer in time"))

    def broke(self) -> None:
        self.close(Disconnected(f"broker {self.node} closed the connection"))

    def deliver(self, request: Request, reply: ProduceReply) -> None:
        if self.closed:
            return
        assert self._due.popleft() is request
        self._sent += 1
        for (where, batch, _, _), row in zip(request.batches, reply.partitions, strict=True):
            if row.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                self.log_of(where).judge.told_of_race(memoryview(batch))
        self._replies[self._sent] = reply
        if not request.answer.done():
            request.answer.set_result(memoryview(self._sent.to_bytes(8, "big")))
