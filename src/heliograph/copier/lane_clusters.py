"""The clusters a lane copies between: clients opened once and shared by the links that use them alike."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from heliograph.cluster.batch_source import BatchSource
from heliograph.cluster.batch_target import BatchTarget
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.flight import flight_s
from heliograph.cluster.properties import ClientProperties, parse_properties
from heliograph.cluster.security.attempts import Attempts
from heliograph.cluster.security.shipped_files import with_shipped_files
from heliograph.copier.lane import Lane
from heliograph.copier.lease import Lease
from heliograph.copier.ports import SourcePort, TargetPort
from heliograph.copier.spec import CopySpec
from heliograph.copier.workers import LaneLink
from heliograph.model.errors import SecurityFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkClusters:
    """A link as a lane is sent it: two clusters by name, with the properties to use for each, secrets and all."""

    link: str
    source: str
    target: str
    source_properties: Mapping[str, str] = field(repr=False)  # passwords are among them
    target_properties: Mapping[str, str] = field(repr=False)


class LaneClusters:
    """`make_lease`: a link's lease, one for each. `make_client(name, properties)`, `make_source(client, link)` and
    `make_target(client, link)`: the real ones, but in a simulation. `shipped`: where Spark has put files of the config.
    `on_refused(cluster, problem)`: TLS or SASL failed."""

    def __init__(
        self,
        lane: Lane,
        make_lease: Callable[[], Lease] = Lease,
        *,
        shipped: Path | None = None,
        on_refused: Callable[[str, SecurityFailed], None] = lambda _cluster, _problem: None,
        make_client: Callable[[str, ClientProperties], ClusterClient] | None = None,
        make_source: Callable[[ClusterClient, str], SourcePort] = BatchSource,
        make_target: Callable[[ClusterClient, str], TargetPort] = BatchTarget,
    ) -> None:
        self._lane = lane
        self._make_lease = make_lease
        self._shipped = shipped
        self._on_refused = on_refused
        self._make_client = make_client or self._real_client
        self._make_source, self._make_target = make_source, make_target
        self._attempts: defaultdict[str, Attempts] = defaultdict(Attempts)  # by cluster
        self._clients: dict[tuple[str, ClientProperties], ClusterClient] = {}
        self._opened: dict[str, LinkClusters] = {}
        self._links: dict[str, tuple[ClusterClient, ClusterClient]] = {}

    def open(self, clusters: LinkClusters) -> None:
        """Make a link's clusters known. One that is away now is looked for until it is there; nobody waits for it. Of a
        link that is known already new secrets are taken, for connections that are opened from now on. One that leads
        elsewhere by now has no partitions here any more: it was removed, and came again."""
        if self._opened.get(clusters.link) == clusters:
            return
        self._opened[clusters.link] = clusters
        consumer = self._parsed(clusters.source_properties)
        producer = self._parsed(clusters.target_properties)
        known = self._links.get(clusters.link)
        if known is not None and _lead_to(known, clusters, (consumer, producer)):
            for client, properties in zip(self._links[clusters.link], (consumer, producer), strict=True):
                client.use(properties.security)
            return
        source, target = self._client(clusters.source, consumer), self._client(clusters.target, producer)
        self._links[clusters.link] = (source, target)
        # Connections of its own for each link: a long poll of one must not hold up another's fetches.
        self._lane.link(
            clusters.link,
            LaneLink(
                self._make_source(source, clusters.link),
                self._make_target(target, clusters.link),
                consumer,
                producer,
                self._make_lease(),
                flight_s=flight_s(producer),
            ),
        )

    def assign(self, specs: Iterable[CopySpec], *, clear_in_s: float = 0.0) -> None:
        """Copy these partitions; their leaders are learnt meanwhile."""
        for spec in specs:
            source, target = self._links[spec.partition.link]
            source.follow([spec.partition.source_topic])
            target.follow([spec.partition.target_topic])
            self._lane.assign(spec, clear_in_s=clear_in_s)

    async def aclose(self) -> None:
        await asyncio.gather(*(client.aclose() for client in self._clients.values()))

    def _parsed(self, properties: Mapping[str, str]) -> ClientProperties:
        here = with_shipped_files(properties, self._shipped) if self._shipped is not None else properties
        return parse_properties(here)

    def _real_client(self, name: str, properties: ClientProperties) -> ClusterClient:
        client = ClusterClient(name, properties, self._attempts[name])
        client.on_refused = lambda problem: self._on_refused(name, problem)
        return client

    def _client(self, name: str, properties: ClientProperties) -> ClusterClient:
        key = (name, properties)
        if key not in self._clients:
            client = self._clients[key] = self._make_client(name, properties)
            client.on_metadata = self._lane.reroute
            client.start()
        return self._clients[key]


def _lead_to(
    clients: tuple[ClusterClient, ClusterClient],
    clusters: LinkClusters,
    wanted: tuple[ClientProperties, ClientProperties],
) -> bool:
    """Whether these are clients of the same clusters, with the same properties but for their secrets."""
    return (clients[0].name, clients[1].name) == (clusters.source, clusters.target) and all(
        replace(each, security=client.properties.security) == client.properties
        for client, each in zip(clients, wanted, strict=True)
    )
