"""Bytes in flight are bounded, given in order, and given back exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.copier.budget import ByteBudget, Parcel, Shares, hold_merged, merging_room


async def turns(rounds: int = 5) -> None:
    """Let everything run that can."""
    for _ in range(rounds):
        await asyncio.sleep(0)


def start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(work)


async def test_what_fits_is_given_at_once() -> None:
    budget = ByteBudget(100)
    await budget.reserve(60)
    await budget.reserve(40)
    assert budget.used_bytes == 100


async def test_what_does_not_fit_waits_until_enough_is_given_back() -> None:
    budget = ByteBudget(100)
    await budget.reserve(60)
    waiting = start(budget.reserve(50))
    await turns()
    assert not waiting.done()
    budget.release(5)
    await turns()
    assert not waiting.done()
    budget.release(5)
    await waiting
    assert budget.used_bytes == 100


async def test_who_came_first_goes_first_however_small_the_next_is() -> None:
    budget = ByteBudget(100)
    await budget.reserve(90)
    large = start(budget.reserve(50))
    small = start(budget.reserve(1))
    await turns()
    assert not small.done()
    budget.release(90)
    await asyncio.gather(large, small)


async def test_something_larger_than_all_passes_when_all_is_free() -> None:
    budget = ByteBudget(100)
    await budget.reserve(1)
    huge = start(budget.reserve(1000))
    await turns()
    assert not huge.done()
    budget.release(1)
    await huge
    budget.release(1000)
    assert budget.used_bytes == 0


async def test_a_smaller_answer_frees_the_rest() -> None:
    budget = ByteBudget(100)
    await budget.reserve(100)
    waiting = start(budget.reserve(70))
    await turns()
    budget.adjust(100, 30)
    await waiting
    assert budget.used_bytes == 100


async def test_who_gives_up_waiting_takes_nothing() -> None:
    budget = ByteBudget(100)
    await budget.reserve(100)
    waiting = start(budget.reserve(50))
    await turns()
    waiting.cancel()
    await turns()
    budget.release(100)
    assert budget.used_bytes == 0


async def test_who_gives_up_in_the_moment_of_its_turn_gives_it_back() -> None:
    budget = ByteBudget(100)
    await budget.reserve(100)
    waiting = start(budget.reserve(50))
    await turns()
    budget.release(100)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert budget.used_bytes == 0


async def test_who_gave_up_holds_nobody_back() -> None:
    """Behind a large one that waits stand small ones: when it gives up, what is free is theirs."""

    budget = ByteBudget(100)
    await budget.reserve(50)
    large = start(budget.reserve(80))
    small = start(budget.reserve(30))
    await turns()
    large.cancel()
    await turns()
    assert small.done()


def test_a_parcel_is_given_back_when_its_last_holder_lets_go() -> None:
    budget = ByteBudget(100)
    budget.adjust(0, 40)
    parcel = Parcel(budget, 40)
    parcel.hold()
    parcel.hold()
    parcel.release()
    parcel.release()
    assert budget.used_bytes == 40
    parcel.release()
    assert budget.used_bytes == 0


def test_a_broker_that_hangs_leaves_memory_for_what_is_merged_for_others() -> None:
    budget = ByteBudget(100, merged_limit_bytes=40)
    shares = Shares(budget, on_turn=lambda _: None)
    hanging, other = shares.of(1), shares.of(2)
    hanging.join()
    other.join()
    assert merging_room(budget, hanging) == 20
    holds = [hold_merged(budget, 5, hanging) for _ in range(4)]
    assert (merging_room(budget, hanging), merging_room(budget, other)) == (0, 20)
    for hold in holds:
        hold.release()
    assert (budget.merged_bytes, hanging.merged_bytes) == (0, 0)
    assert merging_room(budget, hanging) == 20


def test_shares_that_were_given_before_there_were_others_leave_what_is_left() -> None:
    budget = ByteBudget(100, merged_limit_bytes=40)
    shares = Shares(budget, on_turn=lambda _: None)
    for broker in (1, 2):
        shares.of(broker).join()
        hold_merged(budget, 20, shares.of(broker))
    shares.of(3).join()
    assert merging_room(budget, shares.of(3)) == 0


def test_letting_go_once_too_often_is_our_own_bug() -> None:
    parcel = Parcel(ByteBudget(100), 0)
    parcel.release()
    with pytest.raises(AssertionError):
        parcel.release()


def test_giving_back_what_was_never_taken_is_our_own_bug() -> None:
    with pytest.raises(AssertionError):
        ByteBudget(100).release(1)


@settings(deadline=None, max_examples=60)
@given(
    limit=st.integers(1, 100),
    sizes=st.lists(st.integers(0, 150), min_size=1, max_size=12),
    given_up=st.sets(st.integers(0, 11)),
)
def test_any_mix_of_takers_stays_in_the_limit_and_ends_at_zero(
    limit: int, sizes: list[int], given_up: set[int]
) -> None:
    async def story() -> None:
        budget = ByteBudget(limit)
        order: list[int] = []

        async def take(number: int, size_bytes: int) -> None:
            await budget.reserve(size_bytes)
            order.append(number)
            assert budget.used_bytes <= max(limit, size_bytes)
            await turns(2)
            budget.release(size_bytes)

        takers = [start(take(number, size)) for number, size in enumerate(sizes)]
        await turns(1)
        for number in given_up:
            if number < len(takers) and number not in order:
                takers[number].cancel()
        await asyncio.wait_for(asyncio.gather(*takers, return_exceptions=True), 5)
        assert budget.used_bytes == 0
        assert order == sorted(order)

    asyncio.run(story())
