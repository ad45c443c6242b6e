"""The clusters of a lane: what it is sent holds secrets, and does not show them; and where links lead."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.properties import ClientProperties
from heliograph.copier.lane import Lane
from heliograph.copier.lane_clusters import LaneClusters, LinkClusters
from heliograph.copier.ports import SourcePort, TargetPort

LINK = LinkClusters(
    link="l",
    source="sf",
    target="nyc",
    source_properties={"bootstrap.servers": "sf:1"},
    target_properties={"bootstrap.servers": "nyc:1"},
)


def test_no_property_is_in_a_repr() -> None:
    secret = {"ssl.key.password": "hunter2"}
    link = LinkClusters(
        link="l", source="sf", target="nyc", source_properties=secret, target_properties=secret
    )
    assert "hunter2" not in repr(link)
    assert "sf" in repr(link)


class PlayedClient:
    def __init__(self, name: str, properties: ClientProperties) -> None:
        self.name, self.properties = name, properties
        self.secrets = 0

    def use(self, security: Any) -> None:
        self.secrets += 1
        self.properties = replace(self.properties, security=security)

    def start(self) -> None:
        pass


class Story:
    def __init__(self) -> None:
        self.clients: list[PlayedClient] = []
        self.linked: list[str] = []
        lane = SimpleNamespace(reroute=None, link=lambda name, _link: self.linked.append(name))
        self.clusters = LaneClusters(
            cast(Lane, lane),
            make_client=self._make,
            make_source=lambda client, _link: cast(SourcePort, client),
            make_target=lambda client, _link: cast(TargetPort, client),
        )
        self.clusters.open(LINK)

    def _make(self, name: str, properties: ClientProperties) -> ClusterClient:
        self.clients.append(PlayedClient(name, properties))
        return cast(ClusterClient, self.clients[-1])


def test_a_link_with_other_secrets_leads_where_it_did() -> None:
    it = Story()
    scram = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    scram["sasl.jaas.config"] = f'{module} required username="m" password="new";'
    it.clusters.open(replace(LINK, target_properties={**LINK.target_properties, **scram}))
    assert it.linked == ["l"]
    assert [client.secrets for client in it.clients] == [1, 1]


@pytest.mark.parametrize(
    "elsewhere",
    [
        replace(LINK, target="lax", target_properties={"bootstrap.servers": "lax:1"}),
        replace(LINK, target_properties={"bootstrap.servers": "nyc:2"}),
        replace(LINK, source_properties={**LINK.source_properties, "fetch.max.bytes": "99"}),
    ],
    ids=["another cluster", "other servers", "other limits"],
)
def test_a_link_that_was_removed_and_comes_again_leads_where_it_says_now(elsewhere: LinkClusters) -> None:
    it = Story()
    it.clusters.open(elsewhere)
    it.clusters.open(elsewhere)
    assert it.linked == ["l", "l"]
    assert len(it.clients) == 3  # what has not changed is shared
    assert not any(client.secrets for client in it.clients)
