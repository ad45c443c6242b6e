"""Target clusters for who reads their events: a client of each, its topic, and in words why that cannot be read.

No source cluster is asked, nor a running mirror.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.grants import Resource, Right, grant_line
from heliograph.cluster.own_topics import OwnTopics
from heliograph.cluster.properties import ClientProperties, parse_properties
from heliograph.cluster.reach import reach
from heliograph.cluster.record_log import LogRecord, RecordLog
from heliograph.model.errors import BrokerRefused, ClusterUnreachable, CommandRefused, HeliographError
from heliograph.model.ledger import EVENTS_TOPIC
from heliograph.model.link import Link
from heliograph.model.settings import Settings
from heliograph.wire.error_codes import ErrorCode


class EventLog(Protocol):
    """cluster.RecordLog is the real one."""

    async def start(self) -> int: ...

    async def end(self) -> int: ...

    async def first_since(self, time_ms: int) -> int | None: ...

    async def read(self, from_offset: int, *, wait_ms: int = 0) -> tuple[list[LogRecord], int]: ...

    async def look_again(self) -> None: ...


class EventCluster(Protocol):
    """A target cluster; `TargetCluster` is the real one. `grant`: the line that lets us read."""

    name: str
    grant: str

    @property
    def cluster_id(self) -> str:
        """Once it was connected."""

    @property
    def topic_identity(self) -> str:
        """Another one for each topic of that name; of the one that was found last."""

    async def connect(self) -> None:
        """Does nothing if it was connected before."""

    async def find(self) -> EventLog | None:
        """None: the topic is not there."""

    async def aclose(self) -> None: ...


class TargetCluster:
    """A client of its own: no source cluster is needed, nor one that mirrors."""

    def __init__(self, name: str, properties: ClientProperties) -> None:
        self.name = name
        self.grant = grant_line(properties, Right.READ, Resource.TOPIC, [EVENTS_TOPIC])
        self._client = ClusterClient(name, properties)

    @property
    def cluster_id(self) -> str:
        return self._client.metadata.cluster_id

    @property
    def topic_identity(self) -> str:
        return self._client.metadata.identity(EVENTS_TOPIC)

    async def connect(self) -> None:
        if not self.cluster_id:
            await reach(self._client)

    async def find(self) -> RecordLog | None:
        return await OwnTopics(self._client).find(EVENTS_TOPIC)

    async def aclose(self) -> None:
        await self._client.aclose()


def target_clusters(settings: Settings, links: Iterable[Link]) -> list[EventCluster]:
    """One for each name; two names of one cluster are found when both are connected."""
    first: dict[str, Link] = {}
    for link in links:
        first.setdefault(link.target, link)
    return [
        TargetCluster(name, parse_properties(settings.target_properties(link)))
        for name, link in first.items()
    ]


def is_denied(problem: HeliographError) -> bool:
    return isinstance(problem, BrokerRefused) and ErrorCode.denies(problem.code)


def refusal_of(cluster: EventCluster, problem: HeliographError) -> HeliographError:
    """As an operator is told."""
    if isinstance(problem, ClusterUnreachable):
        return problem
    words = f"events of cluster {cluster.name!r} cannot be read: {problem.message}"
    if is_denied(problem):
        return CommandRefused(words, hint=f"grant READ: {cluster.grant}")
    return ClusterUnreachable(words, hint=problem.hint or "see the broker's log")
