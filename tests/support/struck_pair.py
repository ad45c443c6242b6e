"""Two runs of one link and the target's brokers beside them: what faults strike at, and who sees it.

Owns what an independent client is told while a broker of the target is struck. Must not know the faults, nor what is
copied.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from heliograph.lab.broker import Broker
from heliograph.lab.cluster import LabCluster

from .log_reader import Deadline, LogReader, Undecided
from .replicas import ReplicaView
from .two_runs import TwoRuns

COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
LIMIT_S = 120.0
WHOLE_LIMIT_S = 300.0  # a broker that was killed starts anew beside five JVMs, and reads its logs
ASK_S = 3.0  # an independent client that asks a broker that is gone is given up, and another one asks


class Where(NamedTuple):
    topic: str
    partition: int


class StruckPair:
    """`runs` copy to `targets`."""

    def __init__(self, runs: TwoRuns, targets: LabCluster) -> None:
        self.runs = runs
        self._targets = targets
        self._struck: Broker | None = None

    @property
    def _witnesses(self) -> str:
        """The target's brokers but the one that is struck: it may take a question and never answer."""
        brokers = [broker for broker in self._targets.brokers if broker is not self._struck]
        return ",".join(f"127.0.0.1:{broker.port}" for broker in brokers)

    def bounds(self, *wheres: Where) -> list[range]:
        """The target's logs, by who leads them now."""
        return bounds_of(self._witnesses, list(wheres))

    def leader(self, where: Where) -> Broker | None:
        """None while nobody leads it."""
        seen = self._view(where.topic).now().get(where.partition)
        return next((each for each in self._targets.brokers if seen and each.node_id == seen.leader), None)

    def _view(self, topic: str) -> ReplicaView:
        """For one look: a client that knows all brokers might ask the one that is struck."""
        return ReplicaView(self._witnesses, topic)

    @contextlib.contextmanager
    def without(self, broker: Broker) -> Iterator[None]:
        """Nobody is asked who is struck."""
        self._struck = broker
        try:
            yield
        finally:
            self._struck = None

    def wait_whole(self, topics: Iterable[str]) -> None:
        """Until one run copies, the other one stands by, and all replicas of these topics are in sync."""
        self.runs.wait_whole()
        for topic in topics:
            self._view(topic).wait_whole(WHOLE_LIMIT_S)


def bounds_of(bootstrap: str, wheres: list[Where], isolation: str = UNCOMMITTED) -> list[range]:
    """By a new client: what it knows of leaders is not out of date."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            with LogReader(bootstrap, Deadline.after(ASK_S), isolation) as reader:
                return [reader.bounds(*where) for where in wheres]
        except Undecided as reason:
            if time.monotonic() > deadline:
                raise AssertionError(f"{wheres}: {reason}") from reason


def settled_ends(runs: TwoRuns, bootstrap: str, wheres: list[Where]) -> list[int]:
    """The source's ends, once no transaction is open: a commit returns before its markers are in the log."""
    found: list[int] = []

    def settled() -> bool:
        found[:] = [log.stop for log in bounds_of(bootstrap, wheres)]
        return found == [log.stop for log in bounds_of(bootstrap, wheres, COMMITTED)]

    runs.wait(settled, "end of all transactions")
    return found
