"""What a run prints at its end: a table for each workload, and the aims."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from bench.aims import MB, Aim, Result, summary_of
from bench.copy_round import CopyResult
from bench.names import AGAINST, FRANZ, MM2, NAMES, OURS
from bench.report import Run
from bench.summary import Summary, summarise

WITHOUT_LANES = (MM2, FRANZ)


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _one_digit(value: float) -> str:
    return f"{value:.1f}"


def _two_digits(value: float) -> str:
    return f"{value:.2f}"


def _megabytes(value: float) -> str:
    return f"{value / MB:,.0f}"


Row = tuple[str, str, Callable[[float], str]]
LANE_ROWS: tuple[Row, ...] = (("memory of the largest lane, MB", "lane_peak_bytes", _megabytes),)
COPY_ROWS: tuple[Row, ...] = (
    ("records/s, first to last record", "records_per_s", _whole),
    ("seconds to the first record", "first_s", _two_digits),
    ("seconds to the last record", "last_s", _two_digits),
    ("CPU s, first to last record", "cpu_copy_s", _two_digits),
    ("CPU s of the lanes alone", "lanes_cpu_copy_s", _two_digits),
    ("CPU s from the process's start", "cpu_total_s", _two_digits),
    ("CPU s of both brokers", "brokers_cpu_copy_s", _two_digits),
    ("peak memory of the tree, MB", "peak_bytes", _megabytes),
    *LANE_ROWS,
)
LATENCY_ROWS: tuple[Row, ...] = (
    ("p50, ms", "p50_ms", _one_digit),
    ("p99, ms", "p99_ms", _one_digit),
    ("max, ms", "max_ms", _one_digit),
    ("seconds to the first record", "first_s", _two_digits),
    ("idle CPU, % of a core", "idle_cpu", lambda value: f"{value:.1%}"),
    *LANE_ROWS,
)
OF_LANES = ("lanes_cpu_copy_s", "lane_peak_bytes")


def show(run: Run, console: Console) -> None:
    for workload in dict.fromkeys(one.workload for one in run.results):
        console.print(workload_table(workload, run.results, run.against, tls=run.tls))
    console.print(aims_table(run.aims))


def workload_table(
    workload: str, results: Sequence[Result], against: str | None, *, tls: bool = False
) -> Table:
    """`against`: the version this one is compared with; the ratio to it is the last column."""
    rounds = [one for one in results if one.workload == workload]
    present = [code for code in NAMES if any(one.contender == code for one in rounds)]
    compared = against if AGAINST in present else None
    title = f"{workload}, TLS 1.3 on both sides" if tls else workload
    table = Table(title=f"{title}: medians of the rounds (half of their spread)", title_justify="left")
    table.add_column("")
    for code in present:
        table.add_column((code == AGAINST and against) or NAMES[code], justify="right")
    if compared:
        table.add_column(f"ratio to {compared}", justify="right")
    for title, figure, shown in COPY_ROWS if isinstance(rounds[0], CopyResult) else LATENCY_ROWS:
        summaries = [_summary(rounds, workload, code, figure) for code in present]
        if any(summaries):
            ratios = [_ratio_cell(rounds, figure)] if compared else []
            table.add_row(title, *(_cell(one, shown) for one in summaries), *ratios)
    return table


def aims_table(aims: Sequence[Aim]) -> Table:
    table = Table(title="Aims", title_justify="left")
    for title in ("aim", "wanted", "measured", ""):
        table.add_column(title)
    for aim in aims:
        table.add_row(aim.name, aim.wanted, aim.measured, _verdict(aim))
    return table


def _summary(rounds: Sequence[Result], workload: str, code: str, figure: str) -> Summary | None:
    if figure in OF_LANES and code in WITHOUT_LANES:
        return None  # a mirror without lanes has nothing here, not zero
    return summary_of(rounds, workload, code, figure)


def _cell(summary: Summary | None, shown: Callable[[float], str]) -> str:
    """`median (± half the spread)`; one round has no spread."""
    if summary is None:
        return "-"
    text = shown(summary.median)
    return text if summary.rounds == 1 else f"{text} (±{summary.spread / 2:.0%})"


def _ratio_cell(rounds: Sequence[Result], figure: str) -> str:
    """This version to the other one, round by round: what changed on the machine meanwhile met both alike."""
    ours, theirs = (
        [getattr(one, figure) for one in rounds if one.contender == code] for code in (OURS, AGAINST)
    )
    # An interrupted run has a round of one of them; a clock too coarse reads 0.
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=False) if other]
    return _cell(summarise(ratios) if ratios else None, lambda value: f"{value:.2f} x")


def _verdict(aim: Aim) -> str:
    if aim.met is None:
        return "not measured" if aim.measured == "-" else "no aim"
    return "[green]met[/]" if aim.met else "[red]missed[/]"
