"""The driver's clients when some clusters are away: who takes part, and who is asked again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from heliograph.controller.clusters import Clusters
from heliograph.model.errors import ClusterUnreachable, ConfigError
from heliograph.model.link import Link
from heliograph.model.settings import Settings
from tests.cluster.peers import answer, peer, read_request
from tests.cluster.test_client import API_VERSIONS, api_versions, metadata

LINKS = tuple(
    Link(name=name, source="sf", target=to, topics=("o.*",)) for name, to in (("a", "nyc"), ("b", "lax"))
)


class Broker:
    """Of a cluster of one, with topics orders and payments."""

    def __init__(self) -> None:
        self.port = 0
        self.connections = 0

    async def behave(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            api_key, _, correlation_id, _ = await read_request(reader)
            said = (
                api_versions()
                if api_key == API_VERSIONS
                else metadata({1: self.port}, {"orders": 1, "payments": 1})
            )
            writer.write(answer(correlation_id, said))


@asynccontextmanager
async def clusters_of(**others: int | dict[str, str]) -> AsyncIterator[tuple[Clusters, Broker]]:
    """sf answers; nyc and lax as is said: by port, or by properties."""
    broker = Broker()
    async with peer(broker.behave) as broker.port:
        at = {"sf": broker.port, "nyc": broker.port, **others}
        properties = {
            name: where if isinstance(where, dict) else {"bootstrap.servers": f"127.0.0.1:{where or 1}"}
            for name, where in at.items()
        }
        clusters = Clusters(Settings(clusters=properties, links=LINKS))
        try:
            yield clusters, broker
        finally:
            await clusters.aclose()


async def test_a_link_takes_part_if_both_of_its_clusters_answer() -> None:
    async with clusters_of(lax=0) as (clusters, _):
        away = await clusters.connect_some()
        assert {link: set(problems) for link, problems in away.items()} == {"b": {"lax"}}
        assert [link.name for link in clusters.links] == ["a"]
        assert [each.link for each in clusters.link_clusters()] == ["a"]
        with pytest.raises(ClusterUnreachable, match="lax"):
            await clusters.connect()


async def test_what_has_been_reached_is_not_asked_again_and_a_link_joins_when_it_is_told_to() -> None:
    async with clusters_of(lax=0) as (clusters, broker):
        await clusters.connect_some()
        before = broker.connections
        assert set(await clusters.reach("b")) == {"lax"}
        assert await clusters.reach("a") == {}
        assert broker.connections == before
        clusters.join("b")
        assert [link.name for link in clusters.links] == ["a", "b"]


async def test_no_link_at_all_is_an_error_that_names_each_cluster_once() -> None:
    async with clusters_of(sf=0, lax=0) as (clusters, _):
        with pytest.raises(ClusterUnreachable) as caught:
            await clusters.connect_some()
        assert caught.value.message.count("'sf'") == 1
        assert "'lax'" in caught.value.message


async def test_a_cluster_that_is_another_than_the_config_says_is_a_wrong_config() -> None:
    async with clusters_of(lax=0) as (_, broker):
        mistaken = {"bootstrap.servers": f"127.0.0.1:{broker.port}", "cluster.id": "other"}
        async with clusters_of(lax=mistaken) as (clusters, _):
            with pytest.raises(ConfigError, match=r"clusters.lax.cluster.id"):
                await clusters.connect_some()


async def test_the_topics_of_a_link_are_those_that_match_between_clusters_by_their_ids() -> None:
    async with clusters_of(lax=0) as (clusters, _):
        await clusters.connect_some()
        found = await clusters.link_topics("a")
        assert (found.topics, found.source_cluster_id, found.target_cluster_id) == (
            ("orders",),
            "sf-id",
            "sf-id",
        )
