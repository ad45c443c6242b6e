"""What the product aims at, judged from the medians of a run. Pure.

Every aim but the lanes' memory is a bound on a ratio: ours to a peer's in the same run, or to our own under other
circumstances. So none depends on the machine's speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.copy_round import CopyResult
from bench.latency import LatencyResult
from bench.names import FRANZ, MM2, NAMES, OURS, PLAIN
from bench.summary import Summary, ratio, summarise

LANE_LIMIT_BYTES = 300 * 1024 * 1024
MB = 1024 * 1024
FIGURES = {
    "records_per_s": "records/s",
    "cpu_copy_s": "CPU",
    "first_s": "time to the first record",
    "p50_ms": "p50",
    "p99_ms": "p99",
    "idle_cpu": "idle CPU",
}
COPIED = ("big", "tiny", "uncompressed")
Result = CopyResult | LatencyResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """`met` is None when something it needs was not measured, or nothing is wanted of it."""

    name: str
    wanted: str
    measured: str
    met: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Our figure is at least, or at most, so many times the peer's; `alone`: our own figure of that workload."""

    workload: str
    figure: str
    peer: str = MM2
    alone: str | None = None
    least: float | None = None
    most: float | None = None


def bounds(*, replicated: bool, tls: bool) -> list[Bound]:
    return [
        *(_copies_sealed() if tls else _copies(replicated=replicated)),
        *(Bound(workload=each, figure="first_s", most=1) for each in COPIED),
        *(
            Bound(workload=workload, figure=figure, most=1)
            for workload in ("latency", "cold")
            for figure in ("p50_ms", "p99_ms")
        ),
        Bound(workload="wide", figure="p50_ms", peer=OURS, alone="alone", most=1.5),
        Bound(workload="wide", figure="p99_ms", peer=OURS, alone="alone", most=3),
        Bound(workload="wide", figure="idle_cpu", most=1),
    ]


def _copies(*, replicated: bool) -> list[Bound]:
    """Where brokers replicate, more of the work is theirs, and so is the same for everybody."""
    return [
        Bound(workload="big", figure="records_per_s", least=4 if replicated else 6),
        Bound(workload="big", figure="cpu_copy_s", most=1 / 15),
        Bound(workload="big", figure="records_per_s", peer=FRANZ, least=3),
        Bound(workload="big", figure="cpu_copy_s", peer=FRANZ, most=1 / 5),
        Bound(workload="big", figure="records_per_s", peer=PLAIN, least=0.85),
        Bound(workload="tiny", figure="records_per_s", least=4),
        Bound(workload="tiny", figure="cpu_copy_s", most=1 / 2),
        Bound(workload="tiny", figure="records_per_s", peer=FRANZ, least=0.5),
        Bound(workload="uncompressed", figure="records_per_s", least=4),
    ]


def _copies_sealed() -> list[Bound]:
    """Under TLS every byte is opened and sealed by everybody, brokers too: that part is the same for all."""
    return [
        bound
        for each in COPIED
        for bound in (
            Bound(workload=each, figure="records_per_s", least=3),
            Bound(workload=each, figure="cpu_copy_s", most=1 / 5),
        )
    ]


def judge(results: Sequence[Result], *, replicated: bool = False, tls: bool = False) -> list[Aim]:
    judged = [_judged(bound, results) for bound in bounds(replicated=replicated, tls=tls)]
    return [*judged, _lane_memory(results)]


def summary_of(results: Sequence[Result], workload: str, contender: str, figure: str) -> Summary | None:
    found = (
        getattr(one, figure, None)
        for one in results
        if one.contender == contender and one.workload == workload
    )
    values = [float(value) for value in found if value is not None]
    return summarise(values) if values else None


def _judged(bound: Bound, results: Sequence[Result]) -> Aim:
    ours = summary_of(results, bound.workload, OURS, bound.figure)
    theirs = summary_of(results, bound.alone or bound.workload, bound.peer, bound.figure)
    measured = ratio(ours, theirs)
    against = "the same 4 partitions alone" if bound.alone else NAMES[bound.peer]
    return Aim(
        name=f"{bound.workload}: {FIGURES[bound.figure]} against {against}",
        wanted=f">= {_times(bound.least)}" if bound.least is not None else f"<= {_times(bound.most)}",
        measured=_times(measured),
        met=None if measured is None else _within(measured, bound),
    )


def _within(measured: float, bound: Bound) -> bool:
    return (bound.least is None or measured >= bound.least) and (bound.most is None or measured <= bound.most)


def _times(value: float | None) -> str:
    """`4 x`; a small part as `1/15`; 0 is what a clock too coarse for it reads."""
    if value is None:
        return "-"
    return f"1/{1 / value:.3g}" if 0 < value <= 0.4 else f"{value:.3g} x"


def _lane_memory(results: Sequence[Result]) -> Aim:
    peaks = [
        (one.lane_peak_bytes, one.workload)
        for one in results
        if one.contender == OURS and one.lane_peaks_bytes
    ]
    largest_bytes, workload = max(peaks, default=(0, ""))
    return Aim(
        name="memory of a lane, at most on any workload",
        wanted=f"<= {LANE_LIMIT_BYTES // MB} MB",
        measured=f"{largest_bytes / MB:.0f} MB ({workload})" if peaks else "-",
        met=largest_bytes <= LANE_LIMIT_BYTES if peaks else None,
    )
