"""Target topics are deleted with their source topics (`on_source_delete: delete`), and each guard keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from heliograph.controller import deletion_guards, topic_deletions
from heliograph.controller.clusters import Clusters
from heliograph.lab.cluster import LabCluster
from heliograph.model.command import Outcome, Wish
from heliograph.model.events import Event
from heliograph.model.policy import DEFAULT_POLICY, OnSourceDelete, TopicPolicy
from heliograph.model.settings import Settings
from heliograph.model.states import PartitionState, StopReason
from tests.support.judge import assert_identical
from tests.support.operator import Operator
from tests.support.plain_mirror import settings_for
from tests.support.plain_run import PlainRun, plain_run
from tests.support.topics import create_topic, delete_topic, partition_count
from tests.support.workload import produce_mixed

pytestmark = pytest.mark.kafka
SOON_S = 20.0
WAIT_S = 2.0  # in the place of a minute
LONGER_S = 3 * WAIT_S
DELETING = replace(DEFAULT_POLICY, on_source_delete=OnSourceDelete.DELETE)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion_guards, "UNKNOWN_FOR_S", WAIT_S)
    monkeypatch.setattr(topic_deletions, "LOOK_S", 0.3)
    monkeypatch.setattr(topic_deletions, "AGAIN_S", 0.5)


class Scene:
    """Topics that begin with `stem`, on a source and a target; `calm` stays."""

    def __init__(self, source: LabCluster, target: LabCluster, stem: str) -> None:
        self.source, self.target, self.stem = source.bootstrap_servers, target.bootstrap_servers, stem
        self.calm, self.going = f"{stem}.calm", f"{stem}.going"
        for topic in (self.calm, self.going):
            self.create(topic)

    def settings(self, **link: Any) -> Settings:
        values = {"policy": DELETING, **link}
        settings = settings_for(self.source, self.target, [f"{self.stem}[.].*"], **values)
        return replace(settings, discovery_interval_s=0.3)

    def create(self, topic: str, partitions: int = 2, records: int = 60) -> None:
        create_topic(self.source, topic, partitions)
        produce_mixed(self.source, topic, count=records, seed=0)

    @asynccontextmanager
    async def gone(self, settings: Settings | None = None) -> AsyncIterator[PlainRun]:
        """`going` was mirrored, and is let go."""
        async with plain_run(settings or self.settings()) as run:
            await run.caught_up()
            await asyncio.to_thread(delete_topic, self.source, self.going)
            await run.until(lambda run: "topic_gone" in run.codes, SOON_S)
            yield run

    @property
    def is_kept(self) -> bool:
        return is_there(self.target, self.going)

    async def command(self, settings: Settings, wish: Wish, partition: int) -> None:
        clusters = Clusters(settings)
        try:
            await clusters.connect()
            source_id = clusters.source("link").metadata.cluster_id
            operator = Operator(clusters.target("link"), source_id, self.going)
            answer = await operator.answer(await operator.command(wish, partition))
            assert answer.outcome is Outcome.APPLIED
        finally:
            await clusters.aclose()


def is_there(bootstrap: str, topic: str) -> bool:
    try:
        return partition_count(bootstrap, topic) > 0
    except LookupError:
        return False


def held(run: PlainRun) -> str:
    """Why topics are kept, in all words that were told."""
    return "\n".join(each.message for each in run.mirror.outbox.last if each.code is Event.DELETION_HELD)


@pytest.fixture
def scene(
    source_cluster: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> Scene:
    return Scene(source_cluster, target_cluster, unique_topic("gone"))


async def test_a_topic_that_is_deleted_at_the_source_is_deleted_after_a_while_and_mirrored_anew_when_it_is_back(
    scene: Scene,
) -> None:
    loop = asyncio.get_running_loop()
    async with scene.gone() as run:
        let_go_at = loop.time()
        await run.until(lambda run: "topic_deleted" in run.codes, SOON_S)
        assert loop.time() - let_go_at > WAIT_S / 2  # it is seen to be let go a moment later
        assert not scene.is_kept
        assert "deletion_held" not in run.codes
        await asyncio.to_thread(scene.create, scene.going, 3, 40)
        await run.until(lambda run: len(run.rows) == 5, SOON_S)
        await run.caught_up()
        assert "recreated" not in run.codes
    assert_identical(scene.source, scene.target, [scene.calm, scene.going], records=60 + 40)


async def test_a_driver_that_is_killed_before_leaves_the_deletion_to_the_next_one(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion_guards, "UNKNOWN_FOR_S", 3600.0)
    async with scene.gone() as run:
        await asyncio.sleep(WAIT_S)
        await run.kill()
    assert scene.is_kept
    monkeypatch.setattr(deletion_guards, "UNKNOWN_FOR_S", WAIT_S)
    async with plain_run(scene.settings()) as run:
        await run.until(lambda run: "topic_deleted" in run.codes)
    assert not scene.is_kept
    assert is_there(scene.target, scene.calm)


async def test_a_run_that_finds_nothing_but_a_topic_to_delete_deletes_it(scene: Scene) -> None:
    only_going = scene.settings(exclude=(scene.calm,))
    async with plain_run(only_going) as run:
        await run.caught_up()
    await asyncio.to_thread(delete_topic, scene.source, scene.going)
    async with plain_run(only_going) as run:
        await run.until(lambda run: "topic_deleted" in run.codes)
    assert not scene.is_kept


async def test_with_keep_it_stays_also_when_the_config_says_delete_later(scene: Scene) -> None:
    keeping = TopicPolicy(match=".*going", policy=DEFAULT_POLICY)
    async with scene.gone(scene.settings(policies=(keeping,))):
        await asyncio.sleep(LONGER_S)
    async with plain_run(scene.settings()) as run:
        await run.caught_up()
        await asyncio.sleep(LONGER_S)
        assert not {"topic_deleted", "deletion_held"} & set(run.codes)
    assert scene.is_kept


async def test_a_topic_that_the_mirror_did_not_create_is_kept(scene: Scene) -> None:
    await asyncio.to_thread(create_topic, scene.target, scene.going, 2)
    async with scene.gone() as run:
        await run.until(lambda run: "deletion_held" in run.codes, SOON_S)
        assert "that the mirror has created it is not written down" in held(run)
        await asyncio.sleep(LONGER_S)
        assert scene.is_kept


async def test_a_topic_whose_last_batch_is_somebody_elses_is_kept(scene: Scene) -> None:
    async with scene.gone() as run:
        await asyncio.to_thread(lambda: produce_mixed(scene.target, scene.going, count=2, seed=3))
        await run.until(lambda run: "deletion_held" in run.codes, SOON_S)
        assert "is not the mirror's" in held(run)
        await asyncio.sleep(LONGER_S)
        assert scene.is_kept


async def test_another_topic_of_its_name_on_the_target_is_kept(scene: Scene) -> None:
    async with scene.gone() as run:
        await asyncio.to_thread(delete_topic, scene.target, scene.going)
        await asyncio.to_thread(create_topic, scene.target, scene.going, 1)
        await run.until(lambda run: "deletion_held" in run.codes, SOON_S)
        assert "it is another topic by now" in held(run)
        await asyncio.sleep(LONGER_S)
        assert scene.is_kept


async def test_a_topic_whose_name_is_back_is_kept_and_stops_as_recreated(scene: Scene) -> None:
    async with scene.gone() as run:
        await asyncio.to_thread(scene.create, scene.going)
        await run.until(lambda run: [row.reason for row in run.rows].count(StopReason.RECREATED) == 2, SOON_S)
        await asyncio.sleep(LONGER_S)
        assert "topic_deleted" not in run.codes
        assert scene.is_kept


async def test_a_topic_that_an_operator_has_paused_is_kept(scene: Scene) -> None:
    settings = scene.settings()
    async with plain_run(settings) as run:
        await run.caught_up()
        await scene.command(settings, Wish.PAUSE, 1)
        await asyncio.to_thread(delete_topic, scene.source, scene.going)
        await run.until(lambda run: "deletion_held" in run.codes, SOON_S)
        assert "partition 1 is paused" in held(run)
        await asyncio.sleep(LONGER_S)
        assert scene.is_kept


async def test_a_topic_that_is_stopped_is_kept(scene: Scene) -> None:
    async with plain_run(scene.settings()) as run:
        await run.caught_up()
        await asyncio.to_thread(lambda: produce_mixed(scene.target, scene.going, count=2, seed=3))
        await run.until(lambda run: PartitionState.STOPPED in run.states, SOON_S)
        await asyncio.to_thread(delete_topic, scene.source, scene.going)
        await run.until(lambda run: "deletion_held" in run.codes, SOON_S)
        assert "is stopped (" in held(run)
        await asyncio.sleep(LONGER_S)
        assert scene.is_kept


async def test_many_topics_at_once_are_kept_until_there_are_fewer(scene: Scene) -> None:
    more = [f"{scene.stem}.{number}" for number in range(3)]
    for topic in more:
        await asyncio.to_thread(scene.create, topic, 1, 10)
    async with plain_run(scene.settings()) as run:
        await run.caught_up()
        for topic in more:
            await asyncio.to_thread(delete_topic, scene.source, topic)
        await run.until(lambda run: "deletion_held" in run.codes, SOON_S)
        assert "topics of the link are gone at once" in held(run)  # some may not be seen yet
        await asyncio.sleep(LONGER_S)
        assert all(is_there(scene.target, topic) for topic in more)
        for topic in more[:2]:
            await asyncio.to_thread(delete_topic, scene.target, topic)
        await run.until(lambda run: run.codes.count("topic_deleted") == 1, SOON_S)
        assert not is_there(scene.target, more[2])
        assert is_there(scene.target, scene.going)


@pytest.fixture(scope="module")
def two_brokers() -> Iterator[LabCluster]:
    with LabCluster.start(name="deletions", brokers=2, heap_mb=384) as cluster:
        yield cluster


async def test_the_word_of_one_broker_of_two_is_not_enough(
    two_brokers: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    scene = Scene(two_brokers, target_cluster, unique_topic("gone"))
    async with scene.gone() as run:
        silent = two_brokers.brokers[1]
        silent.freeze()
        try:
            await asyncio.sleep(2 * LONGER_S)
            assert scene.is_kept
        finally:
            silent.thaw()
        await run.until(lambda run: "topic_deleted" in run.codes)
        assert not scene.is_kept
