from __future__ import annotations

import pytest

from heliograph.interface.demo.figures import Arrival, Laps, latencies_ms, longest_pause_s

MS = 1_000_000


def arrival(partition: int, sent_ms: int, arrived_ms: int) -> Arrival:
    return Arrival("orders", partition, sent_ms * MS, arrived_ms * MS)


def test_latencies_leave_out_the_warm_up_and_what_a_kill_held_up() -> None:
    arrivals = [arrival(0, 0, 50), arrival(0, 100, 102), arrival(0, 200, 205), arrival(0, 290, 900)]
    assert latencies_ms(arrivals, from_ns=100 * MS, to_ns=300 * MS) == [2.0, 5.0]


def test_a_pause_is_the_longest_gap_on_one_partition_and_not_between_partitions() -> None:
    paused = [arrival(0, t, t) for t in (0, 10, 500, 510)]
    steady = [arrival(1, t, t) for t in range(0, 600, 20)]
    arrivals = [*steady, *reversed(paused)]
    assert longest_pause_s(arrivals, {("orders", 0)}, since_ns=10 * MS) == pytest.approx(0.49)
    assert longest_pause_s(arrivals, {("orders", 1)}, since_ns=10 * MS) == pytest.approx(0.02)


def test_a_gap_that_was_over_before_the_kill_is_no_pause() -> None:
    arrivals = [arrival(0, t, t) for t in (0, 300, 310, 350)]
    assert longest_pause_s(arrivals, {("orders", 0)}, since_ns=300 * MS) == pytest.approx(0.04)


def test_a_partition_without_arrivals_has_no_pause_to_tell() -> None:
    assert longest_pause_s([], {("orders", 0)}, since_ns=0) == 0


def test_laps_account_for_every_second() -> None:
    laps = Laps(100.0)
    laps.over("clusters", 106.0)
    laps.over("Spark", 113.5)
    laps.over("clusters", 114.0)
    assert laps.seconds == {"clusters": 6.5, "Spark": 7.5}
    assert laps.total_s == 14.0
