"""Which lane holds what: one holder at a time, given only when the last one has let go, and with the right wait."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from heliograph.controller.placement import AWAY_LIMIT_S, HOME_AFTER_S, Give, Order, Placement, Take
from heliograph.copier.lease import ALIVE_S
from heliograph.model.partition import MirrorPartition

from .observed import copy, partition

SF, LAX = "sf-to-nyc", "sf-to-lax"
FLIGHT_S = {SF: 30.0, LAX: 7.0}
PARTS = [partition(n) for n in range(4)]
NO_LEASE = float("-inf")


class Story:
    """A placement, and what it has ordered since the last look."""

    def __init__(self, lanes: int = 2, parts: Iterable[MirrorPartition] = PARTS) -> None:
        self.now = 100.0
        self.placement = Placement(lanes, FLIGHT_S, self.now)
        self.stopped: set[MirrorPartition] = set()
        self.placement.adopt(SF, [copy(p, next_offset=100) for p in parts], self.now)

    def up(self, *lanes: int) -> Story:
        for lane in lanes:
            self.placement.lane_up(lane, self.now)
        return self

    def gone(
        self, lane: int, *, clean: bool = False, hung: bool = False, leased_s: float = NO_LEASE
    ) -> Story:
        until = self.now + leased_s
        self.placement.lane_gone(lane, self.now, clean=clean, hung=hung, leased_until=lambda _: until)
        return self

    def let_go(self, part: MirrorPartition, lane: int, *, clean: bool = True) -> Story:
        self.placement.let_go(part, lane, self.now, clean=clean)
        return self

    def after(self, seconds: float) -> Story:
        self.now += seconds
        return self

    def orders(self) -> list[Order]:
        return self.placement.orders(self.now, self.stopped.__contains__)

    def gives(self) -> dict[MirrorPartition, tuple[int, float]]:
        orders = self.orders()
        assert not [o for o in orders if isinstance(o, Take)]
        return {
            c.spec.partition: (o.lane, o.clear_in_s) for o in orders if isinstance(o, Give) for c in o.copies
        }

    def takes(self) -> dict[MirrorPartition, int]:
        orders = self.orders()
        assert not [o for o in orders if isinstance(o, Give)]
        return {p: o.lane for o in orders if isinstance(o, Take) for p in o.partitions}


def test_nothing_is_given_while_no_lane_is_up() -> None:
    assert Story().after(100).orders() == []


def test_partitions_are_given_home_and_spread_over_the_lanes_at_once_and_once() -> None:
    story = Story().up(0, 1)
    given = story.gives()
    assert sorted(lane for lane, _ in given.values()) == [0, 0, 1, 1]
    assert {clear_in_s for _, clear_in_s in given.values()} == {0.0}
    assert story.orders() == []


def test_a_lane_that_is_back_soon_gets_its_own_partitions_again() -> None:
    story = Story().up(0, 1)
    homes = story.gives()
    story.gone(0).after(AWAY_LIMIT_S - 0.1)
    assert story.orders() == []
    again = story.up(0).gives()
    assert {p: lane for p, (lane, _) in again.items()} == {
        p: 0 for p, (lane, _) in homes.items() if lane == 0
    }


def test_partitions_of_a_lane_that_stays_away_are_guests_of_the_others() -> None:
    story = Story().up(0, 1)
    story.gives()
    guests = story.gone(0).after(AWAY_LIMIT_S).gives()
    assert {lane for lane, _ in guests.values()} == {1}
    assert len(guests) == 2


def test_partitions_of_a_lane_that_hung_move_at_once() -> None:
    story = Story().up(0, 1)
    story.gives()
    assert {lane for lane, _ in story.gone(0, hung=True).gives().values()} == {1}


def test_guests_are_spread_evenly_over_the_lanes_that_are_up() -> None:
    story = Story(3, [partition(n) for n in range(12)]).up(0, 1, 2)
    story.gives()
    guests = story.gone(0).after(AWAY_LIMIT_S).gives()
    assert sorted(lane for lane, _ in guests.values()) == [1, 1, 2, 2]


def test_a_guest_is_taken_home_only_when_its_home_stays_up() -> None:
    story = Story().up(0, 1)
    story.gives()
    guests = story.gone(0, clean=True).after(AWAY_LIMIT_S).gives()
    story.up(0).after(HOME_AFTER_S - 0.1)
    assert story.orders() == []
    taken = story.after(0.1).takes()
    assert taken == dict.fromkeys(guests, 1)
    assert story.orders() == []  # asked once; not given before it is let go
    for part in guests:
        story.let_go(part, 1)
    assert story.gives() == dict.fromkeys(guests, (0, 0.0))


def test_a_home_that_comes_and_goes_gets_nothing_back() -> None:
    story = Story().up(0, 1)
    story.gives()
    story.gone(0).after(AWAY_LIMIT_S).gives()
    for _ in range(10):
        story.up(0).after(HOME_AFTER_S - 0.1)
        assert story.orders() == []
        story.gone(0).after(1)
    assert story.orders() == []


# -- what is on its way


@pytest.mark.parametrize("leased_s", [NO_LEASE, -3.0, 0.0])
def test_after_an_unclean_end_the_next_holder_waits_for_what_is_on_its_way(leased_s: float) -> None:
    story = Story().up(0, 1)
    story.gives()
    again = story.gone(0, leased_s=leased_s).up(0).gives()
    assert {clear_in_s for _, clear_in_s in again.values()} == {FLIGHT_S[SF]}


@pytest.mark.parametrize("hung", [True, False])
def test_nothing_is_given_while_a_lane_that_is_gone_may_hold_an_exclusive_lease(hung: bool) -> None:
    """Whoever had it next could append what the broker cannot compare, and so could the lane that is cut off."""
    story = Story().up(0, 1)
    story.gives()
    story.gone(0, hung=hung, leased_s=6.0)
    assert story.orders() == []
    assert story.up(0).after(5.9).orders() == []  # not even to its own successor
    given = story.after(0.1).gives()
    assert {lane for lane, _ in given.values()} == {0}
    goes_on_s = ALIVE_S if hung else 6.0
    for _, clear_in_s in given.values():
        assert clear_in_s == pytest.approx(goes_on_s + FLIGHT_S[SF] - 6.0)


@pytest.mark.parametrize(("leased_s", "goes_on_s"), [(NO_LEASE, ALIVE_S), (2 * ALIVE_S, 2 * ALIVE_S)])
def test_a_lane_that_hung_may_go_on_for_a_while_and_is_waited_for_longer(
    leased_s: float, goes_on_s: float
) -> None:
    story = Story().up(0, 1)
    story.gives()
    waited_s = max(leased_s, 0.0)
    moved = story.gone(0, hung=True, leased_s=leased_s).after(waited_s).gives()
    assert {clear_in_s for _, clear_in_s in moved.values()} == {goes_on_s + FLIGHT_S[SF] - waited_s}


def test_after_a_clean_end_nobody_waits() -> None:
    story = Story().up(0, 1)
    story.gives()
    moved = story.gone(0, hung=True, clean=True, leased_s=6.0).gives()
    assert {clear_in_s for _, clear_in_s in moved.values()} == {0.0}


def test_the_wait_counts_from_the_end_and_not_from_the_next_gift() -> None:
    story = Story().up(0, 1)
    story.gives()
    moved = story.gone(0, leased_s=6.0).after(20).gives()
    assert {clear_in_s for _, clear_in_s in moved.values()} == {16.0}
    assert {c for _, c in story.gone(1, clean=True).after(100).up(1).gives().values()} == {0.0}


def test_a_clean_end_does_not_shorten_the_wait_for_the_holder_before() -> None:
    story = Story(2, PARTS[:1]).up(0, 1)
    story.gives()
    ((_, first_wait_s),) = story.gone(0, leased_s=-1.0).up(0).gives().values()
    ((_, second_wait_s),) = story.gone(0, clean=True).after(1).up(0).gives().values()
    assert (first_wait_s, second_wait_s) == (30.0, 29.0)


@pytest.mark.parametrize(("clean", "waits_s"), [(True, 0.0), (False, 30.0)])
def test_what_a_lane_let_go_of_waits_for_its_flight_unless_all_was_answered(
    clean: bool, waits_s: float
) -> None:
    story = Story().up(0, 1)
    story.gives()
    story.gone(0).after(AWAY_LIMIT_S).gives()
    taken = story.up(0).after(2 * FLIGHT_S[SF]).takes()
    for part, lane in taken.items():
        story.let_go(part, lane, clean=clean)
    assert {clear_in_s for _, clear_in_s in story.gives().values()} == {waits_s}


def test_every_link_has_a_flight_of_its_own() -> None:
    story = Story(2, PARTS[:2])
    other = [partition(n, link=LAX) for n in range(2)]
    story.placement.adopt(LAX, [copy(p) for p in other], story.now)
    story.up(0, 1).gives()
    moved = story.gone(0).up(0).gives()
    assert {(p.link, clear_in_s) for p, (_, clear_in_s) in moved.items()} == {(SF, 30.0), (LAX, 7.0)}


def test_what_the_last_drivers_lanes_sent_is_waited_for() -> None:
    story = Story()
    story.placement.adopt(SF, [copy(p) for p in PARTS], story.now + 30)
    assert {clear_in_s for _, clear_in_s in story.up(0, 1).after(10).gives().values()} == {20.0}


def test_of_a_topic_that_was_created_just_now_nothing_is_waited_for() -> None:
    new = partition(0, topic="payments")
    story = Story(parts=[])
    story.placement.adopt(SF, [copy(PARTS[0]), copy(new)], story.now + 60, created={"payments"})
    waits = {part: clear_in_s for part, (_, clear_in_s) in story.up(0, 1).gives().items()}
    assert waits == {PARTS[0]: 60.0, new: 0.0}


def test_what_our_own_lane_sent_to_a_topic_that_was_created_again_is_waited_for() -> None:
    story = Story(parts=PARTS[:1]).up(0, 1)
    story.gives()
    story.gone(0).up(0)
    story.placement.adopt(SF, [copy(PARTS[0])], story.now + 60, created={PARTS[0].target_topic})
    assert {clear_in_s for _, clear_in_s in story.gives().values()} == {FLIGHT_S[SF]}


# -- links that come and go


def test_a_link_that_is_no_longer_ours_is_taken_from_its_lanes_and_given_to_nobody() -> None:
    story = Story().up(0, 1)
    given = story.gives()
    story.placement.drop(SF)
    taken = story.takes()
    assert taken == {part: lane for part, (lane, _) in given.items()}
    for part, lane in taken.items():
        story.let_go(part, lane)
    assert story.after(1_000).orders() == []


def test_a_link_that_is_ours_anew_is_taken_back_before_it_is_given_with_the_wait() -> None:
    """Another run may have been active in between: our lanes must learn to wait for what its lanes have sent."""
    story = Story().up(0, 1)
    given = story.gives()
    story.placement.adopt(SF, [copy(p, next_offset=100) for p in PARTS], story.now + 30)
    taken = story.takes()
    assert taken == {part: lane for part, (lane, _) in given.items()}
    for part, lane in taken.items():
        story.let_go(part, lane)
    assert {clear_in_s for _, clear_in_s in story.gives().values()} == {30.0}
    assert story.orders() == []


def test_a_partition_that_is_planned_no_more_is_taken_back() -> None:
    story = Story().up(0, 1)
    given = story.gives()
    story.placement.adopt(SF, [copy(p) for p in PARTS[1:]], story.now)
    taken = story.takes()
    for part, lane in taken.items():
        story.let_go(part, lane)
    assert PARTS[0] in taken
    assert set(story.gives()) == set(given) - {PARTS[0]}


def test_links_do_not_disturb_each_other() -> None:
    story = Story().up(0, 1)
    story.gives()
    story.placement.adopt(LAX, [copy(partition(0, link=LAX))], story.now)
    assert list(story.gives()) == [partition(0, link=LAX)]
    story.placement.drop(LAX)
    assert list(story.takes()) == [partition(0, link=LAX)]


# -- what has stopped, and words that mean nothing


def test_what_has_stopped_is_given_to_nobody() -> None:
    story = Story()
    story.stopped = {PARTS[0]}
    assert set(story.up(0, 1).gives()) == set(PARTS[1:])
    story.stopped = {PARTS[0], PARTS[1]}
    story.gone(0).gone(1).up(0, 1)
    assert set(story.gives()) == set(PARTS[2:])


def test_only_its_holder_can_let_go_of_a_partition_and_only_when_it_was_asked_to() -> None:
    story = Story().up(0, 1)
    given = story.gives()
    for part, (lane, _) in given.items():
        story.let_go(part, 1 - lane)
        story.let_go(part, lane)  # the answer of its predecessor, say
    story.let_go(partition(99), 0)
    assert story.orders() == []


class PlacementMachine(RuleBasedStateMachine):
    """Lanes come, go, hang and let go; a link is ours or not. The lanes' side is modelled beside it."""

    LANES = 3

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0
        self.placement = Placement(self.LANES, FLIGHT_S, self.now)
        self.up: set[int] = set()
        self.holders: dict[MirrorPartition, int] = {}
        self.asked: set[MirrorPartition] = set()
        self.busy_until: dict[MirrorPartition, float] = {}  # when all that was ever sent of it is over
        self.leased_until: dict[MirrorPartition, float] = {}  # by lanes that are gone, and did not end clean
        self.wanted: set[MirrorPartition] = set()
        self.known: set[MirrorPartition] = set()  # ever wanted
        self.stopped: set[MirrorPartition] = set()

    def settle(self) -> None:
        for order in self.placement.orders(self.now, self.stopped.__contains__):
            assert order.lane in self.up
            if isinstance(order, Take):
                for part in order.partitions:
                    assert self.holders[part] == order.lane
                    assert part not in self.asked
                    self.asked.add(part)
            else:
                for given in order.copies:
                    self.given(given.spec.partition, order.lane, order.clear_in_s)

    def given(self, part: MirrorPartition, lane: int, clear_in_s: float) -> None:
        assert part not in self.holders, "two holders of one partition"
        assert part in self.wanted - self.stopped
        assert self.now >= self.leased_until.get(part, NO_LEASE), "an exclusive lease beside another holder"
        busy_s = max(self.busy_until.get(part, 0.0) - self.now, 0.0)
        assert clear_in_s == pytest.approx(busy_s), "what is on its way is neither forgotten nor invented"
        self.holders[part] = lane

    def freed(self, part: MirrorPartition, over_at: float) -> None:
        del self.holders[part]
        self.asked.discard(part)
        self.busy_until[part] = max(self.busy_until.get(part, 0.0), over_at)

    @rule(lane=st.integers(0, LANES - 1))
    def lane_comes_up(self, lane: int) -> None:
        if lane not in self.up:
            self.up.add(lane)
            self.placement.lane_up(lane, self.now)
            self.settle()

    @rule(
        lane=st.integers(0, LANES - 1),
        clean=st.booleans(),
        hung=st.booleans(),
        leased_s=st.sampled_from([NO_LEASE, -5.0, 0.0, 3.0, 10.0]),
    )
    def lane_goes(self, lane: int, clean: bool, hung: bool, leased_s: float) -> None:
        if lane not in self.up:
            return
        self.up.remove(lane)
        until = self.now + leased_s
        self.placement.lane_gone(lane, self.now, clean=clean, hung=hung, leased_until=lambda _: until)
        for part in [p for p, holder in self.holders.items() if holder == lane]:
            goes_on_until = max(until, self.now + (ALIVE_S if hung else 0))
            if not clean:
                self.leased_until[part] = until
            self.freed(part, self.now if clean else goes_on_until + FLIGHT_S[part.link])
        self.settle()

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), clean=st.booleans())
    def lane_lets_go(self, data: st.DataObject, clean: bool) -> None:
        part = data.draw(st.sampled_from(sorted(self.asked)))
        self.placement.let_go(part, self.holders[part], self.now, clean=clean)
        self.freed(part, self.now if clean else self.now + FLIGHT_S[part.link])
        self.settle()

    @rule(part=st.sampled_from(PARTS), lane=st.integers(0, LANES - 1))
    def word_of_a_lane_that_holds_nothing_means_nothing(self, part: MirrorPartition, lane: int) -> None:
        if part not in self.asked:
            self.placement.let_go(part, lane, self.now, clean=True)
            self.settle()

    @rule(
        link=st.sampled_from([SF, LAX]),
        parts=st.sets(st.integers(0, 3)),
        others_s=st.sampled_from([0.0, 30.0]),
        created=st.booleans(),
    )
    def link_is_ours(self, link: str, parts: set[int], others_s: float, created: bool) -> None:
        mine = {partition(n, link=link) for n in parts}
        topics = {PARTS[0].target_topic} if created else set()
        self.placement.adopt(link, [copy(p) for p in sorted(mine)], self.now + others_s, topics)
        self.wanted = {p for p in self.wanted if p.link != link} | mine
        self.known |= mine
        # Also of those that are not wanted now: others drove all of the link.
        for part in () if created else (part for part in self.known if part.link == link):
            self.busy_until[part] = max(self.busy_until.get(part, 0.0), self.now + others_s)
        self.settle()

    @rule(link=st.sampled_from([SF, LAX]))
    def link_is_anothers(self, link: str) -> None:
        self.placement.drop(link)
        self.wanted = {p for p in self.wanted if p.link != link}
        self.settle()

    @rule(part=st.sampled_from(PARTS))
    def partition_stops(self, part: MirrorPartition) -> None:
        self.stopped.add(part)

    @rule(seconds=st.sampled_from([0.1, 1.0, 5.0, 60.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.settle()

    @rule()
    def every_wanted_partition_ends_up_held(self) -> None:
        """Once a lane is up for long enough, and lanes do what they are asked to."""
        if not self.up:
            return
        for _ in range(4):  # longer than any lease
            for part in sorted(self.asked):
                self.placement.let_go(part, self.holders[part], self.now, clean=True)
                self.freed(part, self.now)
            self.now += max(AWAY_LIMIT_S, HOME_AFTER_S)
            self.settle()
        assert not self.asked
        assert self.wanted - self.stopped <= set(self.holders)
        assert set(self.holders) <= self.wanted

    @invariant()
    def holders_are_up(self) -> None:
        assert set(self.holders.values()) <= self.up


PlacementMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestPlacementMachine = PlacementMachine.TestCase


def test_what_is_not_copied_is_clear_no_sooner_than_what_the_last_driver_sent_is_over() -> None:
    """Ours once, then another driver's, and ours again, but stopped or paused by now: no lane of ours is given it."""
    story = Story(parts=PARTS[:1]).up(0, 1)
    story.gives()
    story.placement.drop(SF)
    story.orders()
    story.placement.let_go(PARTS[0], 0, story.now, clean=True)
    assert story.placement.over_at(PARTS[0]) == story.now
    story.placement.adopt(SF, [], story.now + 60)
    assert story.placement.over_at(PARTS[0]) == story.now + 60


def test_a_partition_that_is_released_is_taken_and_given_to_nobody_until_it_is_wanted_again() -> None:
    story = Story(parts=PARTS[:1]).up(0, 1)
    story.gives()
    assert not story.placement.is_free(PARTS[0])
    story.placement.release([PARTS[0]])
    assert [type(order) for order in story.orders()] == [Take]
    story.placement.let_go(PARTS[0], 0, story.now, clean=True)
    assert story.placement.is_free(PARTS[0])
    assert not story.orders()
    story.placement.extend([copy(PARTS[0])])
    assert list(story.gives()) == [PARTS[0]]


def test_more_of_a_link_is_given_to_the_lane_that_has_least_once_the_last_driver_is_over() -> None:
    story = Story(parts=[]).up(0, 1)
    story.placement.adopt(SF, [], story.now + 60, sooner={PARTS[2]: story.now + 5})
    created = MirrorPartition(SF, "new", "new", 0)
    story.placement.extend([copy(PARTS[1]), copy(PARTS[2]), copy(created)], created={"new"})
    waits = {key: clear_in_s for key, (_, clear_in_s) in story.gives().items()}
    assert waits == {PARTS[1]: 60.0, PARTS[2]: 5.0, created: 0.0}


def test_what_nobody_ever_held_is_over_when_the_last_driver_is() -> None:
    story = Story(parts=PARTS[:1])
    assert story.placement.over_at(PARTS[3]) <= story.now
    story.placement.adopt(SF, [], story.now + 60)
    assert story.placement.over_at(PARTS[3]) == story.now + 60
