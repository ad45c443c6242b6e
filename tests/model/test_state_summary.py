"""Many partitions in one line: how many are in which state, and how far behind."""

from __future__ import annotations

import pytest

from heliograph.model.state_summary import lag_of, summarise
from heliograph.model.states import ATTENTION, PartitionState

COPYING, STOPPED = PartitionState.COPYING, PartitionState.STOPPED


def test_states_are_counted_with_their_lag_those_that_need_an_operator_first() -> None:
    assert summarise([(COPYING, 5), (STOPPED, None), (COPYING, 6), (PartitionState.CAUGHT_UP, 0)]) == [
        {"state": "stopped", "partitions": 1, "lag_records": None},
        {"state": "copying", "partitions": 2, "lag_records": 11},
        {"state": "caught_up", "partitions": 1, "lag_records": 0},
    ]
    assert summarise([]) == []


def test_every_state_has_its_place() -> None:
    assert sorted(ATTENTION) == sorted(PartitionState)
    assert [each["state"] for each in summarise((state, 0) for state in PartitionState)] == list(ATTENTION)


@pytest.mark.parametrize(("lags", "total"), [([], 0), ([1, 2], 3), ([1, None], None)])
def test_a_sum_is_not_known_where_a_part_of_it_is_not(lags: list[int | None], total: int | None) -> None:
    assert lag_of(lags) == total
