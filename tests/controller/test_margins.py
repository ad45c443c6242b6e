"""Margins for what may still be on its way: lanes and driver count by the same rule, whatever the config says."""

from __future__ import annotations

from heliograph.controller.clusters import Clusters
from heliograph.copier.lane import Lane
from heliograph.copier.lane_clusters import LaneClusters
from heliograph.model.settings import MIB, Settings

from .observed import LINK

SERVERS = {"bootstrap.servers": "127.0.0.1:1"}
SHORT = SERVERS | {"request.timeout.ms": "1000"}


async def test_a_short_request_timeout_of_the_target_makes_no_short_margin() -> None:
    clusters = Clusters(Settings(clusters={"sf": SERVERS, "nyc": SHORT}, links=(LINK,)))
    lane = Lane(8 * MIB, lambda _: None)
    lane_clusters = LaneClusters(lane)
    for each in clusters.link_clusters():
        lane_clusters.open(each)
    try:
        assert clusters.flight_s(LINK.name) == lane._links[LINK.name].flight_s == 5.0
    finally:
        await lane.aclose()
        await lane_clusters.aclose()
        await clusters.aclose()
