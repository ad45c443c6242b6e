"""Fetching costs what is busy: a session is told what changed, and nobody waits for others' long polls, or shortens
them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from heliograph.copier.partition_copy import PartitionCopy
from heliograph.model.policy import Isolation, LinkPolicy
from heliograph.model.states import PartitionState
from heliograph.wire.fetch_request import FIRST_EPOCH, LAST_EPOCH, FetchAsk

from .lane_world import World, mirror, place, until, world, write
from .source_batches import spec_of

LONG_MS = 5_000
AT_ONCE_S = 2.0  # far less than a long poll, far more than a busy machine needs
MANY = 50


def polls(it: World) -> list[FetchAsk]:
    """What the session was told."""
    return [ask for ask in it.source.asks if ask.session_epoch != LAST_EPOCH]


def asked_for(it: World) -> set[int]:
    """The partitions that the source's broker holds in sessions that are polled."""
    fetchers = [each for both in it.lane._workers._fetches.values() for each in (both.busy, both.calm)]
    polled = {fetcher._session._id for fetcher in fetchers if len(fetcher._session)}
    held = it.source.sessions[1].held()
    return {partition for number in polled & held.keys() for _, partition in held[number]}


def wanted(it: World) -> set[int]:
    """The partitions that sessions were asked for."""
    return {want.partition for ask in polls(it) for want in ask.wants}


def busy_hangs(it: World) -> bool:
    """The first long poll for what is busy has no answer."""
    busy = [fetches.busy for fetches in it.lane._workers._fetches.values()]
    return all(each._polling and each._session._epoch == FIRST_EPOCH for each in busy)


async def until_busy_hangs(it: World) -> None:
    """Forget what was asked for before that."""
    await until(lambda: it.is_copied(0) and busy_hangs(it))
    it.source.asks.clear()


def caught_up(copy: PartitionCopy) -> bool:
    return copy.state is PartitionState.CAUGHT_UP


async def idle_lane(it: World, partitions: int) -> list[PartitionCopy]:
    for partition in range(partitions):
        it.create(partition, 1)
    copies = [it.assign(partition) for partition in range(partitions)]
    await until(lambda: all(map(caught_up, copies)) and asked_for(it) == set(range(partitions)))
    return copies


async def test_a_turn_says_what_has_changed_not_what_is_assigned() -> None:
    async with world() as it:
        await idle_lane(it, MANY)
        await asyncio.sleep(0.1)
        it.source.asks.clear()
        write(it.source.logs[place(7)], 3)
        await until(lambda: it.is_copied(7))
        await asyncio.sleep(0.1)
        assert {want.partition for ask in polls(it) for want in ask.wants} == {7}
        assert sum(len(ask.wants) for ask in polls(it)) <= 3
        assert not any(ask.forgotten for ask in polls(it))


async def test_what_has_records_is_read_by_a_session_of_its_own_until_it_is_calm() -> None:
    """A broker looks at all of a session for each of its requests."""
    async with world() as it:
        copies = await idle_lane(it, MANY)
        [fetches] = it.lane._workers._fetches.values()
        assert set(fetches.busy.copies) == set(copies)
        for _ in range(2):
            fetches.look()
        assert set(fetches.calm.copies) == set(copies)
        write(it.source.logs[place(7)], 3)
        await until(lambda: it.is_copied(7) and fetches.busy.copies == [copies[7]])
        await until(lambda: len(fetches.calm._session) == MANY - 1)
        for _ in range(2):
            write(it.source.logs[place(7)], 3)
            await until(lambda: it.is_copied(7))
            fetches.look()
            assert fetches.busy.copies == [copies[7]]
        await it.lane.revoke(mirror(7))
        assert (fetches.busy.copies, len(fetches.calm.copies)) == ([], MANY - 1)


async def test_a_copy_that_moves_while_both_long_polls_hang_is_read_at_once() -> None:
    async with world(fetch_wait_ms=LONG_MS) as it:
        for partition in (0, 1):
            it.create(partition, 1)
        it.assign(0)
        await until_busy_hangs(it)
        copy = it.assign(1)
        [fetches] = it.lane._workers._fetches.values()
        await until(lambda: it.is_copied(1) and copy in fetches.busy.copies, AT_ONCE_S)
        for _ in range(2):
            fetches.look()
        assert copy in fetches.calm.copies
        await until(lambda: fetches.calm._polling, AT_ONCE_S)
        fetches._had_records(copy)
        assert copy in fetches.busy.copies
        write(it.source.logs[place(1)], 3)
        await until(lambda: it.is_copied(1), AT_ONCE_S)


async def test_a_brokers_memory_wakes_those_that_it_leads_and_nobody_else() -> None:
    async with world() as it:
        for partition in range(3):
            it.create(partition, 1, target_node=1 + partition % 2)
        copies = [it.assign(partition) for partition in range(3)]
        await until(lambda: all(map(caught_up, copies)))
        [fetches] = it.lane._workers._fetches.values()
        woken: list[PartitionCopy] = []
        fetches.changed = woken.append  # type: ignore[method-assign, assignment]
        share = copies[0]._share
        assert share is not None
        for size_bytes in (1 << 30, -(1 << 30)):
            share.pin(size_bytes)
        assert woken == [copies[0], copies[2]] * 2


