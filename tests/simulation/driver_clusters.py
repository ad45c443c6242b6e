"""The driver's own clients in a world: what it observes of a link's clusters, topics that it creates, and the group's
coordinator. What follows from what is observed is production's."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from heliograph.cluster.admin import TopicConfig
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.log_reads import LogSpan
from heliograph.cluster.metadata import ClusterMetadata
from heliograph.cluster.own_topics import OwnTopics
from heliograph.cluster.properties import ClientProperties
from heliograph.controller.clusters import Clusters
from heliograph.controller.event_writer import EventsTarget, EventWriter
from heliograph.controller.finding import Finding
from heliograph.controller.gap_filling import UNREAD, GapFilling
from heliograph.controller.snapshot import LinkSnapshot, PartitionSight, SourceTopic, TargetTopic
from heliograph.model.admission import LastBatch
from heliograph.model.errors import BrokerRefused, ClusterUnreachable, ProtocolError, RequestFailed
from heliograph.model.link import Link
from heliograph.model.outbox import Outbox
from heliograph.model.producer_id import producer_id
from heliograph.wire.error_codes import ErrorCode

from .alignment_judge import is_empty
from .group_side import GroupConnection
from .model_broker import ModelPartition
from .model_topic import ModelTopic
from .sim_client import SimClient
from .sim_ledger import SimLogs
from .sim_questions import span_of, state_of
from .source_log import SourceLog

if TYPE_CHECKING:
    from .sim_driver import SimDriver


class DriverClient(SimClient):
    """Also a way to the coordinator of a group, and to create topics."""

    process: SimDriver

    async def connect(self) -> None:
        return

    async def connection(self, node: int, _purpose: str) -> GroupConnection:
        return GroupConnection(self, self.process, node)

    def open_connection_to(self, _node: int, _purpose: str) -> None:
        return None


async def create_topic(client: DriverClient, topic: str, **shape: Any) -> bool:
    """In the place of cluster.admin's: whether nobody else had created it."""
    found = client.cluster.topics[topic]

    def create() -> bool:
        if found.exists:
            return False
        found.create()
        found.settings = dict(shape["configs"]) if client.cluster.world.plan.builds else {}
        return True

    nodes = client.cluster.answering
    made: bool = await client.ask(nodes[0] if nodes else 0, create)
    return made


