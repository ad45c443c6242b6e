"""Where a new mirror begins: what is a start, and which time it means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.start import start_problem, start_time

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("-7d", NOW - timedelta(days=7)),
        ("-90m", NOW - timedelta(minutes=90)),
        ("-2w", NOW - timedelta(weeks=2)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T12:00:00+01:00", datetime(2026, 1, 31, 11, 0, tzinfo=UTC)),
    ],
)
def test_a_start_is_a_time_and_without_a_zone_it_is_utc(text: str, at: datetime) -> None:
    assert start_problem(text) is None
    assert start_time(text, NOW) == at


@pytest.mark.parametrize("text", ["", "7d", "-7", "-7y", "now", "-\u0667d", "2026-02-30"])
def test_what_is_no_start_is_named(text: str) -> None:
    assert repr(text) in str(start_problem(text))


@given(st.integers(0, 999_999), st.sampled_from("smhdw"))
def test_every_age_that_is_accepted_is_a_time(count: int, unit: str) -> None:
    assert start_problem(f"-{count}{unit}") is None
    assert start_time(f"-{count}{unit}", NOW) <= NOW
