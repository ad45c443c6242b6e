"""A lane's lease: counted from when it was asked for, by a clock that the test turns."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from inspect import signature

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.cluster.election import Election
from heliograph.controller import mirror
from heliograph.copier.lease import ALIVE_S, Lease
from heliograph.engine import lane_orders
from heliograph.engine.lanes import Lanes
from heliograph.model.clock import JUMP_S, HoldingClock, clock_of_suspended_time, clock_of_waits

from .lane_world import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


def is_exclusive(lease: Lease) -> bool:
    """Read anew: a type checker believes that what it saw once stays."""
    return lease.exclusive


def is_alive(lease: Lease) -> bool:
    return lease.alive


def test_nothing_is_sent_before_the_drivers_first_word(clock: Clock) -> None:
    lease = Lease(clock)
    assert not lease.exclusive
    assert not lease.alive
    lease.renew(clock.now, 0)
    assert not lease.exclusive
    assert lease.alive


def test_a_lease_counts_from_the_time_it_was_asked_for_however_late_the_answer_is(clock: Clock) -> None:
    lease = Lease(clock)
    asked_at = clock.now
    clock.now += 7
    lease.renew(asked_at, 10)
    clock.now = asked_at + 9.9
    assert is_exclusive(lease)
    clock.now = asked_at + 10
    assert not is_exclusive(lease)


def test_an_answer_that_is_too_late_gives_nothing(clock: Clock) -> None:
    lease = Lease(clock)
    asked_at = clock.now
    clock.now += 10
    lease.renew(asked_at, 10)
    assert not lease.exclusive


def test_an_answer_that_comes_out_of_order_shortens_nothing(clock: Clock) -> None:
    lease = Lease(clock)
    lease.renew(clock.now, 10)
    lease.renew(clock.now - 5, 10)
    clock.now += 9.9
    assert lease.exclusive


def test_a_lease_that_lapsed_is_renewed_by_the_next_answer(clock: Clock) -> None:
    lease = Lease(clock)
    lease.renew(clock.now, 10)
    clock.now += 30
    assert not is_exclusive(lease)
    lease.renew(clock.now, 10)
    assert is_exclusive(lease)


def test_alive_lasts_30_seconds_from_the_last_word_asked_for(clock: Clock) -> None:
    assert ALIVE_S == 30
    lease = Lease(clock)
    clock.now += 100
    lease.renew(clock.now, 0)
    clock.now += ALIVE_S - 0.1
    assert is_alive(lease)
    assert not is_exclusive(lease)
    clock.now += 0.1
    assert not is_alive(lease)


def test_a_lease_is_missed_from_when_it_is_first_needed_in_vain(clock: Clock) -> None:
    """Not from when there was none: a link of fresh records alone needs none for days, and asks for none."""
    lease = Lease(clock)
    clock.now += 100
    assert lease.missed_s(exclusive=True) == 0.0
    clock.now += 2
    assert lease.missed_s(exclusive=True) == 2.0
    lease.renew(clock.now, 6.0)
    clock.now += 50
    assert not lease.exclusive
    assert lease.missed_s(exclusive=True) == 0.0
    lease.renew(clock.now, 0.0)  # a word that grants nothing
    clock.now += 3
    assert lease.missed_s(exclusive=True) == 3.0


def test_a_word_of_the_driver_ends_what_fresh_records_missed(clock: Clock) -> None:
    lease = Lease(clock)
    lease.missed_s(exclusive=False)
    clock.now += 10
    lease.renew(clock.now, 0.0)
    clock.now += ALIVE_S + 1
    assert lease.missed_s(exclusive=False) == 0.0


def test_without_a_driver_a_lease_never_ends() -> None:
    lease = Lease.unlimited()
    assert lease.exclusive
    assert lease.alive


# -- a machine that was paused: its own clocks have missed it, the time of day is set right afterwards


class Machine:
    """Its two clocks, and the lease of a lane on it that was just renewed for 6 s."""

    def __init__(self) -> None:
        self.steady, self.wall = Clock(), Clock()
        self.clock = HoldingClock(self.steady, self.wall)
        self.lease = Lease(self.clock)
        self.renew()

    def run(self, seconds: float) -> None:
        self.steady.now += seconds
        self.wall.now += seconds

    def set_time_of_day(self, by_s: float) -> None:
        self.wall.now += by_s

    def renew(self) -> None:
        self.lease.renew(self.clock(), 6.0)


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_a_pause_that_only_the_time_of_day_shows_ends_a_lease(machine: Machine) -> None:
    machine.set_time_of_day(60)
    assert not is_exclusive(machine.lease)
    assert not is_alive(machine.lease)


def test_an_answer_to_what_was_asked_before_a_pause_gives_nothing_after_it(machine: Machine) -> None:
    asked_at = machine.clock()
    machine.set_time_of_day(60)
    machine.lease.renew(asked_at, 6.0)
    assert not is_exclusive(machine.lease)
    assert not is_alive(machine.lease)


def test_what_is_asked_after_a_pause_counts_as_ever(machine: Machine) -> None:
    machine.set_time_of_day(60)
    machine.renew()
    machine.run(5.9)
    assert is_exclusive(machine.lease)
    machine.run(0.1)
    assert not is_exclusive(machine.lease)


def test_a_pause_takes_no_more_than_its_own_length(machine: Machine) -> None:
    machine.set_time_of_day(10)
    assert not is_exclusive(machine.lease)
    assert is_alive(machine.lease)  # of its 30 s 20 are left
    machine.run(19.9)
    assert is_alive(machine.lease)
    machine.run(0.1)
    assert not is_alive(machine.lease)


@pytest.mark.parametrize("by_s", [0.5, JUMP_S, -0.5, -60.0])
def test_small_steps_and_steps_back_of_the_time_of_day_end_no_lease(machine: Machine, by_s: float) -> None:
    machine.set_time_of_day(by_s)
    machine.run(5.9)
    assert is_exclusive(machine.lease)
    machine.run(0.1)
    assert not is_exclusive(machine.lease)  # and prolong none


def test_small_steps_add_up(machine: Machine) -> None:
    for _ in range(6):
        machine.set_time_of_day(1.0)
        machine.clock()
    assert not is_exclusive(machine.lease)


def test_what_somebody_else_has_counted_ends_a_lease_and_counts_once(machine: Machine) -> None:
    """Heartbeats that waited while the machine stood still for 10 s: each tells what time it must be."""
    begun = machine.clock()
    stood_s = [machine.clock.at_least(begun + counted_s) for counted_s in range(11)]
    assert sum(stood_s) == 9  # what is left is noise
    assert machine.clock() == begun + 9
    assert not is_exclusive(machine.lease)


@pytest.mark.parametrize("late_s", [-5.0, 0.0, JUMP_S])
def test_who_has_counted_less_or_hardly_more_tells_nothing(machine: Machine, late_s: float) -> None:
    assert machine.clock.at_least(machine.clock() + late_s) == 0.0
    machine.run(5.9)
    assert is_exclusive(machine.lease)


def test_a_step_back_hides_no_pause_that_follows(machine: Machine) -> None:
    machine.set_time_of_day(-60)
    machine.renew()
    machine.set_time_of_day(60)
    assert not is_exclusive(machine.lease)


@given(
    st.lists(
        st.tuples(st.floats(0, 100), st.floats(-1000, 1000)),
        max_size=20,
    )
)
def test_the_clock_of_what_is_held_is_never_behind_the_one_of_waits_and_never_goes_back(
    steps: list[tuple[float, float]],
) -> None:
    machine = Machine()
    seen = machine.clock()
    for run_s, by_s in steps:
        machine.run(run_s)
        machine.set_time_of_day(by_s)
        now = machine.clock()
        assert now >= seen + run_s - 1e-6
        assert now >= machine.steady()
        seen = now


def test_what_is_held_and_what_is_waited_out_are_counted_by_their_own_clocks() -> None:
    for holder in (Lease, Election):
        assert signature(holder).parameters["clock"].default is clock_of_suspended_time
    assert vars(lane_orders)["clock_of_suspended_time"] is clock_of_suspended_time
    assert signature(Lanes).parameters["clock"].default is clock_of_suspended_time
    assert vars(mirror)["clock_of_waits"] is clock_of_waits
    assert "clock_of_suspended_time" not in vars(mirror)


@pytest.mark.parametrize("clock", [clock_of_suspended_time, clock_of_waits])
def test_a_real_clock_goes_on(clock: Callable[[], float]) -> None:
    begun = clock()
    time.sleep(0.02)
    assert 0.01 < clock() - begun < 10
    assert math.isfinite(begun)
