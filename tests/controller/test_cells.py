"""Attempts to fill gaps: reserved durably before they are granted, and never given twice (P2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping

import pytest

from heliograph.cluster.fenced_cells import Cell
from heliograph.cluster.standing import Placed, Seeking, Term
from heliograph.controller.cells import Begun, Cells, Mark
from heliograph.model.claims import Claims
from heliograph.model.clock import clock_of_waits
from heliograph.model.errors import BrokerRefused, Disconnected, RequestTimedOut
from heliograph.model.marker_label import ATTEMPTS
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

from .played import PlayedGroup

ORDERS, CLICKS = TopicPartition("orders", 0), TopicPartition("clicks", 3)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def member(name: str) -> Placed:
    return Placed(term=Term(generation=1, member=name), claims=Claims())


class Held:
    """Cells of who the group says that we are."""

    def __init__(
        self, group: PlayedGroup, flight_s: float, clock: Callable[[], float] = clock_of_waits
    ) -> None:
        self.cells, self._group = Cells(group, flight_s, clock), group

    @property
    def _me(self) -> str:
        standing = self._group.standing
        return standing.term.member if isinstance(standing, Placed) else "me"

    async def begin(
        self, wheres: Collection[TopicPartition], *, barrier: TopicPartition | None, above: int = 0
    ) -> Begun:
        return await self.cells.begin(wheres, member=self._me, barrier=barrier, above=above)

    async def reserve(self, wants: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return await self.cells.reserve(wants, member=self._me)

    async def attempts(self) -> Mapping[TopicPartition, int]:
        return await self.cells.attempts(member=self._me)

    async def leave(self, marks: Mapping[TopicPartition, Mark]) -> None:
        await self.cells.leave(marks, member=self._me)


def is_marked(group: PlayedGroup, where: TopicPartition) -> bool:
    return "clean" in group.committed[where].text


async def test_each_attempt_is_committed_before_it_is_granted_and_given_once() -> None:
    group = PlayedGroup()
    cells = Held(group, 30.0)
    given = [(await cells.reserve({ORDERS: -1}))[ORDERS] for _ in range(3)]
    assert len(set(given)) == 3
    assert given == sorted(given)
    assert group.committed[ORDERS].number == given[-1] + 1  # the next one


async def test_who_comes_next_goes_on_above_and_leaves_one_out_that_may_be_on_its_way() -> None:
    group = PlayedGroup()
    first = (await Held(group, 30.0).reserve({ORDERS: -1}))[ORDERS]
    group.standing = member("another")
    assert (await Held(group, 30.0).reserve({ORDERS: -1}))[ORDERS] == first + 2


async def test_a_new_term_of_the_same_run_reads_again() -> None:
    group = PlayedGroup()
    cells = Held(group, 30.0)
    await cells.reserve({ORDERS: -1})
    group.committed[ORDERS] = Cell(number=40, text="")  # somebody else held it in between
    group.standing = member("me again")
    assert (await cells.reserve({ORDERS: -1}))[ORDERS] == 41


async def test_a_topic_that_is_gained_within_a_term_is_read_anew() -> None:
    """Another run held it until now, and has reserved attempts that we have not read."""
    group = PlayedGroup()
    cells = Held(group, 30.0)
    await cells.reserve({CLICKS: -1})
    group.committed[ORDERS] = Cell(number=41, text="")
    assert (await cells.attempts())[ORDERS] == 40  # the link is prepared again
    assert (await cells.reserve({ORDERS: -1}))[ORDERS] == 42


async def test_what_the_target_has_seen_counts_though_the_cells_are_lost() -> None:
    given = await Held(PlayedGroup(), 30.0).reserve({ORDERS: 17, CLICKS: -1})
    assert given[ORDERS] > 17 + 1
    assert given[CLICKS] >= 0


async def test_a_cell_that_holds_no_attempt_is_none() -> None:
    group = PlayedGroup()
    group.committed = {ORDERS: Cell(number=0, text=""), CLICKS: Cell(number=3, text="")}
    assert await Held(group, 30.0).attempts() == {CLICKS: 2}


async def test_a_refused_commit_grants_nothing() -> None:
    group = PlayedGroup()
    group.fails = [BrokerRefused("fenced", code=ErrorCode.ILLEGAL_GENERATION)]
    cells = Held(group, 30.0)
    with pytest.raises(BrokerRefused):
        await cells.reserve({ORDERS: -1})
    assert ORDERS not in group.committed
    await cells.reserve({ORDERS: -1})


async def test_a_commit_without_an_answer_is_waited_out_and_its_attempt_never_given() -> None:
    group, clock = PlayedGroup(), Clock()
    cells = Held(group, 30.0, clock)
    lost = (await cells.reserve({ORDERS: -1}))[ORDERS] + 1
    group.fails = [Disconnected("gone")]
    with pytest.raises(Disconnected):
        await cells.reserve({ORDERS: -1})
    with pytest.raises(RequestTimedOut):
        await cells.reserve({ORDERS: -1})
    clock.now += 31.0
    assert (await cells.reserve({ORDERS: -1}))[ORDERS] > lost


async def test_without_a_place_in_the_election_nothing_is_reserved() -> None:
    group = PlayedGroup()
    group.standing = Seeking()
    with pytest.raises(BrokerRefused):
        await Held(group, 30.0).reserve({ORDERS: -1})


async def test_lanes_that_ask_at_once_are_given_different_attempts() -> None:
    cells = Held(PlayedGroup(), 30.0)
    given = await asyncio.gather(*(cells.reserve({ORDERS: -1}) for _ in range(5)))
    assert len({each[ORDERS] for each in given}) == 5


async def test_attempts_that_are_used_up_stay_at_the_last_one() -> None:
    given = await Held(PlayedGroup(), 30.0).reserve({ORDERS: ATTEMPTS - 2})
    assert given[ORDERS] == ATTEMPTS - 1


# -- terms and marks

BARRIER = TopicPartition("__heliograph_ledger", 0)


async def test_every_holder_has_a_higher_term_than_the_last() -> None:
    group = PlayedGroup()
    first = await Held(group, 30.0).begin([ORDERS, CLICKS], barrier=BARRIER)
    group.standing = member("another")
    second = await Held(group, 30.0).begin([ORDERS], barrier=BARRIER)
    third = await Held(group, 30.0).begin([ORDERS, CLICKS], barrier=BARRIER, above=40)
    assert first.term < second.term < third.term
    assert third.term > 40


async def test_a_term_leaves_attempts_as_they_are() -> None:
    group = PlayedGroup()
    cells = Held(group, 30.0)
    await cells.begin([ORDERS, CLICKS], barrier=BARRIER)
    assert await cells.attempts() == {}  # nobody has filled a gap
    given = await cells.reserve({ORDERS: -1})
    group.standing = member("another")
    await Held(group, 30.0).begin([ORDERS], barrier=BARRIER)
    assert group.committed[ORDERS].number == given[ORDERS] + 1


async def test_a_reservation_that_is_on_its_way_is_seen_behind_the_barrier() -> None:
    """A coordinator writes commits in order, and shows each when it is replicated."""
    group = PlayedGroup()
    await Held(group, 30.0).begin([ORDERS], barrier=BARRIER)
    group.standing, group.pending = member("another"), {ORDERS: Cell(number=7, text="")}
    cells = Held(group, 30.0)
    await cells.begin([ORDERS], barrier=BARRIER)
    assert (await cells.reserve({ORDERS: -1}))[ORDERS] > 6


async def test_without_a_barrier_the_first_partition_is_one_and_an_attempt_is_left_out_there() -> None:
    group = PlayedGroup()
    cells = Held(group, 30.0)
    given = await cells.reserve({ORDERS: -1, CLICKS: -1})
    group.standing = member("another")
    await Held(group, 30.0).begin([ORDERS, CLICKS], barrier=None)
    assert group.committed[CLICKS].number == given[CLICKS] + 2
    assert group.committed[ORDERS].number == given[ORDERS] + 1


async def test_a_mark_that_comes_to_light_late_does_not_outlive_the_next_beginning() -> None:
    """Its holder was gone before the coordinator had shown it; with a ledger and without."""
    for barrier in (BARRIER, None):
        group = PlayedGroup()
        await Held(group, 30.0).begin([ORDERS, CLICKS], barrier=barrier)
        text = '{"version": 1, "term": 1, "clean": [500, 0.0]}'
        group.standing, group.pending = member("another"), {ORDERS: Cell(number=0, text=text)}
        begun = await Held(group, 30.0).begin([ORDERS, CLICKS], barrier=barrier)
        assert begun.marks == {ORDERS: Mark(500, 0.0)}  # it was the last holder's, and true
        assert not is_marked(group, ORDERS)
        assert begun.term == 2


async def test_who_came_back_as_another_member_leaves_no_mark_and_takes_no_term() -> None:
    """Others may have held the partitions in between, and hold them now."""
    group = PlayedGroup()
    cells = Cells(group, 30.0)
    await cells.begin([ORDERS], member="me", barrier=BARRIER)
    group.standing = member("another")
    before = dict(group.committed)
    with pytest.raises(BrokerRefused):
        await cells.leave({ORDERS: Mark(500, 0.0)}, member="me")
    with pytest.raises(BrokerRefused):
        await cells.begin([ORDERS], member="me", barrier=BARRIER)
    with pytest.raises(BrokerRefused):
        await cells.reserve({ORDERS: -1}, member="me")
    assert group.committed == before


async def test_a_membership_that_is_lost_while_cells_are_read_commits_nothing() -> None:
    class Fickle(PlayedGroup):
        async def cells(self) -> dict[TopicPartition, Cell]:
            self.standing = member("another")
            return await super().cells()

    group = Fickle()
    with pytest.raises(BrokerRefused):
        await Cells(group, 30.0).leave({ORDERS: Mark(500, 0.0)}, member="me")
    assert not group.committed


async def test_a_commit_that_nobody_waits_for_any_more_is_over_before_the_next() -> None:
    group = PlayedGroup()
    cells = Cells(group, 30.0)
    await cells.begin([ORDERS], member="me", barrier=BARRIER)
    group.delays_s = [0.05]
    reserving = asyncio.create_task(cells.reserve({ORDERS: -1}, member="me"))
    await asyncio.sleep(0.01)
    reserving.cancel()
    given = await cells.reserve({ORDERS: -1}, member="me")
    assert group.committed[ORDERS].number == given[ORDERS] + 1  # the earlier one has not come after it


async def test_what_a_holder_leaves_behind_is_told_once() -> None:
    group = PlayedGroup()
    cells = Held(group, 30.0)
    await cells.begin([ORDERS, CLICKS], barrier=BARRIER)
    await cells.leave({ORDERS: Mark(500, 0.0), CLICKS: Mark(7, 12.5)})
    group.standing = member("another")
    heir = Held(group, 30.0)
    assert is_marked(group, CLICKS)
    assert (await heir.begin([ORDERS], barrier=BARRIER)).marks == {ORDERS: Mark(500, 0.0)}
    assert not is_marked(group, ORDERS)
    group.standing = member("a third")
    assert (await Held(group, 30.0).begin([ORDERS, CLICKS], barrier=BARRIER)).marks == {CLICKS: Mark(7, 12.5)}


async def test_a_reservation_erases_a_mark() -> None:
    group = PlayedGroup()
    cells = Held(group, 30.0)
    await cells.leave({ORDERS: Mark(500, 0.0)})
    group.standing = member("another")
    heir = Held(group, 30.0)
    await heir.begin([ORDERS], barrier=BARRIER)
    await heir.reserve({ORDERS: -1})
    assert not is_marked(group, ORDERS)


async def test_a_mark_of_another_version_is_not_trusted() -> None:
    group = PlayedGroup()
    for text in ('{"version": 2, "clean": [5, 0]}', '{"version": 1, "clean": "x"}', "nonsense", "[1]"):
        group.committed[ORDERS] = Cell(number=3, text=text)
        assert not (await Held(group, 30.0).begin([ORDERS], barrier=BARRIER)).marks


async def test_nobody_begins_while_a_commit_of_its_own_may_be_on_its_way() -> None:
    group, clock = PlayedGroup(), Clock()
    cells = Held(group, 30.0, clock)
    group.fails = [Disconnected("gone")]
    with pytest.raises(Disconnected):
        await cells.reserve({ORDERS: -1})
    with pytest.raises(RequestTimedOut):
        await cells.begin([ORDERS], barrier=BARRIER)
