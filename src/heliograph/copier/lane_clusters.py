"""The clusters a lane copies between: clients opened once and shared by the links that use them alike."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from heliograph.cluster.batch_source import BatchSource
from heliograph.cluster.batch_target import BatchTarget
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.properties import ClientProperties, parse_properties
from heliograph.copier.lane import Ends, Lane
from heliograph.copier.spec import CopySpec
from heliograph.model.errors import ClusterUnreachable

RETRY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEnds:
    """A link as a lane sees it: two clusters by name, with the properties to use for each."""

    link: str
    source: str
    target: str
    source_properties: Mapping[str, str]
    target_properties: Mapping[str, str]


class LaneClusters:
    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._clients: dict[tuple[str, ClientProperties], ClusterClient] = {}
        self._links: dict[str, tuple[ClusterClient, ClusterClient]] = {}

    async def open(self, ends: LinkEnds) -> None:
        """Connect to both clusters of a link; one that is away is tried again until it is there."""
        if ends.link in self._links:
            return
        consumer, producer = (
            parse_properties(ends.source_properties),
            parse_properties(ends.target_properties),
        )
        source = await self._client(ends.source, consumer)
        target = await self._client(ends.target, producer)
        self._links[ends.link] = (source, target)
        self._lane.link(ends.link, Ends(BatchSource(source), BatchTarget(target), consumer, producer))

    async def assign(self, specs: Iterable[CopySpec]) -> None:
        """Learn the leaders of these partitions, then copy them."""
        wanted = list(specs)
        stale: set[ClusterClient] = set()
        for spec in wanted:
            source, target = self._links[spec.partition.link]
            source.follow([spec.partition.source_topic])
            target.follow([spec.partition.target_topic])
            stale |= {source, target}
        await asyncio.gather(*(client.refresh() for client in stale), return_exceptions=True)
        for spec in wanted:
            self._lane.assign(spec)

    async def aclose(self) -> None:
        await asyncio.gather(*(client.aclose() for client in self._clients.values()))

    async def _client(self, name: str, properties: ClientProperties) -> ClusterClient:
        key = (name, properties)
        if key not in self._clients:
            client = ClusterClient(name, properties)
            client.on_metadata = self._lane.reroute
            while True:
                try:
                    await client.connect()
                    break
                except ClusterUnreachable:
                    await asyncio.sleep(RETRY_S)
            self._clients[key] = client
        return self._clients[key]
