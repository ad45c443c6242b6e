"""At first a fetcher rests after small answers, as long as brokers are slow."""

from __future__ import annotations

import asyncio

import pytest

from heliograph.copier import pace
from heliograph.copier.pace import EAGER_AFTER_S, MOST_REST_S, SMALL_BYTES, Pace

from .lane_world import place, until, world, write


def paced(append_s: float) -> Pace:
    made = Pace()
    made.append_s = append_s
    return made


def test_the_slower_appends_are_the_longer_is_the_rest_up_to_a_limit() -> None:
    assert paced(0.0).rest_s(0.0, 100) == 0.0
    assert paced(0.0004).rest_s(0.0, 100) == 0.0008
    assert paced(5.0).rest_s(0.0, 100) == MOST_REST_S


def test_nobody_rests_for_long_or_after_much_or_after_nothing() -> None:
    slow = paced(5.0)
    assert slow.rest_s(EAGER_AFTER_S, 100) == 0.0
    assert slow.rest_s(0.0, SMALL_BYTES) == 0.0
    assert slow.rest_s(0.0, 0) == 0.0


async def test_while_brokers_are_slow_fewer_requests_carry_the_same_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = []
    for most_s in (0.1, 0.0):
        monkeypatch.setattr(pace, "MOST_REST_S", most_s)
        async with world() as it:
            it.create(0, 1)
            it.assign(0)
            await until(lambda: it.is_copied(0))
            fetches = it.source.fetches
            for _ in range(60):
                write(it.source.logs[place(0)], 1)
                it.lane._workers._pace.append_s = 1.0
                await asyncio.sleep(0.002)
            await until(lambda: it.is_copied(0))
            counts.append(it.source.fetches - fetches)
    rested, eager = counts
    assert rested < eager