async def test_an_idle_lane_has_nothing_to_report() -> None:
    async with world() as it:
        copies = await idle_lane(it, MANY)
        await asyncio.sleep(0.1)
        assert set(it.lane.take_moved()) == set(copies)
        await asyncio.sleep(0.1)
        assert it.lane.take_moved() == []
        write(it.source.logs[place(7)], 3)
        await until(lambda: it.is_copied(7) and copies[7].settled)
        assert it.lane.take_moved() == [copies[7]]


async def held_back(it: World) -> PartitionCopy:
    """A partition whose target hangs, with more at the source than may be held, beside one that idles."""
    it.create(0, 1)
    it.create(1, source_node=1, target_node=2)
    write(it.source.logs[place(1)], 300, value_bytes=1000)
    it.target.frozen.add(2)
    idle, held = it.assign(0), it.assign(1)
    await until(lambda: held.held_back and caught_up(idle) and asked_for(it) == {0})
    return held


async def test_a_partition_that_is_held_back_is_forgotten_and_shortens_nobodys_polls() -> None:
    """Else every poll would return at once, with what nobody has room for."""
    async with world(fetch_wait_ms=100) as it:
        await held_back(it)
        await asyncio.sleep(0.1)
        it.source.asks.clear()
        await asyncio.sleep(1.0)
        assert len(it.source.asks) <= 12


async def test_a_partition_that_was_held_back_does_not_wait_for_the_end_of_a_long_poll() -> None:
    async with world(fetch_wait_ms=LONG_MS) as it:
        it.create(0, 1)
        it.assign(0)
        await until_busy_hangs(it)
        it.create(1, target_node=2)
        write(it.source.logs[place(1)], 300, value_bytes=1000)
        it.target.frozen.add(2)
        held = it.assign(1)
        await until(lambda: held.held_back, AT_ONCE_S)
        it.target.thaw(2)
        await until(lambda: it.is_copied(1), AT_ONCE_S)
        it.assert_identical(1)
        assert wanted(it) == {1}
        assert busy_hangs(it)  # it was left alone


async def test_a_partition_that_has_resynchronised_does_not_wait_for_the_end_of_a_long_poll() -> None:
    async with world(fetch_wait_ms=LONG_MS) as it:
        it.create(0, 1)
        it.create(1, 3)
        it.assign(0)
        await until_busy_hangs(it)
        copy = it.assign(1)
        await until(lambda: it.is_copied(1) and caught_up(copy), AT_ONCE_S)
        write(it.source.logs[place(1)], 3)
        await until(lambda: it.is_copied(1), AT_ONCE_S)
        assert wanted(it) == {1}
        assert busy_hangs(it)


async def test_what_is_fetched_aside_joins_the_session_when_its_long_poll_is_over() -> None:
    async with world(fetch_wait_ms=300) as it:
        it.create(0, 1)
        it.create(1, 3)
        it.assign(0)
        await until(lambda: len(polls(it)) >= 2)
        it.assign(1)
        await until(lambda: asked_for(it) == {0, 1})
        it.source.asks.clear()
        await asyncio.sleep(0.5)
        assert len(it.source.asks) == len(polls(it))


async def test_an_evicted_session_is_followed_by_a_full_request_and_nothing_else() -> None:
    async with world() as it:
        copies = await idle_lane(it, 3)
        interruptions = [copy.interruptions for copy in copies]
        it.source.asks.clear()
        it.source.sessions[1].forget_all()
        await until(lambda: any(ask.session_epoch == FIRST_EPOCH for ask in it.source.asks))
        await until(lambda: asked_for(it) == {0, 1, 2})
        assert len([ask for ask in it.source.asks if ask.session_epoch == FIRST_EPOCH]) == 1
        write(it.source.logs[place(1)], 3)
        await until(lambda: it.is_copied(1))
        assert [copy.interruptions for copy in copies] == interruptions
        assert not any(copy.trouble for copy in copies)


async def test_a_broker_that_keeps_no_session_is_told_everything() -> None:
    async with world() as it:
        it.source.slots = 0
        for partition in range(3):
            it.create(partition, 20)
            it.assign(partition)
        await until(lambda: all(it.is_copied(partition) for partition in range(3)))
        assert {ask.session_epoch for ask in polls(it)} == {FIRST_EPOCH}
        assert len(polls(it)[-1].wants) == 3


async def test_partitions_of_two_isolations_are_read_from_one_broker_each_by_its_own() -> None:
    async with world() as it:
        for partition, isolation in enumerate(Isolation):
            it.create(partition, 3)
            it.lane.assign(replace(spec_of(mirror(partition)), policy=LinkPolicy(isolation=isolation)))
        await until(lambda: all(it.is_copied(partition) for partition in range(len(Isolation))))
        assert it.source.isolations == set(Isolation)
