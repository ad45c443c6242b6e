"""Configs of target topics while their partitions are copied: those that cannot be read any more (P6), and what follows
from those that can."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from heliograph.cluster.admin import TopicConfig
from heliograph.copier import target_configs, vigil
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.target_takes import AFTER_MAX
from heliograph.model.errors import Disconnected
from heliograph.model.events import Event, Trouble
from heliograph.model.policy import DEFAULT_POLICY, Timestamps
from heliograph.model.states import PartitionState

from .lane_world import World, place, until, world, write
from .source_batches import NOW_MS, batch

TOPIC = "orders"
DENIED = "its configs cannot be read: TOPIC_AUTHORIZATION_FAILED"


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (vigil.CONFIGS_S, target_configs.UNREAD_LIMIT, target_configs.ANSWER_LIMIT_S) == (5, 3, 3)
    monkeypatch.setattr(vigil, "LOOK_S", 0.02)
    monkeypatch.setattr(vigil, "CONFIGS_S", 0.02)
    monkeypatch.setattr(target_configs, "ANSWER_LIMIT_S", 0.05)


def copying(it: World) -> list[PartitionCopy]:
    """Three partitions of one topic."""
    for partition in range(3):
        it.create(partition, 5)
    return [it.assign(partition) for partition in range(3)]


def told(copies: list[PartitionCopy]) -> list[Trouble]:
    return [notice for copy in copies for notice in copy.notices]


async def test_a_topic_whose_configs_cannot_be_read_is_told_once_with_the_reason() -> None:
    async with world() as it:
        copies = copying(it)
        it.target.unreadable_configs[TOPIC] = DENIED
        await until(lambda: bool(told(copies)))
        await asyncio.sleep(0.2)
        (notice,) = told(copies)
        assert notice.event is Event.CONFIGS_UNREAD
        assert TOPIC in notice.message
        assert DENIED in notice.message
        assert all(copy.stopped is None for copy in copies)


async def test_it_is_told_again_when_it_could_be_read_in_between() -> None:
    async with world() as it:
        copies = copying(it)
        for times in (1, 2):
            it.target.unreadable_configs[TOPIC] = DENIED
            await until(lambda times=times: len(told(copies)) == times)  # type: ignore[misc]
            it.target.unreadable_configs.clear()
            await asyncio.sleep(0.1)


async def test_one_reading_that_fails_now_and_then_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world() as it:
        copies, asked = copying(it), 0
        read = it.target.topic_configs

        async def now_and_then(topics: list[str], keys: list[str]) -> dict[str, TopicConfig]:
            nonlocal asked
            asked += 1
            if asked % 3:
                raise Disconnected("broker 1 is gone")
            return await read(topics, keys)

        monkeypatch.setattr(it.target, "topic_configs", now_and_then)
        await until(lambda: asked > 9)
        assert not told(copies)


async def test_a_target_that_does_not_answer_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world() as it:
        copies = copying(it)

        async def hang(_topics: list[str], _keys: list[str]) -> dict[str, TopicConfig]:
            await asyncio.sleep(60)
            return {}

        monkeypatch.setattr(it.target, "topic_configs", hang)
        await until(lambda: bool(told(copies)))
        assert "no answer" in told(copies)[0].message


async def test_merged_batches_keep_to_what_the_target_topic_takes_as_of_the_last_reading() -> None:
    async with world(max_merged_bytes=1 << 20) as it:
        it.create(0, 1)
        copy = it.assign(0)
        log = it.target.logs[place(0)]
        largest = []
        for limit_bytes in (600, 1200):
            it.target.configs[TOPIC] = {"max.message.bytes": str(limit_bytes), "segment.bytes": "1000000"}
            await until(lambda limit_bytes=limit_bytes: copy._merging._limit_bytes == limit_bytes)  # type: ignore[misc]
            before = len(log.batches)
            write(it.source.logs[place(0)], 100)
            await until(lambda: it.is_copied(0))
            largest.append(max(each.header.size_bytes for each in log.batches[before:]))
        assert largest[0] <= 600 < largest[1] <= 1200


async def test_times_and_sizes_that_the_topic_takes_by_now_are_kept() -> None:
    """A link that clamps meets a limit that was lowered after it was planned."""
    async with world() as it:
        it.create(0)
        limits = {"max.message.bytes": "500", "segment.bytes": "1000000", AFTER_MAX: "3600000"}
        it.target.configs[TOPIC] = {**it.target.configs.get(TOPIC, {}), **limits}
        clamps = replace(DEFAULT_POLICY, timestamps=Timestamps.CLAMP)
        copy = it.assign(0, policy=clamps)
        await until(lambda: copy.state is PartitionState.CAUGHT_UP)
        await asyncio.sleep(0.2)
        it.source.logs[place(0)].store(batch(0, 100, timestamp=NOW_MS + 86_400_000))
        await until(lambda: it.is_copied(0))
        headers = [stored.header for stored in it.target.logs[place(0)].batches]
        assert max(header.size_bytes for header in headers) <= 500
        assert max(header.max_timestamp for header in headers) < NOW_MS + 2 * 3_600_000
