"""Which line an append goes on: several to a broker, careful ones for perishable batches, patient ones for partitions
whose followers are slow. That no partition is ever on two at once is asserted by the lines themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from heliograph.cluster.line_name import LineName
from heliograph.copier import lane as lane_module
from heliograph.copier.lease import ALIVE_S, Lease
from heliograph.copier.phases import Phase
from heliograph.copier.workers import line_of
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

from .lane_world import BOUND_S, LINK, Clock, World, mirror, place, until, world, write
from .source_batches import NOW_MS, OLD_MS

ORDINARY = line_of(place(0), careful=False, slow=False)
PATIENT = line_of(place(0), careful=False, slow=True)


def lines_of(it: World, partition: int) -> list[LineName]:
    """In order, without repetition."""
    names = [sent.line for sent in it.target.deliveries if sent.where == place(partition)]
    return [name for n, name in enumerate(names) if n == 0 or names[n - 1] != name]


def time_out_once(it: World, partition: int) -> None:
    """The followers of this partition are too slow for its next append."""
    left = [ErrorCode.REQUEST_TIMED_OUT]

    def fault(where: TopicPartition) -> int | None:
        return left.pop() if left and where == place(partition) else None

    it.target.fault = fault


async def test_a_brokers_partitions_share_two_lines() -> None:
    async with world() as it:
        for partition in range(4):
            it.create(partition, 5)
            it.assign(partition)
        await until(lambda: all(it.is_copied(partition) for partition in range(4)))
        assert {sent.line for sent in it.target.deliveries} == {LineName(0), LineName(1)}
        assert all(len(lines_of(it, partition)) == 1 for partition in range(4))


async def test_partitions_without_followers_share_one_line() -> None:
    """There is nobody to wait for, and fewer requests hold more."""

    async with world() as it:
        it.target.unreplicated.add("orders")
        for partition in range(4):
            it.create(partition, 5)
            it.assign(partition)
        await until(lambda: all(it.is_copied(partition) for partition in range(4)))
        assert {sent.line for sent in it.target.deliveries} == {LineName(0)}


async def test_perishable_batches_go_on_careful_lines_and_fresh_ones_never() -> None:
    async with world() as it:
        for partition in range(4):
            it.create(partition, 3, timestamp=OLD_MS)
            write(it.source.logs[place(partition)], 3)
            write(it.source.logs[place(partition)], 3, timestamp=OLD_MS)
            it.assign(partition)
        await until(lambda: all(it.is_copied(partition) for partition in range(4)))
        for partition in range(4):
            it.assert_identical(partition)
            number = partition % 2
            careful, ordinary = LineName(number, careful=True), LineName(number)
            assert lines_of(it, partition) == [careful, ordinary, careful]


async def test_a_partition_whose_followers_are_slow_goes_on_by_a_patient_line_alone() -> None:
    async with world() as it:
        it.create(0, 5)
        it.create(2, 5)
        time_out_once(it, 0)
        it.assign(0)
        it.assign(2)
        await until(lambda: it.is_copied(0) and it.is_copied(2))
        write(it.source.logs[place(0)], 5)
        write(it.source.logs[place(2)], 5)
        await until(lambda: it.is_copied(0) and it.is_copied(2))
        assert lines_of(it, 0) == [ORDINARY, PATIENT]
        assert lines_of(it, 2) == [ORDINARY]
        it.assert_identical(0)


async def test_a_minute_is_how_long_a_partition_stays_on_a_patient_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert lane_module.SLOW_FOR_S == 60
    monkeypatch.setattr(lane_module, "SLOW_FOR_S", 0.2)

    async with world() as it:
        it.create(0, 5)
        time_out_once(it, 0)
        it.assign(0)
        await until(lambda: it.is_copied(0))
        await asyncio.sleep(0.25)
        write(it.source.logs[place(0)], 5)
        await until(lambda: it.is_copied(0))
        assert lines_of(it, 0) == [ORDINARY, PATIENT, ORDINARY]
        it.assert_identical(0)


async def test_a_partition_changes_its_line_only_when_no_answer_is_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lane_module, "SLOW_FOR_S", 0.2)

    async with world() as it:
        it.create(0, 5)
        time_out_once(it, 0)
        it.assign(0)
        await until(lambda: it.is_copied(0))
        patient = it.target.line(1, PATIENT)
        patient.frozen = True
        write(it.source.logs[place(0)], 3)
        await until(lambda: not patient.idle)
        await asyncio.sleep(0.25)
        write(it.source.logs[place(0)], 3)
        await asyncio.sleep(0.1)
        assert lines_of(it, 0) == [ORDINARY, PATIENT]
        patient.thaw()
        await until(lambda: it.is_copied(0))
        it.assert_identical(0)


async def test_the_line_that_a_partition_left_sends_nothing_of_it_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was offered to a patient line whose connection took its time; when that stands, it is long elsewhere."""
    monkeypatch.setattr(lane_module, "SLOW_FOR_S", 0.2)

    async with world() as it:
        it.create(0, 5)
        time_out_once(it, 0)
        it.target.line_open[PATIENT] = asyncio.Event()
        it.assign(0)
        await until(lambda: it.is_copied(0))
        ordinary = it.target.line(1, ORDINARY)
        ordinary.frozen = True
        write(it.source.logs[place(0)], 20)  # more than may be in flight: the others wait
        await until(lambda: not ordinary.idle)
        it.target.line_open[PATIENT].set()
        await asyncio.sleep(0.1)
        ordinary.thaw()
        await until(lambda: it.is_copied(0))
        assert lines_of(it, 0) == [ORDINARY]
        it.assert_identical(0)


