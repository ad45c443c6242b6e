"""A lane's end of a connection to a target broker for WriteTxnMarkers, as cluster/connection.py behaves.

A request may stay in the process's own buffer for a while, also while the process is frozen. Its permit is asked when
it leaves; if it says no, all ends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from heliograph.cluster.batch_target import ANSWER_SLACK_MS
from heliograph.model.errors import Disconnected, HeliographError, RequestTimedOut

from .marker_channel import MarkerChannel, MarkerRequest, Pair, Wanted

if TYPE_CHECKING:
    from .sim_target import SimTarget


class MarkerLine:
    def __init__(self, target: SimTarget, node: int) -> None:
        self.node = node
        self.cluster = target.client.cluster
        self.process = target.client.process
        self.closed = False
        self._world = self.cluster.world
        timeout_ms = target.client.properties.request_timeout_ms
        self._answer_s = (timeout_ms + ANSWER_SLACK_MS) / 1000
        self._channel = MarkerChannel(self, timeout_ms / 1000)
        self._leaving: deque[MarkerRequest] = deque()
        self._due: deque[MarkerRequest] = deque()

    @property
    def busy(self) -> bool:
        """An answer is due, and the broker takes nothing more before it."""
        return bool(self._due) and not self.closed

    def send(self, wanted: Sequence[Wanted], permit: Callable[[], bool]) -> asyncio.Future[dict[Pair, int]]:
        request = MarkerRequest(deque(wanted), permit, asyncio.get_running_loop().create_future())
        self._world.tell(self.process.name, "sends markers to", self.node, [each.where for each in wanted])
        self._due.append(request)
        self._leaving.append(request)
        self.process.after(self._answer_s, self._time_out, request)
        if len(self._leaving) == 1:
            wait_s = self._world.clogged_s()
            if wait_s:
                self.process.after(wait_s, self._leave)
            else:
                self._leave()
        return request.answer

    def _leave(self) -> None:
        while self._leaving and not self.closed:
            request = self._leaving[0]
            if not request.permit():
                self._world.tell(self.process.name, "may not write markers any more")
                self.close(Disconnected("a request was not permitted any more"))
                return
            request.sent_at = self._world.now
            self._channel.travel(self._leaving.popleft())

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

    def drop_some(self) -> None:
        """The connection ends: of what is on its way, the last ones do not arrive, or all do."""
        drops = False
        for request in self._due:
            drops = drops or (not request.executed and self._world.chance.random() < 0.5)
            request.dropped = request.dropped or drops

    def broke(self) -> None:
        self.close(Disconnected(f"broker {self.node} closed the connection"))

    def _time_out(self, request: MarkerRequest) -> None:
        if not self.closed and not request.answer.done():
            self.close(RequestTimedOut(f"broker {self.node} did not answer in time"))

    def deliver(self, request: MarkerRequest) -> None:
        if self.closed:
            return
        assert self._due.popleft() is request
        if not request.answer.done():
            request.answer.set_result(request.errors)
