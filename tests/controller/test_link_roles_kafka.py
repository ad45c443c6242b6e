"""Runs with configs of their own on real brokers: each topic has one holder, whatever the links are called (P2)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable

import pytest

from heliograph.controller.clusters import Clusters
from heliograph.controller.drivership import Standby
from heliograph.controller.link_roles import LinkRoles, Prepared, RoleEvent, StoodDown
from heliograph.lab.cluster import LabCluster
from heliograph.model.link import Link
from heliograph.model.occurrence_log import logged
from heliograph.model.settings import Settings

from ..support.topics import create_topic

pytestmark = pytest.mark.kafka

SOON_S = 30.0
SAMPLE_S = 0.005


class PlainRun:
    """A run without lanes: `held` is what they would copy now."""

    def __init__(self, source: str, target: str, link: str, topics: Iterable[str]) -> None:
        settings = Settings(
            clusters={"src": {"bootstrap.servers": source}, "dst": {"bootstrap.servers": target}},
            links=(Link(name=link, source="src", target="dst", topics=tuple(topics)),),
        )
        self.link = link
        self.left: dict[str, str] = {}  # by topic who holds it
        self.active: str | None = None
        self._clusters = Clusters(settings)
        self._ours: set[str] = set()
        self._roles: LinkRoles | None = None

    async def start(self) -> None:
        await self._clusters.connect()
        ids = (self._clusters.source(self.link), self._clusters.target(self.link))
        cluster_ids = {self.link: (ids[0].metadata.cluster_id, ids[1].metadata.cluster_id)}
        self._roles = LinkRoles(self._clusters, cluster_ids, self._take, logged())
        self._roles.start()

    def _take(self, event: RoleEvent) -> None:
        assert self._roles is not None
        match event:
            case Prepared(link, todo):
                self._ours = {copy.spec.partition.target_topic for copy in todo.copies}
                self.left = {each.partition.target_topic: str(each.holder) for each in todo.left}
                self._roles.grant(link)
            case StoodDown(_, active):
                self._ours, self.left, self.active = set(), {}, active
            case _:
                raise AssertionError(event)

    @property
    def held(self) -> set[str]:
        assert self._roles is not None
        return self._ours if self._roles.grants()[self.link] > 0 else set()

    @property
    def stands_by(self) -> bool:
        assert self._roles is not None
        return isinstance(self._roles.roles[self.link], Standby)

    async def end(self) -> None:
        if self._roles is not None:
            await self._roles.aclose()
            self._roles = None
            await self._clusters.aclose()

    @property
    def running(self) -> bool:
        return self._roles is not None


class Scene:
    def __init__(self, source: str, target: str, topics: list[str]) -> None:
        self.source, self.target, self.topics = source, target, topics
        self.runs: list[PlainRun] = []
        self.overlaps: list[set[str]] = []

    async def run(self, link: str, *topics: str) -> PlainRun:
        run = PlainRun(self.source, self.target, link, topics)
        self.runs.append(run)
        await run.start()
        return run

    async def watch(self) -> None:
        while True:
            held = [run.held for run in self.runs if run.running]
            twice = {
                topic for nth, some in enumerate(held) for more in held[nth + 1 :] for topic in some & more
            }
            if twice:
                self.overlaps.append(twice)
            await asyncio.sleep(SAMPLE_S)


@pytest.fixture
def three_topics(
    source_cluster: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> Scene:
    """On both clusters; no two tests share one."""
    servers = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topics = [unique_topic(stem) for stem in ("a", "b", "c")]
    for topic in topics:
        for server in servers:
            create_topic(server, topic, 1)
    return Scene(*servers, topics)


@contextlib.asynccontextmanager
async def watched(scene: Scene) -> AsyncIterator[Scene]:
    watching = asyncio.create_task(scene.watch())
    try:
        yield scene
        assert scene.overlaps == []
    finally:
        watching.cancel()
        for run in scene.runs:
            await run.end()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON_S):
        while not true():  # noqa: ASYNC110 - the conditions are not events
            await asyncio.sleep(0.01)


def holder(link: str) -> str:
    return f"{socket.gethostname()} (pid {os.getpid()}), link {link}"


@pytest.mark.parametrize("other", ["other", "link"])
async def test_two_configs_with_disjoint_topics_both_copy_whatever_their_links_are_called(
    three_topics: Scene, other: str
) -> None:
    a, b, c = three_topics.topics
    async with watched(three_topics) as scene:
        one = await scene.run("link", a)
        two = await scene.run(other, b, c)
        await until(lambda: one.held == {a} and two.held == {b, c})
        await asyncio.sleep(1)
        assert (one.held, two.held) == ({a}, {b, c})


async def test_of_overlapping_configs_the_first_has_what_both_select_until_it_ends(
    three_topics: Scene,
) -> None:
    a, b, c = three_topics.topics
    async with watched(three_topics) as scene:
        one = await scene.run("one", a, b)
        await until(lambda: one.held == {a, b})
        two = await scene.run("two", b, c)
        await until(lambda: two.held == {c})
        assert two.left == {b: holder("one")}
        assert one.held == {a, b}
        await one.end()
        await until(lambda: two.held == {b, c})
        assert two.left == {}


async def test_a_renamed_link_waits_for_the_run_with_the_old_name_and_takes_its_mirror_over(
    three_topics: Scene,
) -> None:
    """The version before gave both "exclusive" rights at the same time."""
    a, b, _ = three_topics.topics
    async with watched(three_topics) as scene:
        one = await scene.run("name", a, b)
        await until(lambda: one.held == {a, b})
        renamed = await scene.run("new-name", a, b)
        await until(lambda: renamed.stands_by)
        assert renamed.active == holder("name")
        assert (one.held, renamed.held) == ({a, b}, set())
        await one.end()
        await until(lambda: renamed.held == {a, b})


async def test_a_run_whose_topics_are_all_in_another_ones_wider_selection_is_a_hot_standby(
    three_topics: Scene,
) -> None:
    a, b, c = three_topics.topics
    async with watched(three_topics) as scene:
        one = await scene.run("one", a, b, c)
        await until(lambda: one.held == {a, b, c})
        two = await scene.run("two", c)
        await until(lambda: two.stands_by)
        assert two.left == {c: holder("one")}
        await one.end()
        await until(lambda: two.held == {c})
        assert not two.stands_by
