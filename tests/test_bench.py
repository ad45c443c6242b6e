"""The pure parts of the benchmark: what it makes of its rounds. Its figures are never asserted."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from bench.aims import MB, Aim, judge
from bench.contender import CopyJob
from bench.copy_round import POLL_S, CopyResult, rate
from bench.heliograph_run import config
from bench.latency import LatencyResult
from bench.measure import ProcessTree
from bench.mirror_maker import REPLICATION, properties
from bench.report import Run, aims_table, as_json, cell, copy_table
from bench.summary import Summary, percentile, ratio, summarise
from bench.workload import OrderValues
from heliograph.interface.config_file import read_settings

JOB = CopyJob(label="a-1", topic="orders", partitions=4, records=100)


def copied(
    contender: str, *, rate: float = 100.0, cpu_s: float = 1.0, lanes_cpu_s: float = 0.5
) -> CopyResult:
    return CopyResult(
        contender=contender,
        label="x",
        records=100,
        records_at_first=0,
        first_s=1.0,
        last_s=2.0,
        records_per_s=rate,
        cpu_copy_s=cpu_s,
        cpu_total_s=cpu_s,
        lanes_cpu_copy_s=lanes_cpu_s,
        brokers_cpu_copy_s=1.0,
        peak_bytes=500 * MB,
        lane_peaks_bytes=[100 * MB, 90 * MB],
        killed_at_end=0,
    )


def delayed(contender: str, p50_ms: float, p99_ms: float) -> LatencyResult:
    return LatencyResult(
        contender=contender, label="x", sent=1, arrived=1, p50_ms=p50_ms, p99_ms=p99_ms, max_ms=p99_ms
    )


def rendered(table: object) -> str:
    text = io.StringIO()
    Console(width=160, file=text).print(table)
    return text.getvalue()


def test_a_summary_is_the_median_and_the_spread_around_it() -> None:
    summary = summarise([30.0, 10.0, 20.0])
    assert (summary.median, summary.lowest, summary.highest, summary.rounds) == (20.0, 10.0, 30.0, 3)
    assert summary.spread == 1.0


def test_rounds_of_zero_have_no_spread() -> None:
    assert summarise([0.0, 0.0]).spread == 0.0


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.1, 100))
def test_a_percentile_is_a_value_that_was_measured(values: list[float], percent: float) -> None:
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) >= len(values) * percent / 100 - 1e-6


def test_percentiles_take_the_nearest_rank() -> None:
    values = [float(value) for value in range(1, 101)]
    assert (percentile(values, 50), percentile(values, 99), percentile(values, 100)) == (50.0, 99.0, 100.0)


def test_a_ratio_needs_both_sides() -> None:
    five, none = summarise([5.0]), summarise([0.0])
    assert ratio(five, summarise([2.0])) == 2.5
    assert ratio(five, None) is None
    assert ratio(None, five) is None
    assert ratio(five, none) is None


def test_records_seen_at_the_first_look_do_not_count_for_the_rate() -> None:
    assert rate(records=100, first=20, seconds=2.0) == 40.0


def test_a_copy_seen_whole_at_the_first_look_is_not_infinitely_fast() -> None:
    assert rate(records=100, first=100, seconds=0.0) == 100 / POLL_S


def met(aims: list[Aim]) -> list[bool | None]:
    return [aim.met for aim in aims]


def test_every_aim_is_met_at_its_bound() -> None:
    copies = [
        copied("heliograph", rate=500, cpu_s=1.0, lanes_cpu_s=0.4),
        copied("mm2", rate=100, cpu_s=8.0),
        copied("plain", rate=625),
    ]
    latencies = [delayed("heliograph", 2, 9), delayed("mm2", 2, 9)]
    assert met(judge(copies, latencies, copied("heliograph"))) == [True] * 7


def test_every_aim_is_missed_just_beyond_its_bound() -> None:
    copies = [
        copied("heliograph", rate=499, cpu_s=1.01, lanes_cpu_s=0.41),
        copied("mm2", rate=100, cpu_s=8.0),
        copied("plain", rate=625),
    ]
    latencies = [delayed("heliograph", 2.1, 9.1), delayed("mm2", 2, 9)]
    heavy = replace(copied("heliograph"), lane_peaks_bytes=[350 * MB])
    assert met(judge(copies, latencies, heavy)) == [False] * 7


@pytest.mark.parametrize(("rate", "is_met"), [(400, True), (399, False)])
def test_four_times_as_fast_is_enough_where_brokers_replicate(rate: int, is_met: bool) -> None:
    copies = [copied("heliograph", rate=rate), copied("mm2", rate=100)]
    assert met(judge(copies, [], None, replicated=True))[0] is is_met


def test_mirror_maker_replicates_as_often_as_the_clusters_do() -> None:
    for replication in (1, 3):
        made = properties(JOB, source="a:1", target="b:1", replication=replication)
        assert {made[key] for key in REPLICATION} == {str(replication)}


def test_an_aim_that_was_not_measured_is_neither_met_nor_missed() -> None:
    assert met(judge([copied("heliograph")], [], None)) == [None] * 7
    assert "not measured" in rendered(aims_table(judge([], [], None)))


def test_a_cell_shows_half_the_spread_of_several_rounds_only() -> None:
    def shown(value: float) -> str:
        return f"{value:.0f}"

    assert cell(None, shown) == "-"
    assert cell(summarise([7.0]), shown) == "7"
    assert cell(Summary(median=100, lowest=90, highest=110, rounds=3), shown) == "100 (±10%)"


def test_the_table_has_a_column_for_each_contender_that_ran() -> None:
    text = rendered(copy_table([copied("heliograph", rate=1234), copied("mm2")]))
    assert "Heliograph" in text
    assert "MirrorMaker 2" in text
    assert "plain lane" not in text
    assert "1,234" in text


def test_the_json_holds_every_round_raw() -> None:
    run = Run(scope={"rounds": 2}, copies=[copied("mm2", rate=1.5), copied("mm2", rate=2.5)])
    found = json.loads(json.dumps(as_json(run, datetime(2030, 1, 1, tzinfo=UTC))))
    assert found["schema"] == "heliograph.bench/1"
    assert [one["records_per_s"] for one in found["copies"]] == [1.5, 2.5]
    assert len(found["aims"]) == 7


def test_values_are_json_of_the_size_that_was_promised() -> None:
    values = OrderValues(pool_characters=10_000)
    made = [values.value(number) for number in range(50)]
    assert {int(json.loads(value)["id"]) for value in made} == set(range(50))
    assert all(700 <= len(value) <= 760 for value in made)


def test_heliograph_takes_the_config_that_is_written_for_it(tmp_path: Path) -> None:
    path = tmp_path / "heliograph.yaml"
    path.write_text(yaml.safe_dump(config(JOB, source="127.0.0.1:1", target="127.0.0.1:2")))
    read_settings(path)


def test_mirror_maker_lingers_for_throughput_and_not_for_latency() -> None:
    copying = properties(JOB, source="s:1", target="t:1")
    tailing = properties(replace(JOB, endless=True), source="s:1", target="t:1")
    assert copying["target.producer.linger.ms"] == "10"
    assert tailing["target.producer.linger.ms"] == "0"


def test_mirror_maker_gets_no_property_of_offset_syncs_but_the_switch() -> None:
    keys = properties(JOB, source="s:1", target="t:1")
    assert [key for key in keys if "offset-syncs" in key] == ["emit.offset-syncs.enabled"]


BURN = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"
PARENT = f"import subprocess, sys, time; subprocess.run([sys.executable, '-c', {BURN!r}]); time.sleep(60)"


def test_cpu_time_of_children_that_ended_is_kept() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT]) as process:
        try:
            tree = ProcessTree(process.pid, lane_mark=None)
            deadline = time.monotonic() + 30
            had_child = False
            while time.monotonic() < deadline:
                tree.look()
                had_child = had_child or bool(tree.survivors())
                if had_child and not tree.survivors():
                    break
                time.sleep(0.01)
            tree.weigh()
            assert tree.cpu_s >= 0.25
            assert tree.peak_bytes > 0
        finally:
            process.kill()
