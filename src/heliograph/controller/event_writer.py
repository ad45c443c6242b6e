"""What the run tells, written to `__heliograph_events` of its target clusters (docs/LEDGER.md): an outbox listener.

    Outbox ─▶ hear, on any thread ─▶ a queue for each target cluster ─▶ a task for each, on the event loop ─▶ its topic

What is about a link goes to that link's target cluster, what is about the run to all of them. The mirror never waits
for it: queues are bounded, what does not fit is counted, and a cluster that is away or refuses delays its own events
only. The topic is made when there is something to write. Must not know what events mean.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.grants import own_topics_grant_line
from heliograph.cluster.own_topics import OwnTopics
from heliograph.cluster.record_log import Pair
from heliograph.controller.event_queue import EventQueue, LeftOut, Waiting, count_of
from heliograph.controller.ledger import Log, Logs
from heliograph.model.errors import BrokerRefused, ProtocolError, RequestFailed
from heliograph.model.events import Event
from heliograph.model.ledger import EVENTS_TOPIC, VERSION, pack
from heliograph.model.link import Link
from heliograph.model.occurrence import Occurrence, encode_occurrence
from heliograph.model.outbox import Outbox
from heliograph.wire.error_codes import ErrorCode

# One append. Encoding takes the event loop, which has leases to keep, 2 ms at most. It is one batch of the log
# (record_log.BATCH_BYTES) in any case: one without an answer is sent again as it is, and is there once.
EVENTS_AT_ONCE = 200
BYTES_AT_ONCE = 128 << 10
PAUSE_S = 0.1  # after each append: what comes meanwhile is one more
AGAIN_S = 1.0  # after a failure; doubled for each that follows
AGAIN_LIMIT_S = 30.0
AGAIN_AT_END_S = 0.2
CLOSE_LIMIT_S = 3.0
# The topic was deleted; it is made again.
_GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})

log = logging.getLogger("heliograph")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsTarget:
    """A target cluster. `name`: in the config; `links`: those that lead there; `grant`: the line that grants what is
    needed."""

    name: str
    cluster_id: str
    links: frozenset[str]
    logs: Logs
    grant: str

    def concerns(self, occurrence: Occurrence) -> bool:
        return occurrence.link is None or occurrence.link in self.links


def events_targets(
    links: Iterable[Link],
    target_of: Callable[[str], ClusterClient],
    make_logs: Callable[[ClusterClient], Logs] = OwnTopics,
) -> list[EventsTarget]:
    """One for each cluster, whatever it is called in the config. `target_of` gives a link's client, which must have
    been connected."""
    by_cluster: dict[str, list[str]] = {}
    for link in links:
        by_cluster.setdefault(target_of(link.name).metadata.cluster_id, []).append(link.name)
    return [_events_target(names, target_of(names[0]), make_logs) for names in by_cluster.values()]


def _events_target(
    links: Sequence[str], client: ClusterClient, make_logs: Callable[[ClusterClient], Logs]
) -> EventsTarget:
    return EventsTarget(
        name=client.name,
        cluster_id=client.metadata.cluster_id,
        links=frozenset(links),
        logs=make_logs(client),
        grant=own_topics_grant_line(client.properties),
    )


class EventWriter:
    """`start`, then `Outbox.attach`; `aclose` before the clusters' clients are closed."""

    def __init__(
        self,
        targets: Iterable[EventsTarget],
        outbox: Outbox,
        *,
        host: str | None = None,
        pid: int | None = None,
    ) -> None:
        self._run = Run(host=host or socket.gethostname(), pid=pid or os.getpid())
        self._outbox = outbox
        # By cluster. Replaced, never changed: `hear` is called on any thread.
        self._writers = {target.cluster_id: _ClusterEvents(target, self._run, outbox) for target in targets}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        for writer in self._writers.values():
            self._begin(writer)

    def add(self, target: EventsTarget) -> None:
        """More links, to a cluster that is known, or to another one, which hears of what is told from now on."""
        known = self._writers.get(target.cluster_id)
        if known is not None:
            known.concern(target.links)
            return
        writer = _ClusterEvents(target, self._run, self._outbox)
        self._writers = {**self._writers, target.cluster_id: writer}
        self._begin(writer)

    def _begin(self, writer: _ClusterEvents) -> None:
        task = asyncio.get_running_loop().create_task(writer.run())
        task.add_done_callback(_report_end)
        self._tasks.append(task)

    def hear(self, occurrence: Occurrence) -> None:
        for writer in self._writers.values():
            writer.hear(occurrence)

    def flush(self, *, over: bool) -> None:
        """Nothing is put off: the tasks write as soon as they can."""

    async def aclose(self, limit_s: float = CLOSE_LIMIT_S) -> None:
        """Write what is left, in this time at most."""
        for writer in self._writers.values():
            writer.closing.set()
        try:
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=limit_s)
        finally:
            for task in self._tasks:
                task.cancel()  # does nothing to what is done
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for writer in self._writers.values():
                writer.end()


