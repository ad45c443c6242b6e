"""Links whose clusters are away: tried again, told once, and let in only where they go with the others."""

from __future__ import annotations

import asyncio

import pytest

from heliograph.controller.arrivals import Arrivals, Arrived
from heliograph.model.errors import ClusterUnreachable, ConfigError, Disconnected
from heliograph.model.events import Event
from heliograph.model.outbox import Outbox

from .observed import LINK
from .played import FakeClusters, observed

LAX, TOKYO = "sf-to-lax", "sf-to-tokyo"
AWAY = ClusterUnreachable("cluster 'nyc' cannot be reached: refused", hint="check it")


class Story:
    """The link of all tests runs, two others to the same target wait for it."""

    def __init__(self) -> None:
        self.clusters = FakeClusters(observed())
        self.clusters.link_names += [LAX, TOKYO]
        self.clusters.cut_off = {name: {"nyc": AWAY} for name in (LAX, TOKYO)}
        self.clusters.set_apart([LAX, TOKYO])
        self.outbox = Outbox()
        self.arrived: list[Arrived] = []
        self.arrivals = Arrivals(
            self.clusters.made, self.outbox, self.arrived.append, asyncio.Lock(), interval_s=0.01
        )
        for link, away in self.clusters.cut_off.items():
            self.arrivals.await_clusters(link, away)

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(str(each.code), each.message) for each in self.outbox.last]


async def test_a_cluster_that_is_away_is_told_once_however_many_links_wait_for_it_and_however_long() -> None:
    it = Story()
    for _ in range(3):
        await it.arrivals.look()
    assert [code for code, _ in it.told] == ["cluster_away"]
    assert it.outbox.last[0].hint == "check it"
    assert it.arrivals.waiting == dict.fromkeys((LAX, TOKYO), "waiting for cluster 'nyc'")
    assert it.arrived == []


async def test_links_join_when_it_is_back_which_is_told_once() -> None:
    it = Story()
    it.clusters.cut_off = {}
    await it.arrivals.look()
    await it.arrivals.look()
    assert [code for code, _ in it.told] == ["cluster_away", "cluster_back"]
    assert it.arrived == [Arrived(LAX), Arrived(TOKYO)]
    assert it.arrivals.waiting == {}
    assert [link.name for link in it.clusters.links] == [LINK.name, LAX, TOKYO]


async def test_a_cluster_that_goes_again_is_told_again() -> None:
    it = Story()
    it.clusters.unfit = Disconnected("it went")
    it.clusters.cut_off = {TOKYO: {"nyc": AWAY}}
    await it.arrivals.look()
    it.clusters.cut_off = {}
    await it.arrivals.look()
    it.clusters.cut_off = {LAX: {"nyc": AWAY}}
    await it.arrivals.look()
    assert [code for code, _ in it.told if code != "cluster_back"].count("cluster_away") >= 2
    assert it.arrived == []


async def test_a_link_that_cannot_be_read_waits_and_is_told_once() -> None:
    it = Story()
    it.clusters.cut_off = {TOKYO: {"nyc": AWAY}}
    it.clusters.unfit = Disconnected("it went")
    for _ in range(3):
        await it.arrivals.look()
    assert "it went" in it.arrivals.waiting[LAX]
    assert sum("it went" in words for _, words in it.told) == 1
    it.clusters.unfit = None
    await it.arrivals.look()
    assert it.arrived == [Arrived(LAX)]


@pytest.mark.parametrize("same", [True, False])
async def test_a_link_that_would_write_what_another_writes_stays_out_alone(
    same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = Story()
    monkeypatch.setattr(
        it.clusters, "cluster_ids", lambda name: ("sf-id", "tokyo-id" if name == TOKYO else "nyc-id")
    )
    it.clusters.cut_off = {}
    for _ in range(3):
        await it.arrivals.look()
    assert it.arrived == [Arrived(TOKYO)]
    assert "would be written by" in it.arrivals.waiting[LAX]
    out = [each for each in it.outbox.last if each.code is Event.LINK_OUT]
    assert [each.link for each in out] == [LAX]
    if not same:  # mended: it joins
        monkeypatch.setattr(it.clusters, "cluster_ids", lambda name: ("sf-id", name))
        await it.arrivals.look()
        assert it.arrived[1:] == [Arrived(LAX)]


async def test_a_wrong_config_keeps_a_link_out_and_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Story()

    async def mistaken(_link: str) -> dict[str, ClusterUnreachable]:
        raise ConfigError(["clusters.nyc.cluster.id: another cluster answers"])

    monkeypatch.setattr(it.clusters, "reach", mistaken)
    for _ in range(3):
        await it.arrivals.look()
    assert [each.link for each in it.outbox.last if each.code is Event.LINK_OUT] == [LAX, TOKYO]
    assert "another cluster" in it.arrivals.waiting[LAX]


async def test_it_looks_again_and_again_until_it_is_closed() -> None:
    it = Story()
    it.arrivals.start()
    await asyncio.sleep(0.03)
    it.clusters.cut_off = {}
    async with asyncio.timeout(5):
        while len(it.arrived) < 2:  # noqa: ASYNC110 - a list is no event
            await asyncio.sleep(0.005)
    await it.arrivals.aclose()
