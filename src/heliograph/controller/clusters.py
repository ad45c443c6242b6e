"""The driver's own clients of the clusters in the config: for observing and admin calls, never for data."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from heliograph.cluster.admin import describe_topic_configs
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.config_reads import ConfigReads, Configs
from heliograph.cluster.flight import flight_s
from heliograph.cluster.metadata import ClusterMetadata
from heliograph.cluster.own_topics import OwnTopics
from heliograph.cluster.properties import ClientProperties, parse_properties
from heliograph.cluster.reach import reach
from heliograph.cluster.security.attempts import Attempts
from heliograph.cluster.security.settings import Security
from heliograph.cluster.topic_defaults import read_topic_defaults
from heliograph.controller.event_writer import EventsTarget, EventWriter, events_targets
from heliograph.controller.finding import Finding
from heliograph.controller.gap_filling import GapFilling, GapWay, read_gap_filling
from heliograph.controller.limited_properties import limited_properties
from heliograph.controller.link_conflicts import LinkTopics
from heliograph.controller.observe import observe
from heliograph.controller.preflight import preflight_links
from heliograph.controller.recorded import Recorded
from heliograph.controller.snapshot import LinkAway, LinkSnapshot
from heliograph.copier.lane_clusters import LinkClusters
from heliograph.model.errors import (
    ClusterUnreachable,
    ConfigError,
    ProtocolError,
    RequestFailed,
    SecurityFailed,
)
from heliograph.model.link import Link
from heliograph.model.outbox import Outbox
from heliograph.model.settings import Settings
from heliograph.wire.error_codes import ErrorCode


class Clusters:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._config_reads: dict[str, tuple[ConfigReads, ConfigReads]] = {}  # by link: source, target
        self._clients: dict[tuple[str, str], ClusterClient] = {}
        self._attempts: defaultdict[str, Attempts] = defaultdict(
            Attempts
        )  # links of one cluster share its secrets
        for link in settings.links:
            self._make_clients(settings, link)
        self._connected: set[tuple[str, str]] = set()
        self._former: dict[str, Link] = {}  # links that were removed: of some of them something is still told
        self._retired: list[ClusterClient] = []  # their targets: what is shared by several links may use one
        self._apart: frozenset[str] = frozenset()  # links that take no part yet: a cluster of theirs is away
        # TLS or SASL failed on a connection of the driver's own; while it connects it raises that instead
        self.on_refused: Callable[[str, SecurityFailed], None] = lambda _cluster, _problem: None

    def _make_clients(self, settings: Settings, link: Link) -> None:
        source, target = settings.source_properties(link), settings.target_properties(link)
        self._clients[link.name, "source"] = self._make_client(link.source, parse_properties(source))
        self._clients[link.name, "target"] = self._make_client(link.target, parse_properties(target))

    def _make_client(self, cluster: str, properties: ClientProperties) -> ClusterClient:
        return ClusterClient(cluster, properties, self._attempts[cluster])

    @property
    def settings(self) -> Settings:
        return self._settings

    def securities(self, settings: Settings) -> list[tuple[ClusterClient, Security]]:
        """What these settings say of each client; `ConfigError` names the link."""
        wanted = []
        for link in settings.links:
            source, target = settings.source_properties(link), settings.target_properties(link)
            wanted.append((self.source(link.name), _security(link, link.source, source)))
            wanted.append((self.target(link.name), _security(link, link.target, target)))
        return wanted

    def use(self, settings: Settings) -> None:
        """Settings that differ in what secures connections, and in nothing else."""
        for client, security in self.securities(settings):
            client.use(security)
        self._settings = settings

    @property
    def links(self) -> tuple[Link, ...]:
        """Those that take part."""
        return tuple(link for link in self._settings.links if link.name not in self._apart)

    def check(self, settings: Settings, links: Collection[str]) -> None:
        """`ConfigError` if clients for these links cannot be made."""
        for link in settings.links:
            if link.name in links:
                parse_properties(settings.source_properties(link))
                parse_properties(settings.target_properties(link))

    async def follow(self, settings: Settings) -> None:
        """Settings with other links. One that is new takes no part before it joins."""
        names = {link.name for link in settings.links}
        gone = [link for link in self._settings.links if link.name not in names]
        for link in gone:
            self._former[link.name] = link
            self._connected -= {(link.name, "source"), (link.name, "target")}
            self._retired.append(self._clients.pop((link.name, "target")))
            await self._clients.pop((link.name, "source")).aclose()
        new = [link for link in settings.links if (link.name, "source") not in self._clients]
        for link in new:
            self._make_clients(settings, link)
        self._apart = (self._apart & names) | {link.name for link in new}
        self._settings = settings

    async def connect(self) -> None:
        """Reach every cluster, or say which cannot be, in bounded time."""
        await self._reach(self._clients.values())
        for key, client in self._clients.items():
            self._connected.add(key)
            client.on_refused = partial(self._refused, client.name)

    async def connect_some(self) -> dict[str, dict[str, ClusterUnreachable]]:
        """Those links of which a cluster cannot be reached: they take no part before they `join`. Why, by cluster.
        `ClusterUnreachable` if there is no other link."""
        names = [link.name for link in self._settings.links]
        found = await asyncio.gather(*(self.reach(name) for name in names), return_exceptions=True)
        away: dict[str, dict[str, ClusterUnreachable]] = {}
        for name, problems in zip(names, found, strict=True):
            if isinstance(problems, BaseException):
                raise problems
            if problems:
                away[name] = problems
        if len(away) == len(names):
            raise _all_of([each for problems in away.values() for each in problems.values()])
        self.set_apart(away)
        return away

    async def reach(self, link: str) -> dict[str, ClusterUnreachable]:
        """Connect to the clusters of this link; those that cannot be reached, and why."""
        keys = [(link, side) for side in ("source", "target") if (link, side) not in self._connected]
        found = await asyncio.gather(*(reach(self._clients[k]) for k in keys), return_exceptions=True)
        away: dict[str, ClusterUnreachable] = {}
        for key, problem in zip(keys, found, strict=True):
            client = self._clients[key]
            if problem is None:
                self._connected.add(key)
                client.on_refused = partial(self._refused, client.name)
            elif isinstance(problem, ClusterUnreachable):
                away[client.name] = problem
            else:
                raise problem
        return away

    def set_apart(self, links: Iterable[str]) -> None:
        """These take no part until they `join`."""
        self._apart |= set(links)

    def join(self, link: str) -> None:
        """It takes part from now on."""
        self._apart -= {link}

    def cluster_ids(self, link: str) -> tuple[str, str]:
        """Of its source and its target, which have been reached."""
        return self.source(link).metadata.cluster_id, self.target(link).metadata.cluster_id

    async def link_topics(self, name: str, link: Link | None = None) -> LinkTopics:
        """What the link copies, as metadata of its source shows it now. `link`: if it is to be another one."""
        link, (source_id, target_id) = link or self.link(name), self.cluster_ids(name)
        seen, _ = await self.topics(name)
        topics = (t.name for t in seen.topics.values() if link.matches(t.name, internal=t.internal))
        return LinkTopics(
            link=link, source_cluster_id=source_id, target_cluster_id=target_id, topics=tuple(topics)
        )

    def _refused(self, cluster: str, problem: SecurityFailed) -> None:
        self.on_refused(cluster, problem)

    async def _reach(self, clients: Iterable[ClusterClient]) -> None:
        problems = await asyncio.gather(*(reach(c) for c in clients), return_exceptions=True)
        failed = [p for p in problems if isinstance(p, BaseException)]
        for problem in failed:
            if not isinstance(problem, ClusterUnreachable):
                raise problem
        unreachable = [p for p in failed if isinstance(p, ClusterUnreachable)]
        if unreachable:
            raise _all_of(unreachable)

    def link(self, name: str) -> Link:
        found = next((link for link in self._settings.links if link.name == name), None)
        return found or self._former[name]

    def target(self, link: str) -> ClusterClient:
        return self._clients[link, "target"]

    def flight_s(self, link: str) -> float:
        """How long an append to the link's target may be on its way."""
        return flight_s(self.target(link).properties)

    def source(self, link: str) -> ClusterClient:
        return self._clients[link, "source"]

    async def observe(self) -> Sequence[LinkSnapshot]:
        return await asyncio.gather(*(self._observe_all(link) for link in self.links))

    async def observe_some(self) -> tuple[Sequence[LinkSnapshot], dict[str, ClusterUnreachable]]:
        """The links that take part, and those of them that cannot be observed now. `ClusterUnreachable` if none can."""
        links = self.links
        found = await asyncio.gather(*(self._observe_all(link) for link in links), return_exceptions=True)
        seen = [each for each in found if isinstance(each, LinkSnapshot)]
        away: dict[str, ClusterUnreachable] = {}
        for link, problem in zip(links, found, strict=True):
            if isinstance(problem, ClusterUnreachable):
                away[link.name] = problem
            elif isinstance(problem, BaseException):
                raise problem
        if away and not seen:
            raise _all_of(list(away.values()))
        return seen, away

    async def survey(self) -> Sequence[LinkSnapshot | LinkAway]:
        """In place of `connect` and `observe`: a cluster that is away leaves the other links to be seen."""
        return await asyncio.gather(*(self._survey(link) for link in self._settings.links))

    async def _survey(self, link: Link) -> LinkSnapshot | LinkAway:
        source, target = self.source(link.name), self.target(link.name)
        try:
            await self._reach((source, target))
            return await self._observe(link)
        except ClusterUnreachable as problem:
            return LinkAway(
                link=link,
                servers=self._settings.servers(link),
                source_cluster_id=source.metadata.cluster_id or None,
                target_cluster_id=target.metadata.cluster_id or None,
                problem=problem,
            )

    async def topics(self, name: str) -> tuple[ClusterMetadata, ClusterMetadata]:
        """All topics of the link's source and of its target, as metadata shows them now: a request each."""
        return await asyncio.gather(
            self.source(name).read_metadata(None), self.target(name).read_metadata(None)
        )

    async def unknown_topics(self, name: str, topics: Collection[str]) -> frozenset[str]:
        """Those of which the link's source says that there is no such topic. One that this client may not see any more
        is left out of the answer to who asks for all, too, and only who asks for it by name is told why."""
        seen = await self.source(name).read_metadata(topics)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return frozenset(
            each for each in topics if each not in seen.topics or seen.topics[each].error == unknown
        )

    async def configs(self, name: str, topics: Collection[str]) -> tuple[Configs, Configs]:
        """Of these source topics of the link, by their names, and of its target topics, by theirs."""
        here, there = self._both(name, topics)
        return await asyncio.gather(
            describe_topic_configs(self.source(name), here), describe_topic_configs(self.target(name), there)
        )

    async def configs_again(self, name: str, topics: Collection[str]) -> tuple[Configs, Configs]:
        """The same of topics that are read every few seconds: nothing is decoded that came before."""
        here, there = self._both(name, topics)
        reads = self._config_reads.setdefault(
            name, (ConfigReads(self.source(name)), ConfigReads(self.target(name)))
        )
        return await asyncio.gather(reads[0].read(here), reads[1].read(there))

    def _both(self, name: str, topics: Collection[str]) -> tuple[Collection[str], Collection[str]]:
        return topics, [self.link(name).target_topic(topic) for topic in topics]

    async def target_defaults(self, name: str) -> Mapping[str, str]:
        """What a topic gets on the link's target that says nothing, as far as brokers tell."""
        return await read_topic_defaults(self.target(name))

    async def observe_link(self, name: str, only: Collection[str] | None = None) -> LinkSnapshot:
        """`only`: of these source topics."""
        return await self._observe_all(self.link(name), only)

    async def preflight(
        self, snapshots: Sequence[LinkSnapshot], recorded: Mapping[str, Recorded] | None = None
    ) -> tuple[Finding, ...]:
        """What is missing for the links to work; reads only. `recorded`: by link, what its ledger says."""
        limited = limited_properties(self._settings, [snapshot.link for snapshot in snapshots])
        return (*await preflight_links(self.source, self.target, snapshots, recorded), *limited)

    def target_topic_id(self, link: str, topic: str) -> str:
        """By current metadata; empty where it is not known."""
        return self.target(link).metadata.topic_id(topic)

    def id_of_source(self, link: str, topic: str) -> str:
        """By current metadata; empty where it is not known, or topics have none."""
        return self.source(link).metadata.topic_id(topic)

    def target_replicas(self, link: str, topic: str) -> int:
        """How many its partitions have, by current metadata; 0 where that is not known."""
        found = self.target(link).metadata.topics.get(topic)
        return found.replication_factor if found is not None else 0

    async def refresh_target(self, link: str) -> None:
        """Read its metadata again: topics may have been made again."""
        await self.target(link).refresh()

    def own_topics(self, link: str) -> OwnTopics:
        """The topics of Heliograph's own on the link's target."""
        return OwnTopics(self.target(link))

    def event_writer(self, outbox: Outbox) -> EventWriter:
        """What writes all that is told to the targets; the clusters must be connected."""
        return EventWriter(self.events_targets(link.name for link in self.links), outbox)

    def events_targets(self, links: Iterable[str]) -> list[EventsTarget]:
        """Where events about these links are written; their clusters must be connected."""
        return events_targets(map(self.link, links), self.target)

    async def _observe_all(self, link: Link, only: Collection[str] | None = None) -> LinkSnapshot:
        """Also how gaps will be filled, which who only looks need not know."""
        seen = await self._observe(link, only)
        return replace(seen, gaps=await self._gap_filling(seen))

    async def _gap_filling(self, seen: LinkSnapshot) -> GapFilling:
        try:
            target = self.target(seen.link.name)
            return await read_gap_filling(target, seen.source_cluster_id, seen.target_names)
        except (RequestFailed, ProtocolError) as problem:
            return GapFilling(way=GapWay.UNKNOWN, problem=problem.message)

    async def _observe(self, link: Link, only: Collection[str] | None = None) -> LinkSnapshot:
        try:
            return await observe(link, self.source(link.name), self.target(link.name), only)
        except (RequestFailed, ProtocolError) as problem:
            raise ClusterUnreachable(
                f"a cluster answered but could not be read: {problem.message}",
                hint=problem.hint or "see the broker's log",
            ) from problem

    def link_clusters(self) -> list[LinkClusters]:
        """What a lane needs to reach the clusters of each link."""
        return [
            LinkClusters(
                link=link.name,
                source=link.source,
                target=link.target,
                source_properties=self._settings.source_properties(link),
                target_properties=self._settings.target_properties(link),
            )
            for link in self.links
        ]

    async def aclose(self) -> None:
        await asyncio.gather(*(client.aclose() for client in (*self._clients.values(), *self._retired)))


def _security(link: Link, cluster: str, properties: Mapping[str, str]) -> Security:
    try:
        return parse_properties(properties).security
    except ConfigError as problem:
        where = f"link {link.name!r}, cluster {cluster!r}"
        raise ConfigError([f"{where}: {each}" for each in problem.problems], hint=problem.hint) from problem


def _all_of(problems: Sequence[ClusterUnreachable]) -> ClusterUnreachable:
    messages = dict.fromkeys(each.message for each in problems)
    return ClusterUnreachable("\n".join(messages), hint=problems[0].hint)
