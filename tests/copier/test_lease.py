"""A lane's lease: counted from when it was asked for, by a clock that the test turns."""

from __future__ import annotations

import math
import time

import pytest

from heliograph.copier.lease import ALIVE_S, Lease
from heliograph.model.clock import clock_of_suspended_time

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


def test_without_a_driver_a_lease_never_ends() -> None:
    lease = Lease.unlimited()
    assert lease.exclusive
    assert lease.alive


def test_the_clock_never_stands_still_and_never_jumps_with_the_time_of_day() -> None:
    begun = clock_of_suspended_time()
    time.sleep(0.02)
    assert 0.01 < clock_of_suspended_time() - begun < 10
    assert math.isfinite(begun)