async def test_slow_followers_of_one_partition_hold_up_nobody_else() -> None:
    async with world() as it:
        for partition in (0, 2):
            it.create(partition, 5)
        time_out_once(it, 0)
        it.target.line(1, PATIENT).frozen = True
        it.assign(0)
        it.assign(2)
        await until(lambda: it.is_copied(2))
        write(it.source.logs[place(2)], 5)
        await until(lambda: it.is_copied(2))
        assert not it.is_copied(0)


@pytest.mark.parametrize(("careful", "left"), [(False, True), (True, False)])
async def test_a_line_held_up_by_slow_followers_is_left_unless_what_is_lost_would_wait_for_longer(
    careful: bool, left: bool
) -> None:
    """Batches of the slow partition that are behind on the line would be waited for one after the other."""

    async with world() as it:
        it.create(0, 5, timestamp=OLD_MS if careful else NOW_MS)
        line = it.target.line(1, line_of(place(0), careful=careful, slow=False))
        time_out_once(it, 0)
        it.assign(0)
        await until(lambda: it.is_copied(0))
        assert line.closed is left
        it.assert_identical(0)


@pytest.mark.parametrize("known", [True, False])
async def test_the_target_topics_id_goes_with_every_append(known: bool) -> None:
    topic_id = UUID(int=77)

    async with world() as it:
        if known:
            it.target.topic_ids["orders"] = str(topic_id)
        it.create(0, 5)
        it.assign(0)
        await until(lambda: it.is_copied(0))
        assert {sent.topic_id for sent in it.target.deliveries} == {topic_id.bytes if known else b""}


