"""The clusters a lane copies between: clients opened once and shared by the links that use them alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from heliograph.cluster.batch_source import BatchSource
from heliograph.cluster.batch_target import BatchTarget
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.flight import flight_s
from heliograph.cluster.properties import ClientProperties, parse_properties
from heliograph.copier.lane import Lane
from heliograph.copier.lease import Lease
from heliograph.copier.ports import SourcePort, TargetPort
from heliograph.copier.spec import CopySpec
from heliograph.copier.workers import LaneLink


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkClusters:
    """A link as a lane is sent it: two clusters by name, with the properties to use for each, secrets and all."""

    link: str
    source: str
    target: str
    source_properties: Mapping[str, str] = field(repr=False)
    target_properties: Mapping[str, str] = field(repr=False)


class LaneClusters:
    """`make_lease`: a link's lease, one for each. `make_client(name, properties)`, `make_source(client, link)` and
    `make_target(client, link)`: the real ones, but in a simulation."""

    def __init__(
        self,
        lane: Lane,
        make_lease: Callable[[], Lease] = Lease,
        *,
        make_client: Callable[[str, ClientProperties], ClusterClient] = ClusterClient,
        make_source: Callable[[ClusterClient, str], SourcePort] = BatchSource,
        make_target: Callable[[ClusterClient, str], TargetPort] = BatchTarget,
    ) -> None:
        self._lane = lane
        self._make_lease = make_lease
        self._make_client, self._make_source, self._make_target = make_client, make_source, make_target
        self._clients: dict[tuple[str, ClientProperties], ClusterClient] = {}
        self._links: dict[str, tuple[ClusterClient, ClusterClient]] = {}

    def open(self, clusters: LinkClusters) -> None:
        """Make a link's clusters known. One that is away now is looked for until it is there; nobody waits for it."""
        if clusters.link in self._links:
            return
        consumer, producer = (
            parse_properties(clusters.source_properties),
            parse_properties(clusters.target_properties),
        )
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

    def _client(self, name: str, properties: ClientProperties) -> ClusterClient:
        key = (name, properties)
        if key not in self._clients:
            client = self._clients[key] = self._make_client(name, properties)
            client.on_metadata = self._lane.reroute
            client.start()
        return self._clients[key]
