"""What a run aims at is judged by the medians of its rounds, and never by what was not measured."""

from __future__ import annotations

from bench.aims import Aim, judge
from bench.copy_round import CopyResult
from bench.latency import LatencyResult
from bench.names import FRANZ, MM2, OURS

MB = 1024 * 1024


def copied(contender: str, records_per_s: float, cpu_s: float = 1.0, lane_bytes: int = 0) -> CopyResult:
    return CopyResult(
        contender=contender,
        workload="tiny",
        label="1",
        records=1000,
        target_offsets=1000,
        target_offsets_at_first=0,
        first_s=5.0,
        last_s=9.0,
        records_per_s=records_per_s,
        cpu_copy_s=cpu_s,
        cpu_total_s=cpu_s,
        lanes_cpu_copy_s=cpu_s,
        brokers_cpu_copy_s=cpu_s,
        peak_bytes=0,
        lane_peaks_bytes=[lane_bytes] if lane_bytes else [],
        killed_at_end=0,
    )


def delayed(
    workload: str, contender: str, p50_ms: float, p99_ms: float, idle_cpu: float | None = None
) -> LatencyResult:
    return LatencyResult(
        contender=contender,
        workload=workload,
        label="1",
        sent=10,
        arrived=10,
        p50_ms=p50_ms,
        p99_ms=p99_ms,
        max_ms=p99_ms,
        first_s=1.0,
        idle_cpu=idle_cpu,
        lane_peaks_bytes=[],
    )


def found(aims: list[Aim], beginning: str) -> tuple[str, bool | None]:
    (aim,) = (each for each in aims if each.name.startswith(beginning))
    return aim.measured, aim.met


def test_the_median_counts_and_not_the_best_round() -> None:
    theirs = [copied(MM2, rate) for rate in (100, 110, 90)]
    fast = judge([*theirs, *(copied(OURS, rate) for rate in (399, 400, 2000))])
    slow = judge([*theirs, *(copied(OURS, rate) for rate in (399, 399, 2000))])
    assert found(fast, "tiny: records/s against MirrorMaker 2") == ("4 x", True)
    assert found(slow, "tiny: records/s against MirrorMaker 2") == ("3.99 x", False)


def test_a_bound_from_above_is_one_and_is_said_as_a_part() -> None:
    aims = judge([copied(MM2, 1, cpu_s=12), copied(OURS, 1, cpu_s=3)])
    assert found(aims, "tiny: CPU against MirrorMaker 2") == ("1/4", True)
    aims = judge([copied(MM2, 1, cpu_s=4), copied(OURS, 1, cpu_s=3)])
    assert found(aims, "tiny: CPU against MirrorMaker 2") == ("0.75 x", False)


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    aims = judge([copied(MM2, 100), copied(OURS, 500)])
    assert found(aims, "tiny: records/s against franz-go") == ("-", None)
    assert found(aims, "memory of a lane") == ("-", None)
    assert all(aim.met is None for aim in judge([]))
    assert found(judge([copied(FRANZ, 100), copied(OURS, 50)]), "tiny: records/s against franz-go") == (
        "0.5 x",
        True,
    )


def test_wide_is_compared_with_our_own_of_the_same_partitions_alone() -> None:
    aims = judge(
        [
            delayed("alone", OURS, 4, 10),
            delayed("wide", OURS, 6, 31, idle_cpu=0.02),
            delayed("wide", MM2, 50, 100, idle_cpu=0.02),
        ]
    )
    assert found(aims, "wide: p50") == ("1.5 x", True)
    assert found(aims, "wide: p99") == ("3.1 x", False)
    assert found(aims, "wide: idle CPU") == ("1 x", True)


def test_the_largest_lane_of_all_rounds_counts_and_its_workload_is_named() -> None:
    aims = judge([copied(OURS, 1, lane_bytes=120 * MB), copied(OURS, 1, lane_bytes=301 * MB)])
    assert found(aims, "memory of a lane") == ("301 MB (tiny)", False)
