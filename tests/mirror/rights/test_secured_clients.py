"""Lines that grant rights to a client that has a password or a certificate: its brokers know it by that name."""

from __future__ import annotations

import asyncio

import pytest

from heliograph.controller.finding import Finding
from heliograph.controller.preflight import preflight_links
from heliograph.lab.cluster import LabCluster
from heliograph.model.link import Link
from heliograph.model.settings import Settings
from tests.support.guarded_cluster import Guarded, pasted
from tests.support.secured_clusters import ODD_USER, USER, SecuredCluster
from tests.support.topics import create_topic

from .looks import connected

pytestmark = pytest.mark.kafka

MOST_PASTES = 3  # a right may show only when another one is there


@pytest.mark.parametrize(
    ("listener", "user", "principal"),
    [
        ("MUTUAL", USER, f"User:CN={USER}"),
        ("PLAIN", USER, f"User:{USER}"),
        ("SCRAM", ODD_USER, f"User:{ODD_USER}"),
    ],
)
def test_pasted_lines_give_a_secured_client_all_that_it_needs(
    listener: str,
    user: str,
    principal: str,
    guarded: Guarded,
    secured: SecuredCluster,
    source_cluster: LabCluster,
) -> None:
    topic = f"right-by-{listener.lower()}"
    create_topic(source_cluster.bootstrap_servers, topic)
    with guarded.open_house():
        create_topic(guarded.bootstrap_servers, topic)
    access = secured.access(listener, user=user)
    clusters = {
        "src": {"bootstrap.servers": source_cluster.bootstrap_servers},
        "dst": {"bootstrap.servers": access.bootstrap_servers, **access.properties},
    }
    link = Link(name="link", source="src", target="dst", topics=(topic,))
    settings = Settings(clusters=clusters, links=(link,))
    for _ in range(MOST_PASTES):
        lines = "\n".join(each.hint for each in asyncio.run(_about_rights(settings)))
        given = pasted(lines)
        if not given:
            break
        assert {grant.user for grant in given} == {principal}
        assert lines.count("--command-config admin.properties") >= len(lines.splitlines())
        guarded.allow(given)
    assert asyncio.run(_about_rights(settings)) == []


async def _about_rights(settings: Settings) -> list[Finding]:
    async with connected(settings) as clusters:
        found = await preflight_links(clusters.source, clusters.target, await clusters.observe())
    return [each for each in found if each.right is not None]