@asynccontextmanager
async def hanging_leader_replaced(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """The old leader of partition 0 owes answers, and has just got a successor."""
    monkeypatch.setattr(lane_module, "OLD_LEADER_S", 0.05)
    async with world() as it:
        it.create(0, 5)
        hangs = it.target.line(1, ORDINARY)
        hangs.frozen = True
        it.assign(0)
        await until(lambda: not hangs.idle)
        it.target.move(place(0), 2)
        await it.target.refresh()
        yield it


async def test_a_leader_that_hangs_and_was_replaced_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with hanging_leader_replaced(monkeypatch) as it:
        await until(lambda: it.is_copied(0))
        it.assert_identical(0)


async def test_a_hanging_leader_that_was_replaced_holds_up_no_partition_that_is_taken_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with hanging_leader_replaced(monkeypatch) as it:
        clean = await asyncio.wait_for(it.lane.revoke(mirror(0)), BOUND_S)
        assert not clean  # what it owes an answer for may still arrive


async def test_the_lines_of_an_old_leader_stay_open_when_the_copy_goes_on_at_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is owed nothing there; others are."""
    monkeypatch.setattr(lane_module, "OLD_LEADER_S", 0.3)

    async with world() as it:
        for partition in (0, 2):
            it.create(partition, 5)
            it.assign(partition)
        await until(lambda: it.is_copied(0) and it.is_copied(2))
        old, new = it.target.line(1, ORDINARY), it.target.line(2, ORDINARY)
        old.frozen = new.frozen = True
        write(it.source.logs[place(2)], 5)
        await until(lambda: old.holds(place(2)))
        it.target.move(place(0), 2)
        await it.target.refresh()
        write(it.source.logs[place(0)], 5)
        await until(lambda: new.holds(place(0)))  # no answer is due but the new leader's
        await asyncio.sleep(0.35)
        assert not it.lane.copies[mirror(0)].settled
        assert not old.closed
        assert it.lane.copies[mirror(2)].clear
        old.thaw()
        new.thaw()
        await until(lambda: it.is_copied(0) and it.is_copied(2))
        it.assert_identical(0)


async def test_a_new_epoch_of_the_same_leader_closes_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answers come late, and they come: others wait for theirs on the same line."""
    monkeypatch.setattr(lane_module, "OLD_LEADER_S", 0.05)

    async with world() as it:
        line = it.target.line(1, ORDINARY)
        line.frozen = True
        for partition in (0, 2):
            it.create(partition, 5)
            it.assign(partition)
        await until(lambda: line.holds(place(0)) and line.holds(place(2)))
        it.target.move(place(0), 1)
        await it.target.refresh()
        await asyncio.sleep(0.1)
        assert it.lane.copies[mirror(0)].phase is Phase.DRAIN
        assert not line.closed
        line.thaw()
        await until(lambda: it.is_copied(0) and it.is_copied(2))
        it.assert_identical(0)
        assert all(it.lane.copies[mirror(partition)].clear for partition in (0, 2))


@pytest.mark.parametrize(("timestamp", "careful"), [(NOW_MS, False), (OLD_MS, True)], ids=["fresh", "old"])
async def test_a_driver_that_was_silent_for_too_long_closes_every_line_and_its_next_word_goes_on(
    timestamp: int, careful: bool
) -> None:
    """What is not with the broker by then must not arrive: another lane may have the partition."""

    clock = Clock()
    async with world(lease=Lease(clock), flight_ms=200) as it:
        it.lane.renew(LINK, clock.now, ALIVE_S if careful else 0)
        it.create(0, 5, timestamp=timestamp)
        line = it.target.line(1, line_of(place(0), careful=careful, slow=False))
        line.frozen = True
        it.assign(0)
        await until(lambda: not line.idle)
        clock.now += ALIVE_S - 0.1
        it.lane.lapse()
        assert not line.closed
        clock.now += 0.1
        it.lane.lapse()
        assert line.closed
        await asyncio.sleep(0.3)
        assert it.target.logs[place(0)].end == 0
        it.lane.renew(LINK, clock.now, ALIVE_S)
        await until(lambda: it.is_copied(0))
        it.assert_identical(0)


async def test_a_lapse_of_one_link_closes_no_line_of_another() -> None:
    clock = Clock()
    async with world(lease=Lease(clock)) as it:
        other = it.second_link()
        silent, heard = it.target.line(1, ORDINARY), other.target.line(1, ORDINARY)
        silent.frozen = heard.frozen = True
        it.lane.renew(LINK, clock.now, 0)
        for each in (it, other):
            each.create(0, 5)
            each.assign(0)
        await until(lambda: not silent.idle and not heard.idle)
        clock.now += ALIVE_S
        it.lane.lapse()
        assert (silent.closed, heard.closed) == (True, False)
