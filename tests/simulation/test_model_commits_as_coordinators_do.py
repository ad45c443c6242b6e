"""Who may commit to a group, and what is kept of it: the model's coordinator answers as a real one does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from heliograph.lab.cluster import LabCluster
from heliograph.wire.error_codes import ErrorCode
from tests.cluster.group_commits import METADATA_CHARACTERS, Commits
from tests.cluster.group_model import Coordinator
from tests.support.topics import create_topic, delete_topic

from .coordinators import ModelSide, RealSide, Side, Told, Where

pytestmark = pytest.mark.kafka

TOPICS = {"model-orders": 1, "model-payments": 4}  # and their partitions
HERE, THERE = ("model-orders", 0), ("model-payments", 3)
NOWHERE = ("model-nowhere", 0)


class Both:
    """Both sides take every step; their answers are compared, and told."""

    def __init__(self, real: RealSide) -> None:
        self.real = real
        self.topics = dict(TOPICS)
        commits = Commits(lambda topic, number: number < self.topics.get(topic, 0))
        self.model = ModelSide(real.group, Coordinator(commits=commits))

    async def _both(self, step: Callable[[Side], Awaitable[Any]]) -> Any:
        real, modelled = await step(self.real), await step(self.model)
        assert modelled == real
        return real

    async def join(self, *names: str) -> None:
        for name in names:
            await self._both(lambda side, name=name: side.join(name))  # type: ignore[misc]

    async def joined(self, *names: str) -> None:
        for name in names:
            await self._both(lambda side, name=name: side.joined(name))  # type: ignore[misc]

    async def sync(self, *names: str) -> None:
        for name in names:
            await self._both(lambda side, name=name: side.sync(name))  # type: ignore[misc]

    async def leave(self, name: str) -> None:
        await self._both(lambda side: side.leave(name))

    async def commit(
        self, name: str, generation: int, offset: int = 1, text: str = "", where: Where = HERE
    ) -> int:
        cells: Mapping[Where, Told] = {where: (offset, text)}
        found = await self._both(lambda side: side.commit(name, generation, cells))
        return int(found[where])

    async def commit_all(self, name: str, generation: int, cells: Mapping[Where, Told]) -> dict[Where, int]:
        return dict(await self._both(lambda side: side.commit(name, generation, cells)))

    async def fetch(self, *wheres: Where) -> dict[Where, Told]:
        return dict(await self._both(lambda side: side.fetch(*wheres)))


@pytest.fixture(scope="module")
def with_topics(target_cluster: LabCluster) -> LabCluster:
    for topic, partitions in TOPICS.items():
        create_topic(target_cluster.bootstrap_servers, topic, partitions)
    return target_cluster


async def test_a_member_commits_until_the_next_generation_is_formed(
    with_topics: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    async with RealSide(unique_topic("group"), with_topics.bootstrap_servers) as real:
        await real.wait()
        both = Both(real)
        assert await both.commit("nobody", 5) == ErrorCode.ILLEGAL_GENERATION  # there is no such group
        await both.join("a")
        await both.joined("a")
        assert await both.commit("a", 1) == ErrorCode.REBALANCE_IN_PROGRESS
        await both.sync("a")
        assert await both.commit("a", 1, 17, "text") == ErrorCode.NONE
        assert await both.commit("a", 0) == ErrorCode.ILLEGAL_GENERATION
        assert await both.commit("a", 2) == ErrorCode.ILLEGAL_GENERATION
        assert await both.commit("nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await both.commit("", -1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await both.fetch() == {HERE: (17, "text")}

        await both.join("b")  # it waits for a
        assert await both.commit("a", 1, 18) == ErrorCode.NONE
        assert await both.commit("b", 1, 19) == ErrorCode.NONE
        await both.join("a")
        await both.joined("a", "b")
        for name in ("a", "b"):
            assert await both.commit(name, 2) == ErrorCode.REBALANCE_IN_PROGRESS
            assert await both.commit(name, 1) == ErrorCode.ILLEGAL_GENERATION
        await both.sync("a", "b")
        assert await both.commit("b", 2, 20, "b's", THERE) == ErrorCode.NONE

        await both.leave("a")
        assert await both.commit("a", 2) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await both.commit("b", 2, 21) == ErrorCode.NONE
        await both.join("b")
        await both.joined("b")
        await both.sync("b")
        await both.leave("b")
        assert await both.commit("b", 3) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await both.fetch(HERE, THERE, ("model-orders", 9)) == {
            HERE: (21, ""),
            THERE: (20, "b's"),
            ("model-orders", 9): (-1, ""),
        }
        assert await both.commit("", -1, 22) == ErrorCode.NONE  # while there is no member anybody may


async def test_a_text_that_is_too_long_is_refused_alone(
    with_topics: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    async with RealSide(unique_topic("group"), with_topics.bootstrap_servers) as real:
        await real.wait()
        both = Both(real)
        most, more = "x" * METADATA_CHARACTERS, "x" * (METADATA_CHARACTERS + 1)
        codes = await both.commit_all("", -1, {HERE: (1, more), THERE: (2, most)})
        assert codes == {HERE: ErrorCode.OFFSET_METADATA_TOO_LARGE, THERE: ErrorCode.NONE}
        assert await both.fetch() == {THERE: (2, most)}


async def test_a_commit_is_for_a_partition_that_is_there_and_goes_with_its_topic(
    with_topics: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    bootstrap, topic = with_topics.bootstrap_servers, unique_topic("model")
    create_topic(bootstrap, topic)
    async with RealSide(unique_topic("group"), bootstrap) as real:
        await real.wait()
        both = Both(real)
        both.topics[topic] = 1
        assert await both.commit("nobody", 5, where=NOWHERE) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        cells = {NOWHERE: (1, ""), (topic, 1): (2, ""), (topic, 0): (3, ""), HERE: (4, "")}
        assert set((await both.commit_all("", -1, cells)).values()) == {
            0,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert await both.fetch() == {(topic, 0): (3, ""), HERE: (4, "")}
        delete_topic(bootstrap, topic)
        del both.topics[topic]
        both.model.coordinator.commits.forget(topic)
        await asyncio.sleep(2)
        await both.fetch()


@pytest.mark.faults
async def test_commits_and_members_outlive_the_coordinator(unique_topic: Callable[[str], str]) -> None:
    with LabCluster.start(name="restarted") as cluster:
        create_topic(cluster.bootstrap_servers, HERE[0])
        async with RealSide(unique_topic("group"), cluster.bootstrap_servers) as real:
            await real.wait()
            both = Both(real)
            await both.join("a")
            await both.joined("a")
            await both.sync("a")
            assert await both.commit("a", 1, 5, "kept") == ErrorCode.NONE
            cluster.brokers[0].kill()
            cluster.brokers[0].start()
            await real.wait()
            both.model.coordinator.fail_over(0.0)
            assert await both.fetch() == {HERE: (5, "kept")}
            assert await both.commit("nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
            assert await both.commit("a", 1, 6) == ErrorCode.NONE
            assert await both.fetch() == {HERE: (6, "")}
