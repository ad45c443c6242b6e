"""The fetchers and senders of a lane: two fetchers for each source broker and isolation, a few senders for each target
broker.

Owns which there are, and by which line a partition's batches go. Must not know what a copy needs next.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from heliograph.cluster.line_name import LineName
from heliograph.cluster.properties import ClientProperties
from heliograph.copier.budget import ByteBudget
from heliograph.copier.fetch_delivery import FetchDelivery
from heliograph.copier.fetch_limits import FetchLimits
from heliograph.copier.fetcher import Fetcher
from heliograph.copier.lease import Lease
from heliograph.copier.pace import Pace
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.ports import SourcePort, TargetPort
from heliograph.copier.sender import Sender
from heliograph.copier.source_fetches import SourceFetches
from heliograph.model.errors import Disconnected
from heliograph.model.partition import TopicPartition
from heliograph.model.policy import Isolation

LINES_PER_BROKER = 2  # a broker handles one append of a line at a time, and waits for its followers meanwhile
SLOW_LINES_PER_BROKER = 16  # as good as one each, and bounded


@dataclass(slots=True)
class LaneLink:
    """A link on a lane: ports to its clusters, the consumer's and the producer's properties, and the link's lease.

    `flight_s`: how long an append without an answer may still be on its way (cluster/flight.py).
    """

    source: SourcePort
    target: TargetPort
    consumer: ClientProperties
    producer: ClientProperties
    lease: Lease = field(default_factory=Lease)
    flight_s: float = field(kw_only=True)


def line_of(where: TopicPartition, *, careful: bool, slow: bool, followed: bool = True) -> LineName:
    """`slow`: its followers are, and others must not wait behind it. Where there are none, nobody is waited for, and
    one line is quicker than two: its requests hold more."""
    if not followed:
        return LineName(0, careful)
    lines = SLOW_LINES_PER_BROKER if slow else LINES_PER_BROKER
    return LineName((crc32(where.topic.encode()) + where.partition) % lines, careful, slow)


class Workers:
    """`spawn` runs a worker for ever. `on_change(copy)`: after it was given something; `on_slow(copy)`: see Sender.
    `wall_ms`: the time of day."""

    def __init__(
        self,
        budget: ByteBudget,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        *,
        on_change: Callable[[PartitionCopy], None],
        on_slow: Callable[[PartitionCopy], None],
        wall_ms: Callable[[], int],
    ) -> None:
        self._wall_ms = wall_ms
        self._budget = budget
        self._spawn = spawn
        self._on_change = on_change
        self._on_slow = on_slow
        self._fetches: dict[tuple[int, int, Isolation], SourceFetches] = {}
        self._senders: dict[tuple[int, int, LineName], Sender] = {}
        self._limits: dict[int, FetchLimits] = {}
        self._pace = Pace()

    def fetches(self, link: LaneLink, node: int, isolation: Isolation) -> SourceFetches:
        """A request has one isolation for all its partitions."""
        key = (id(link.source), node, isolation)
        fetches = self._fetches.get(key)
        if fetches is None:
            delivery = FetchDelivery(link.lease, self._on_change, self._wall_ms)
            limits = self._limits_of(link)
            fetches = self._fetches[key] = SourceFetches(
                lambda line, on_records: Fetcher(
                    link.source,
                    node,
                    isolation,
                    limits,
                    delivery,
                    line=line,
                    pace=self._pace,
                    on_records=on_records,
                )
            )
            for fetcher in (fetches.busy, fetches.calm):
                self._spawn(fetcher.run())
                self._spawn(fetcher.run_aside())
            self._spawn(fetches.run())
        return fetches

    def _limits_of(self, link: LaneLink) -> FetchLimits:
        consumer = link.consumer
        return self._limits.setdefault(
            id(link.source),
            FetchLimits(
                self._budget,
                lambda: sum(each.under_way for each in self._fetches.values()),
                consumer.fetch_max_bytes,
                consumer.max_partition_fetch_bytes,
                consumer.fetch_max_wait_ms,
            ),
        )

    def sender(self, link: LaneLink, node: int, name: LineName) -> Sender:
        key = (id(link.target), node, name)
        sender = self._senders.get(key)
        if sender is None:
            sender = self._senders[key] = Sender(
                link.target,
                node,
                name,
                link.lease,
                request_bytes=link.producer.max_request_size,
                in_flight=link.producer.max_in_flight_requests_per_connection,
                pace=self._pace,
                on_settled=self._on_change,
                on_slow=self._on_slow,
            )
            self._spawn(sender.run())
        return sender

    def forget(self, copy: PartitionCopy) -> None:
        """Nobody fetches for it or sends for it any more."""
        for fetches in self._fetches.values():
            fetches.discard(copy)
        self.forget_appends(copy)

    def forget_appends(self, copy: PartitionCopy) -> None:
        for sender in self._senders.values():
            sender.discard(copy)

    def close_lines(self, link: LaneLink, node: int) -> None:
        """Nobody waits for this broker's answers any more."""
        for (target, number, _), sender in self._senders.items():
            if target == id(link.target) and number == node:
                sender.close(Disconnected(f"broker {node} does not answer, and leads the partition no more"))

    def lapse(self) -> None:
        for sender in self._senders.values():
            sender.lapse()
