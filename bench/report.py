"""What a run prints and writes at its end: tables for people, JSON with every round for programs.

Owns both shapes. Must not measure anything.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from bench.aims import OURS, Aim, copy_summary, judge, latency_summary
from bench.copy_round import CopyResult
from bench.latency import LatencyResult
from bench.summary import Summary, summarise
from bench.workload import Workload
from heliograph import __version__
from heliograph.lab.jars import DEFAULT_KAFKA

SCHEMA = "heliograph.bench/1"
MB = 1024 * 1024
AGAINST = "against"  # Heliograph at another commit; `Run.against` is its name
NAMES = {OURS: "Heliograph", AGAINST: "another Heliograph", "mm2": "MirrorMaker 2", "plain": "plain lane"}


@dataclass(slots=True, kw_only=True)
class Run:
    """Everything measured so far: an interrupted run still has its finished rounds."""

    scope: dict[str, object]
    against: str | None = None
    workload: Workload | None = None
    copies: list[CopyResult] = field(default_factory=list)
    latencies: list[LatencyResult] = field(default_factory=list)
    backlog_workload: Workload | None = None
    backlog: CopyResult | None = None

    @property
    def aims(self) -> list[Aim]:
        return judge(
            self.copies, self.latencies, self.backlog, replicated=self.scope.get("replication", 1) != 1
        )


COPY_ROWS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("records/s, first to last record", "records_per_s", lambda value: f"{value:,.0f}"),
    ("seconds to the first record", "first_s", lambda value: f"{value:.2f}"),
    ("seconds to the last record", "last_s", lambda value: f"{value:.2f}"),
    ("CPU s, first to last record", "cpu_copy_s", lambda value: f"{value:.2f}"),
    ("CPU s of the lanes alone", "lanes_cpu_copy_s", lambda value: f"{value:.2f}"),
    ("CPU s from the process's start", "cpu_total_s", lambda value: f"{value:.2f}"),
    ("CPU s of both brokers", "brokers_cpu_copy_s", lambda value: f"{value:.2f}"),
    ("peak memory of the tree, MB", "peak_bytes", lambda value: f"{value / MB:,.0f}"),
)
LATENCY_ROWS = (("p50, ms", "p50_ms"), ("p99, ms", "p99_ms"), ("max, ms", "max_ms"))


def cell(summary: Summary | None, show: Callable[[float], str]) -> str:
    """`median (± half the spread)`; one round has no spread."""
    if summary is None:
        return "-"
    shown = show(summary.median)
    return shown if summary.rounds == 1 else f"{shown} (±{summary.spread / 2:.0%})"


def ratio_cell(rounds: Sequence[CopyResult] | Sequence[LatencyResult], attribute: str) -> str:
    """This version to the other one, round by round: what changed on the machine meanwhile met both alike."""
    ours, theirs = (
        [float(getattr(one, attribute)) for one in rounds if one.contender == code]
        for code in (OURS, AGAINST)
    )
    # An interrupted run has a round of one of them; a clock too coarse reads 0.
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=False) if other]
    return cell(summarise(ratios) if ratios else None, lambda value: f"{value:.2f} x")


def copy_table(rounds: Sequence[CopyResult], against: str | None) -> Table:
    present = [code for code in NAMES if any(one.contender == code for one in rounds)]
    table = _table("Copy: medians of the rounds (half of their spread)", present, against)
    for title, attribute, show in COPY_ROWS:
        cells = [cell(copy_summary(rounds, code, attribute), show) for code in present]
        if attribute == "lanes_cpu_copy_s":  # a mirror without lanes has nothing here, not zero
            cells = ["-" if code == "mm2" else text for code, text in zip(present, cells, strict=True)]
        table.add_row(title, *cells, *([ratio_cell(rounds, attribute)] if against else []))
    return table


def latency_table(rounds: Sequence[LatencyResult], against: str | None) -> Table:
    present = [code for code in NAMES if any(one.contender == code for one in rounds)]
    table = _table("Latency at 500 records/s: medians of the rounds", present, against)
    for title, attribute in LATENCY_ROWS:
        found = (latency_summary(rounds, code, attribute) for code in present)
        cells = [cell(one, lambda value: f"{value:.1f}") for one in found]
        table.add_row(title, *cells, *([ratio_cell(rounds, attribute)] if against else []))
    return table


def aims_table(aims: Sequence[Aim]) -> Table:
    table = Table(title="Aims", title_justify="left")
    for title in ("aim", "wanted", "measured", ""):
        table.add_column(title)
    for aim in aims:
        table.add_row(aim.name, aim.wanted, aim.measured, verdict(aim))
    return table


def verdict(aim: Aim) -> str:
    if aim.met is None:
        return "not measured"
    return "[green]met[/]" if aim.met else "[red]missed[/]"


def show(run: Run, console: Console) -> None:
    if run.copies:
        console.print(copy_table(run.copies, run.against))
    if run.latencies:
        console.print(latency_table(run.latencies, run.against))
    console.print(aims_table(run.aims))


def write(run: Run, directory: Path) -> Path:
    now = datetime.now(UTC)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{now:%Y%m%dT%H%M%SZ}.json"
    path.write_text(json.dumps(as_json(run, now), indent=2) + "\n")
    return path


def as_json(run: Run, now: datetime) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "at": now.isoformat(timespec="seconds"),
        "versions": {
            "heliograph": __version__,
            "kafka": DEFAULT_KAFKA,
            "python": platform.python_version(),
        },
        "machine": {
            "cores": os.cpu_count(),
            "memory_bytes": psutil.virtual_memory().total,
            "system": platform.platform(),
        },
        **asdict(run),
        "aims": [asdict(aim) for aim in run.aims],
    }


def _table(title: str, contenders: Sequence[str], against: str | None) -> Table:
    """`against`: the version this one is compared with; the ratio to it is the last column."""
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for code in contenders:
        table.add_column((code == AGAINST and against) or NAMES[code], justify="right")
    if against:
        table.add_column(f"ratio to {against}", justify="right")
    return table
