from __future__ import annotations

import pytest

from heliograph.model.percentile import percentile


@pytest.mark.parametrize(("percent", "value"), [(1, 1), (50, 50), (99, 99), (100, 100)])
def test_a_percentile_is_one_of_the_values(percent: float, value: float) -> None:
    assert percentile(list(range(100, 0, -1)), percent) == value


def test_the_percentile_of_one_value_is_that_value() -> None:
    assert percentile([7.0], 99) == 7.0
