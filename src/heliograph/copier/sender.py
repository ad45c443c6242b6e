"""Appends on one line to one target broker, for some of the partitions of this lane that it leads.

One line, so that they are executed in order; a request holds at most one batch for each partition. Every append is
under the lease, which is looked at when a request is made and again before its last byte leaves: perishable batches go
on careful lines, under the exclusive lease, all others while the driver is heard of. Knows nothing of the source.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from functools import partial

from heliograph.cluster.line_name import LineName
from heliograph.copier.alignment import Filler
from heliograph.copier.batches import Append, SourceBatch
from heliograph.copier.lease import Lease
from heliograph.copier.pace import Pace
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.ports import LinePort, TargetPort
from heliograph.copier.recovery import stop_for_read
from heliograph.model.errors import (
    BrokerRefused,
    Disconnected,
    HeliographError,
    LineLeft,
    ProtocolError,
    RequestFailed,
)
from heliograph.model.events import Event, Trouble
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.produce import ProducedPartition, ProduceEntry

TOLD_AFTER_S = 3.0  # it takes a heartbeat, a second, to get a lease
NO_LEASE = Trouble(Event.LEASE_WAIT, "the driver is silent, or not elected: appends wait for it")

Sent = dict[tuple[str, int], tuple[PartitionCopy, Append]]


class Sender:
    """`on_settled(copy)` is called after each answer that a copy was given; `on_slow(copy)` before that, when its
    followers were slower than the line waits for them."""

    def __init__(
        self,
        target: TargetPort,
        node: int,
        name: LineName,
        lease: Lease,
        *,
        request_bytes: int,
        in_flight: int,
        pace: Pace,
        on_settled: Callable[[PartitionCopy], None],
        on_slow: Callable[[PartitionCopy], None],
    ) -> None:
        self._target = target
        self._pace = pace
        self._node = node
        self._name = name
        self._lease = lease
        # Only perishable batches are on a careful line, and no others.
        self._permit: Callable[[], bool] = (
            (lambda: lease.exclusive) if name.careful else (lambda: lease.alive)
        )
        self._on_slow = on_slow
        self._request_bytes = request_bytes
        self._in_flight_limit = in_flight
        self._on_settled = on_settled
        self._ready: dict[PartitionCopy, None] = {}  # an ordered set: first come, first served
        self._in_flight = 0
        self._connecting = False
        self._throttled = False  # the last answer was, by a quota
        self._throttled_until = -math.inf
        self._line: LinePort | None = None
        self._wake = asyncio.Event()

    def offer(self, copy: PartitionCopy) -> None:
        """This copy may have something to send."""
        self._ready[copy] = None
        copy.offered_to(self)
        copy.throttled(self._throttled_until)
        self._wake.set()

    def discard(self, copy: PartitionCopy) -> None:
        self._ready.pop(copy, None)

    def lapse(self) -> None:
        """If the lease is over: what is not with the broker yet must not arrive there."""
        if not self._permit():
            self.close(Disconnected("the lease ran out: no word from the driver"))

    def close(self, reason: HeliographError) -> None:
        """End the line; what has no answer is lost."""
        if self._line is not None and not self._line.closed:
            self._line.close(reason)

    async def run(self) -> None:
        while True:
            self._wake.clear()
            if not self._ready or self.awaits_broker:
                await self._wake.wait()
                continue
            wait_s = self._throttled_until - asyncio.get_running_loop().time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)  # a quota: the broker would not listen earlier
                continue
            if self._line is None or self._line.closed:
                self._connecting = True
                try:
                    self._line = await self._target.line_to(self._node, self._name)
                except (RequestFailed, ProtocolError) as problem:
                    self._unreachable(problem)
                    continue
                finally:
                    self._connecting = False
            self._send(self._line)

    @property
    def awaits_broker(self) -> bool:
        """Nothing can be sent before the broker answers, or is connected."""
        return self._connecting or self._in_flight >= self._most_in_flight

    @property
    def _most_in_flight(self) -> int:
        """What is sent to a broker that holds us to a quota waits there unread: one request at a time, then."""
        return 1 if self._throttled else self._in_flight_limit

    def _throttle(self, throttle_ms: int, sent: Sent) -> None:
        self._throttled = throttle_ms > 0
        if self._throttled:
            self._throttled_until = asyncio.get_running_loop().time() + throttle_ms / 1000
            for copy in (*(copy for copy, _ in sent.values()), *self._ready):
                copy.throttled(self._throttled_until)

    def _send(self, line: LinePort) -> None:
        """As many requests as may be in flight, without a turn of the event loop in between."""
        while not line.closed and self._in_flight < self._most_in_flight and (sent := self._gather()):
            entries = [
                ProduceEntry(where[0], where[1], out.batch, copy.topic_ids.target)
                for where, (copy, out) in sent.items()
            ]
            self._in_flight += 1
            sent_at = asyncio.get_running_loop().time()
            line.send(entries, self._permit).add_done_callback(partial(self._answered, line, sent, sent_at))

    def _gather(self) -> Sent:
        """One batch of each copy that may send, up to the request's size; who has more comes again."""
        sent: Sent = {}
        size_bytes = 0
        for copy in list(self._ready):
            waiting = self._may_send(copy)
            if waiting is None:
                del self._ready[copy]
                continue
            if sent and size_bytes + waiting.size_bytes > self._request_bytes:
                break
            room_bytes = self._request_bytes - size_bytes
            where = copy.spec.partition.target
            if where in sent:
                continue  # a second copier of the partition waits for the next request
            sent[where] = (copy, append := copy.take(room_bytes))
            size_bytes += len(append.batch)
            del self._ready[copy]
            if self._may_send(copy) is not None:
                self._ready[copy] = None
        return sent

    def _may_send(self, copy: PartitionCopy) -> SourceBatch | Filler | None:
        waiting = copy.peek()
        if waiting is None or waiting.perishable is not self._name.careful:
            return None
        if self._permit():
            return waiting
        self._miss_lease(copy)
        return None

    def _miss_lease(self, copy: PartitionCopy) -> None:
        """It takes a heartbeat to get a lease. Whoever waits longer says so, also when nothing happens meanwhile that
        it would be looked at for: who waits and says nothing is taken for a lane that hangs."""
        due_s = TOLD_AFTER_S - self._lease.missed_s(exclusive=self._name.careful)
        if due_s > 0:
            asyncio.get_running_loop().call_later(due_s, self._tell_of_lease, copy)
        else:
            copy.troubled(NO_LEASE)

    def _tell_of_lease(self, copy: PartitionCopy) -> None:
        if copy.peek() is not None and not self._permit():
            copy.troubled(NO_LEASE)

    def _answered(
        self, line: LinePort, sent: Sent, sent_at: float, answer: asyncio.Future[memoryview]
    ) -> None:
        self._pace.append_s = asyncio.get_running_loop().time() - sent_at
        self._in_flight -= 1
        self._wake.set()
        try:
            reply = line.decode(answer.result())
            self._throttle(reply.throttle_ms, sent)
            answers = {(p.topic, p.partition): p for p in reply.partitions}
            missing: HeliographError = ProtocolError("the broker's answer leaves a partition out")
        except (RequestFailed, ProtocolError) as problem:
            answers, missing = {}, problem
        except asyncio.CancelledError:
            return  # the loop is closing
        for where, (copy, _) in sent.items():
            self._settle(copy, answers.get(where), missing)
        if any(answer.error == ErrorCode.REQUEST_TIMED_OUT for answer in answers.values()):
            self._leave()

    def _leave(self) -> None:
        """What is behind on this line may hold batches of the same slow partition, each of which would be waited for.
        Not so on a careful line: what is lost there delays old records for far longer."""
        if not (self._name.patient or self._name.careful):
            self.close(LineLeft("left a line that was held up by the slow followers of a partition"))

    def _settle(
        self, copy: PartitionCopy, answer: ProducedPartition | None, missing: HeliographError
    ) -> None:
        if answer is None:
            copy.lost(missing, asyncio.get_running_loop().time())
        elif answer.error:
            if answer.error == ErrorCode.REQUEST_TIMED_OUT:
                self._on_slow(copy)
            copy.refused(answer.error, answer.message)
        else:
            copy.appended(answer.base_offset, answer.append_time)
        self._on_settled(copy)

    def _unreachable(self, problem: HeliographError) -> None:
        """Nothing was sent. Who leads these partitions must be asked again."""
        stop = stop_for_read(problem) if isinstance(problem, BrokerRefused) else None
        for copy in list(self._ready):
            del self._ready[copy]
            if stop is not None:
                copy.stop(stop)
            else:
                copy.interrupted(Trouble(Event.BROKER_AWAY, problem.message), stale=True)
            self._on_settled(copy)
