"""Many questions at once, and no more than so many."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from heliograph.cluster.at_most import at_most


@pytest.mark.parametrize("limit", [1, 3, 50])
async def test_no_more_than_the_limit_are_under_way_and_answers_keep_their_order(limit: int) -> None:
    under_way = most = 0

    async def ask(number: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.001 * (number % 3))
        under_way -= 1
        return number

    answers = await at_most(limit, (partial(ask, number) for number in range(20)))
    assert answers == list(range(20))
    assert most == min(limit, 20)