def _report_end(task: asyncio.Task[None]) -> None:
    """A bug in here must not end the mirror, but somebody must hear of it."""
    if not task.cancelled() and (problem := task.exception()) is not None:
        context = {"message": "events are no longer written", "exception": problem}
        task.get_loop().call_exception_handler(context)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Who writes."""

    host: str
    pid: int

    def encode(self, occurrence: Occurrence) -> Pair:
        """No key: the topic has one partition, and nothing in it is replaced."""
        return None, pack(VERSION, {**encode_occurrence(occurrence), "host": self.host, "pid": self.pid})


class _ClusterEvents:
    """The events of one cluster: the queue, and the task that empties it."""

    def __init__(self, target: EventsTarget, run: Run, outbox: Outbox) -> None:
        self.closing = asyncio.Event()
        self._target = target
        self._run = run
        self._outbox = outbox
        self._queue = EventQueue()
        self._batch: list[Waiting] = []  # taken and not written yet
        self._log: Log | None = None
        self._told = False
        self._given_up = False

    def concern(self, links: frozenset[str]) -> None:
        """What is about these links is written there, too."""
        self._target = replace(self._target, links=self._target.links | links)

    def hear(self, occurrence: Occurrence) -> None:
        if self._target.concerns(occurrence):
            self._queue.put(occurrence)

    async def run(self) -> None:
        while not self._given_up:
            records = self._next_records()
            if records:
                await self._write(records)
                self._batch = []
            elif self.closing.is_set():
                return
            if not self.closing.is_set():
                await self._pause(PAUSE_S)

    def end(self) -> None:
        lost = self._queue.close() + sum(map(count_of, self._batch))
        if lost:
            log.info("cluster %r: %d events were not written to %s", self._target.name, lost, EVENTS_TOPIC)

    def _next_records(self) -> list[Pair]:
        records: list[Pair] = []
        size = 0
        while len(records) < EVENTS_AT_ONCE and size < BYTES_AT_ONCE:
            event = self._queue.take()
            if event is None:
                break
            self._batch.append(event)
            records.append(self._run.encode(event.occurrence if isinstance(event, LeftOut) else event))
            size += len(records[-1][1] or b"")
        return records

    async def _write(self, records: list[Pair]) -> None:
        """Until it is done, or never can be."""
        wait_s = AGAIN_S
        while True:
            try:
                if self._log is None:
                    self._log = await self._target.logs.open(EVENTS_TOPIC)
                await self._log.append(records)
                return
            except BrokerRefused as refused:
                if not self._refused(refused):
                    return
            except (RequestFailed, ProtocolError):
                pass  # the cluster is away, which the mirror tells; the log is kept: it knows what is sent again
            await self._pause(wait_s)
            wait_s = min(2 * wait_s, AGAIN_LIMIT_S)

    def _refused(self, refused: BrokerRefused) -> bool:
        """Whether to try again."""
        if refused.code in _TOO_LARGE:
            self._leave_out()
            self._tell(refused.message, f"raise max.message.bytes of topic {EVENTS_TOPIC}")
            return False
        if refused.code in _GONE:
            self._log = None
        if ErrorCode.denies(refused.code):
            self._given_up = True
            self._queue.close()
            self._tell(refused.message, f"{self._target.grant}  # then start the mirror again")
            return False
        if not ErrorCode.passes(refused.code):
            self._tell(refused.message, refused.hint or "see the broker's log; it is tried again")
        return True

    def _leave_out(self) -> None:
        """Say so in the place of what the topic does not take, unless it does not take that either."""
        first = self._batch[0]
        if len(self._batch) > 1 or not isinstance(first, LeftOut):
            since = first.since if isinstance(first, LeftOut) else first.at
            self._queue.put_back(LeftOut(since, sum(map(count_of, self._batch))))

    def _tell(self, why: str, hint: str) -> None:
        """Once, however often it is tried."""
        if not self._told:
            self._told = True
            words = f"cluster {self._target.name!r}: events are not written to topic {EVENTS_TOPIC}: {why}"
            self._outbox.tell(Event.NO_LEDGER, words, hint=hint)

    async def _pause(self, wait_s: float) -> None:
        """Shorter when the run ends."""
        if self.closing.is_set():
            await asyncio.sleep(AGAIN_AT_END_S)
            return
        try:
            async with asyncio.timeout(wait_s):
                await self.closing.wait()
        except TimeoutError:
            return
