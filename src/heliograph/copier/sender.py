"""Appends to one target broker, for the partitions of this lane that it leads.

All on one line, so that they are executed in order; a request holds at most one batch for each partition.
Knows nothing of the source.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from heliograph.copier.partition_copy import Outgoing, PartitionCopy
from heliograph.copier.ports import LinePort, TargetPort
from heliograph.copier.recovery import stop_for_read
from heliograph.model.errors import BrokerRefused, HeliographError, ProtocolError, RequestFailed
from heliograph.wire.produce import ProducedPartition, ProduceEntry

Sent = dict[tuple[str, int], tuple[PartitionCopy, Outgoing]]


class Sender:
    """`on_settled(copy)` is called after each answer that a copy was given."""

    def __init__(
        self,
        target: TargetPort,
        node: int,
        *,
        request_bytes: int,
        in_flight: int,
        on_settled: Callable[[PartitionCopy], None],
    ) -> None:
        self._target = target
        self._node = node
        self._request_bytes = request_bytes
        self._in_flight_limit = in_flight
        self._on_settled = on_settled
        self._ready: dict[PartitionCopy, None] = {}  # an ordered set: first come, first served
        self._in_flight = 0
        self._throttled_ms = 0
        self._line: LinePort | None = None
        self._wake = asyncio.Event()

    def offer(self, copy: PartitionCopy) -> None:
        """This copy may have something to send."""
        self._ready[copy] = None
        self._wake.set()

    def discard(self, copy: PartitionCopy) -> None:
        self._ready.pop(copy, None)

    async def run(self) -> None:
        while True:
            self._wake.clear()
            if not self._ready or self._in_flight >= self._in_flight_limit:
                await self._wake.wait()
                continue
            if self._throttled_ms:
                throttled_ms, self._throttled_ms = self._throttled_ms, 0
                await asyncio.sleep(throttled_ms / 1000)  # a quota: the broker would not listen earlier
                continue
            if self._line is None or self._line.closed:
                try:
                    self._line = await self._target.line_to(self._node)
                except (RequestFailed, ProtocolError) as problem:
                    self._unreachable(problem)
                    continue
            self._send(self._line)

    def _send(self, line: LinePort) -> None:
        """As many requests as may be in flight, without a turn of the event loop in between."""
        while self._in_flight < self._in_flight_limit and (sent := self._gather()):
            entries = [ProduceEntry(where[0], where[1], out.batch) for where, (_, out) in sent.items()]
            self._in_flight += 1
            line.send(entries).add_done_callback(partial(self._answered, line, sent))

    def _gather(self) -> Sent:
        """One batch of each copy that may send, up to the request's size; who has more comes again."""
        sent: Sent = {}
        size_bytes = 0
        for copy in list(self._ready):
            outgoing = copy.peek()
            if outgoing is None:
                del self._ready[copy]
                continue
            if sent and size_bytes + len(outgoing.batch) > self._request_bytes:
                break
            where = copy.spec.partition.target
            if where in sent:
                continue  # a second copier of the partition waits for the next request
            sent[where] = (copy, copy.take())
            size_bytes += len(outgoing.batch)
            del self._ready[copy]
            if copy.peek() is not None:
                self._ready[copy] = None
        return sent

    def _answered(self, line: LinePort, sent: Sent, answer: asyncio.Future[memoryview]) -> None:
        self._in_flight -= 1
        self._wake.set()
        try:
            reply = line.decode(answer.result())
            self._throttled_ms = max(self._throttled_ms, reply.throttle_ms)
            answers = {(p.topic, p.partition): p for p in reply.partitions}
            missing: HeliographError = ProtocolError("the broker's answer leaves a partition out")
        except (RequestFailed, ProtocolError) as problem:
            answers, missing = {}, problem
        except asyncio.CancelledError:
            return  # the loop is closing
        for where, (copy, _) in sent.items():
            self._settle(copy, answers.get(where), missing)

    def _settle(
        self, copy: PartitionCopy, answer: ProducedPartition | None, missing: HeliographError
    ) -> None:
        if answer is None:
            copy.lost(missing)
        elif answer.error:
            copy.refused(answer.error, answer.message)
        else:
            copy.appended(answer.base_offset)
        if copy.peek() is not None:
            self.offer(copy)
        self._on_settled(copy)

    def _unreachable(self, problem: HeliographError) -> None:
        """Nothing was sent. Who leads these partitions must be asked again."""
        stop = stop_for_read(problem) if isinstance(problem, BrokerRefused) else None
        for copy in list(self._ready):
            del self._ready[copy]
            if stop is not None:
                copy.stop(stop)
            else:
                copy.interrupted(problem)
            self._on_settled(copy)