class DriverClusters(Clusters):
    """The real ones, but for how clients are made, and how a link is observed: that takes dozens of requests."""

    def __init__(self, driver: SimDriver) -> None:
        self._driver, self._world = driver, driver.world
        super().__init__(driver.world.settings)

    def _make_client(self, cluster: str, properties: ClientProperties) -> ClusterClient:
        return cast(ClusterClient, DriverClient(self._driver, self._world.clusters[cluster], properties))

    async def preflight(
        self, _snapshots: Sequence[LinkSnapshot], _recorded: object = None
    ) -> tuple[Finding, ...]:
        return ()

    def own_topics(self, link: str) -> OwnTopics:
        return cast(OwnTopics, SimLogs(cast(DriverClient, self.target(link))))

    def event_writer(self, outbox: Outbox) -> EventWriter:
        """To nowhere: what is told is judged as it is told."""
        return EventWriter((), outbox)

    def events_targets(self, _links: Iterable[str]) -> list[EventsTarget]:
        return []

    async def _gap_filling(self, _seen: LinkSnapshot) -> GapFilling:
        return UNREAD  # markers are tried, as where nobody says anything

    async def topics(self, name: str) -> tuple[ClusterMetadata, ClusterMetadata]:
        link = self.link(name)
        return await self._all_of(self.source(name), link.source), await self._all_of(
            self.target(name), link.target
        )

    async def _all_of(self, client: ClusterClient, cluster: str) -> ClusterMetadata:
        """Topics that are not there, or not for this client's eyes, are left out."""
        seen = await self._named(client, cluster, list(self._world.clusters[cluster].topics))
        return replace(seen, topics={name: each for name, each in seen.topics.items() if each.leaders})

    async def _named(self, client: ClusterClient, cluster: str, topics: Collection[str]) -> ClusterMetadata:
        found = self._world.clusters[cluster]
        nodes = found.answering
        sim = cast(DriverClient, client)
        seen: ClusterMetadata = await sim.ask(nodes[0] if nodes else 0, lambda: found.metadata(list(topics)))
        return seen

    async def unknown_topics(self, name: str, topics: Collection[str]) -> frozenset[str]:
        seen = await self._named(self.source(name), self.link(name).source, topics)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return frozenset(each.name for each in seen.topics.values() if each.error == unknown)

    async def _observe(self, link: Link, only: Collection[str] | None = None) -> LinkSnapshot:
        nodes = self._world.clusters[link.target].answering
        client = cast(DriverClient, self.target(link.name))
        try:
            seen: LinkSnapshot = await client.ask(nodes[0] if nodes else 0, lambda: self._look(link, only))
            for each, topics in ((self.source(link.name), seen.sources), (client, seen.targets.values())):
                each.follow(topic.name for topic in topics)
                await each.refresh()
        except (RequestFailed, ProtocolError) as problem:
            raise ClusterUnreachable(problem.message) from problem
        return seen

    # -- at the brokers

    def _look(self, link: Link, only: Collection[str] | None) -> LinkSnapshot:
        source, target = self._world.clusters[link.source], self._world.clusters[link.target]
        topics = [
            topic for topic in source.topics.values() if topic.exists and (only is None or topic.name in only)
        ]
        if not topics:  # it comes back in a moment, and is not looked for again by a run that has begun
            raise BrokerRefused("the topic is being created again", code=3)
        sources, targets = [], {}
        for topic in topics:
            theirs = target.topics[topic.name]
            ours = producer_id(source.cluster_id, topic.name)
            pairs = zip(topic.logs, theirs.logs, strict=True)
            sights = {n: _sight(a, b.partition, ours) for n, (a, b) in enumerate(pairs)}
            # What the topic is created with is what the source's has: both take batches of one size.
            config = TopicConfig(own=topic.configs, effective=topic.configs)
            sources.append(
                SourceTopic(
                    name=topic.name,
                    replication_factor=1,
                    config=config,
                    partitions=sights,
                    topic_id=topic.topic_id,
                )
            )
            if theirs.exists:
                config = TopicConfig(own=theirs.configs, effective=theirs.configs)
                targets[topic.name] = TargetTopic(
                    name=topic.name, partitions=len(theirs.logs), config=config, topic_id=theirs.topic_id
                )
        return LinkSnapshot(
            link=link,
            source_cluster_id=source.cluster_id,
            target_cluster_id=target.cluster_id,
            target_brokers=len(target.nodes),
            sources=tuple(sources),
            targets=targets,
            flight_s=self.flight_s(link.name),
            source_topics={topic.name: len(topic.logs) for topic in topics},
            state_lasts_ms=self._world.plan.conditions.state_lasts_ms,
        )


def _sight(source: ModelTopic, target: ModelPartition | None, ours: int) -> PartitionSight:
    assert isinstance(source, SourceLog)
    assert source.partition is not None
    span = _read(source.partition)
    if span is None:
        return PartitionSight(source=None, source_end=None, unreadable="the source has no leader")
    source_end = min(source.readable_end, span.high_watermark)
    if target is None:
        return PartitionSight(source=span, source_end=source_end)
    found = _read(target)
    if found is None or found.high_watermark != found.end:
        words = "the target has no leader, or is being written"
        return PartitionSight(source=span, source_end=source_end, target=found, unreadable=words)
    last = target.leader_replica.holding(found.end - 1) if found.end else None
    view = target.producers(target.truth.leader).get(ours)
    return PartitionSight(
        source=span,
        source_end=source_end,
        target=found,
        last_batch=LastBatch(producer_id=last.header.producer_id, last_sequence=last.header.last_sequence)
        if last is not None
        else None,
        ends_in_filler=last is not None and is_empty(last),
        ends_in_gap=last is not None and last.header.is_control,
        producer=state_of(view) if view is not None else None,
    )


def _read(partition: ModelPartition) -> LogSpan | None:
    """By its leader, None while there is none."""
    node, epoch = partition.truth
    try:
        return None if node in partition.down else span_of(partition, node, epoch)
    except (RequestFailed, ProtocolError):
        return None
