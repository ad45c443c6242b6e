"""What the product aims at, judged from the medians of a run. Pure.

Every aim is a ratio to a peer in the same run, or a bound that does not depend on the machine's speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.copy_round import CopyResult
from bench.latency import LatencyResult
from bench.summary import Summary, ratio, summarise

OURS, PEER, PLAIN = "heliograph", "mm2", "plain"
LANE_LIMIT_BYTES = 350 * 1024 * 1024
MB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """`met` is None when something it needs was not measured."""

    name: str
    wanted: str
    measured: str
    met: bool | None


def copy_summary(rounds: Sequence[CopyResult], contender: str, field: str) -> Summary | None:
    values = [float(getattr(one, field)) for one in rounds if one.contender == contender]
    return summarise(values) if values else None


def latency_summary(rounds: Sequence[LatencyResult], contender: str, field: str) -> Summary | None:
    values = [float(getattr(one, field)) for one in rounds if one.contender == contender]
    return summarise(values) if values else None


def judge(
    copies: Sequence[CopyResult],
    latencies: Sequence[LatencyResult],
    backlog: CopyResult | None,
    *,
    replicated: bool = False,
) -> list[Aim]:
    """Where brokers replicate, more of the work is theirs, and so is the same for everybody."""

    def medians(contender: str, field: str) -> Summary | None:
        return copy_summary(copies, contender, field)

    peer_cpu = medians(PEER, "cpu_copy_s")
    our_rate = medians(OURS, "records_per_s")
    return [
        _at_least(
            "records/s against MirrorMaker 2",
            4 if replicated else 5,
            ratio(our_rate, medians(PEER, "records_per_s")),
        ),
        _at_most("CPU of the process tree", 8, ratio(medians(OURS, "cpu_copy_s"), peer_cpu)),
        _at_most("CPU of the lanes alone", 20, ratio(medians(OURS, "lanes_cpu_copy_s"), peer_cpu)),
        _share("records/s against the plain lane", 0.8, ratio(our_rate, medians(PLAIN, "records_per_s"))),
        _not_above("p50 of the latency", "p50_ms", latencies),
        _not_above("p99 of the latency", "p99_ms", latencies),
        _lane_memory(backlog),
    ]


def _at_least(name: str, times: float, measured: float | None) -> Aim:
    return Aim(
        name=name,
        wanted=f">= {times:g} x",
        measured="-" if measured is None else f"{measured:.2f} x",
        met=None if measured is None else measured >= times,
    )


def _at_most(name: str, part: float, measured: float | None) -> Aim:
    """An aim of the kind "one eighth of the peer's"; 0 is what a clock too coarse for it reads."""
    shown = "-" if measured is None else f"1/{1 / measured:.1f}" if measured else "0"
    return Aim(
        name=f"{name} against MirrorMaker 2",
        wanted=f"<= 1/{part:g}",
        measured=shown,
        met=None if measured is None else measured <= 1 / part,
    )


def _share(name: str, least: float, measured: float | None) -> Aim:
    return Aim(
        name=name,
        wanted=f">= {least:.0%}",
        measured="-" if measured is None else f"{measured:.0%}",
        met=None if measured is None else measured >= least,
    )


def _not_above(name: str, field: str, latencies: Sequence[LatencyResult]) -> Aim:
    ours = latency_summary(latencies, OURS, field)
    peers = latency_summary(latencies, PEER, field)
    known = ours is not None and peers is not None
    return Aim(
        name=f"{name} against MirrorMaker 2",
        wanted=f"<= {peers.median:.1f} ms" if peers else "<= the peer's",
        measured=f"{ours.median:.1f} ms" if ours else "-",
        met=ours.median <= peers.median if known and ours and peers else None,
    )


def _lane_memory(backlog: CopyResult | None) -> Aim:
    peaks = backlog.lane_peaks_bytes if backlog is not None else []
    return Aim(
        name="peak memory of a lane (large records, 500 partitions)",
        wanted=f"< {LANE_LIMIT_BYTES // MB} MB",
        measured=f"{max(peaks) / MB:.0f} MB" if peaks else "-",
        met=max(peaks) < LANE_LIMIT_BYTES if peaks else None,
    )
