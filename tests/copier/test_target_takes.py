"""What a target topic takes, by its configs and its broker's clock."""

from __future__ import annotations

import pytest

from heliograph.copier.target_takes import (
    AFTER_MAX,
    BEFORE_MAX,
    CLOCKS_DIFFER_MS,
    DIFFERENCE_MAX,
    NO_TIME_LIMIT,
    TargetTakes,
    allowed_times,
    time_limits,
)
from heliograph.wire.batch import read_header
from heliograph.wire.recode import ANY_TIME, Times
from tests.wire.batches import make_batch

from .source_batches import NOW_MS

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("configs", "limits"),
    [
        ({}, (NO_TIME_LIMIT, NO_TIME_LIMIT)),
        ({AFTER_MAX: "5", BEFORE_MAX: "7"}, (5, 7)),
        ({DIFFERENCE_MAX: "9"}, (9, 9)),  # before 3.6
        ({AFTER_MAX: str(NO_TIME_LIMIT), BEFORE_MAX: "7", DIFFERENCE_MAX: "9"}, (9, 7)),  # 3.6 to 3.9
    ],
)
def test_both_names_of_the_limits_are_read(configs: dict[str, str], limits: tuple[int, int]) -> None:
    assert time_limits(configs) == limits


def test_times_keep_a_distance_from_the_limits_and_half_of_a_short_one() -> None:
    assert allowed_times(HOUR_MS, 2 * HOUR_MS, NOW_MS) == Times(
        earliest=NOW_MS - 2 * HOUR_MS + CLOCKS_DIFFER_MS, latest=NOW_MS + HOUR_MS - CLOCKS_DIFFER_MS
    )
    assert allowed_times(1000, 2000, NOW_MS) == Times(earliest=NOW_MS - 1000, latest=NOW_MS + 500)
    assert allowed_times(NO_TIME_LIMIT, NO_TIME_LIMIT, NOW_MS) == ANY_TIME


@pytest.mark.parametrize(
    ("moments", "looks", "clamps"),
    [
        ([NOW_MS], False, False),
        ([NOW_MS, NOW_MS + 2 * HOUR_MS], False, True),
        ([NOW_MS - 2 * HOUR_MS], False, True),
        ([NOW_MS, NOW_MS - 2 * HOUR_MS], False, False),  # no header shows it
        ([NOW_MS, NOW_MS - 2 * HOUR_MS], True, True),
        ([-1], False, False),
    ],
)
def test_a_header_shows_the_latest_time_of_a_batch(moments: list[int], looks: bool, clamps: bool) -> None:
    batch = make_batch([(None, b"v", ())] * len(moments), timestamp=moments[0], timestamps=moments)
    header = read_header(memoryview(batch))
    times = allowed_times(HOUR_MS, HOUR_MS, NOW_MS)
    takes = TargetTakes(batch_bytes=100, most_bytes=100, times=times, looks=looks)
    assert takes.clamps(header) is clamps
    assert not TargetTakes(batch_bytes=100, most_bytes=100, looks=looks).clamps(header)
