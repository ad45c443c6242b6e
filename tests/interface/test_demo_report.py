from __future__ import annotations

import copy
from typing import Any

from heliograph.interface.demo.check import CheckResult, total
from heliograph.interface.demo.report import sentences

REPORT: dict[str, Any] = {
    "identical": True,
    "records": 1_006_000,
    "differences": 0,
    "first_difference": None,
    "partitions": 8,
    "stopped_partitions": 0,
    "backlog": {
        "records": 1_000_000,
        "size_bytes": 500_000_000,
        "written_s": 3.2,
        "written_before": True,
        "copied_s": 2.5,
        "mb_per_s": 200.0,
        "records_per_s": 400_000,
    },
    "live": {
        "records": 6000,
        "records_per_s": 500,
        "measured_s": 3.0,
        "p50_ms": 2.04,
        "p99_ms": 11.4,
        "max_ms": 20.0,
    },
    "kill": {"lane": 0, "process": 4711, "partitions": 4, "pause_s": 1.62, "others_pause_s": 0.041},
    "seconds": {"clusters": 6.1, "Spark": 8.0, "backlog": 2.5, "total": 16.6},
}


def test_the_report_says_all_in_five_lines() -> None:
    verdict, backlog, live, kill, time = sentences(REPORT).splitlines()
    assert verdict.startswith("IDENTICAL: 1,006,000 records in 8 partitions compared, 0 differences")
    assert "kafka-python's consumer read both clusters" in verdict
    assert backlog.endswith("1,000,000 records, 500 MB copied in 2.5 s: 200 MB/s, 400,000 records/s")
    assert "6,000 records at 500 a second; latency p50 2.0 ms, p99 11.4 ms" in live
    assert live.endswith("in the 3 s before the kill")
    assert "lane 0's 4 partitions paused for 1.6 s, the others for 0.04 s at most" in kill
    assert "17 s: clusters 6.1, Spark 8.0, backlog 2.5; the backlog was written in 3.2 s" in time


def test_a_difference_is_the_first_word_and_has_a_line() -> None:
    different = {**REPORT, "identical": False, "differences": 2, "first_difference": "orders:0: source 1"}
    lines = sentences(different).splitlines()
    assert lines[0].startswith("DIFFERENT: ")
    assert "first difference: orders:0: source 1" in lines


def test_a_rate_that_the_producer_has_bounded_says_so() -> None:
    bounded = copy.deepcopy(REPORT)
    bounded["backlog"]["written_before"] = False
    assert "while it was still being written" in sentences(bounded)


def test_shares_of_the_comparison_are_added_up() -> None:
    clean = CheckResult(records=3, differences=0, first_difference=None)
    broken = CheckResult(records=4, differences=2, first_difference="orders:1")
    assert total([clean, broken]) == CheckResult(records=7, differences=2, first_difference="orders:1")
