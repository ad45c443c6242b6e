"""How long a record takes from its producer through source, mirror and target to a consumer, at a steady trickle.

Owns the course of one such round: the mirror starts, records come through, a stretch warms everything up, another is
measured, and in a last one nothing flows. Must not know what kind of mirror tails the topics.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.clusters import ClusterPair
from bench.contender import Contender, CopyJob, Running
from bench.trickle import Arrivals, Trickle, arrivals_of
from bench.workload import Say
from heliograph.model.percentile import percentile

LIVE_LIMIT_S = 180.0
BEFORE_IDLE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """For how long records flow unmeasured, then measured, and for how long none do."""

    workload: str
    warm_up_s: float
    measured_s: float = 10.0
    idle_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyResult:
    """`first_s`: from the process's start to the first record. `idle_cpu`: cores of the tree while nothing flows."""

    contender: str
    workload: str
    label: str
    sent: int
    arrived: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    first_s: float
    idle_cpu: float | None
    lane_peaks_bytes: list[int]

    @property
    def lane_peak_bytes(self) -> int:
        return max(self.lane_peaks_bytes, default=0)


def latency_once(
    contender: Contender, job: CopyJob, stretch: Stretch, pair: ClusterPair, say: Say
) -> LatencyResult:
    with tempfile.TemporaryDirectory(prefix=f"heliograph-bench-{job.label}-") as name:
        directory = Path(name)
        command = contender.prepare(job, pair, directory)
        with Running(contender, job, command, directory) as running:
            trickle = Trickle(pair.source.bootstrap_servers, job)
            _wait_for_targets(running, pair, job)
            with arrivals_of(job, pair.target.bootstrap_servers) as arrivals:
                _wait_until_live(running, trickle, arrivals)
                first_s = running.age_s
                say(f"records come through after {first_s:.1f} s")
                trickle.send_for(stretch.warm_up_s)
                from_ns = time.monotonic_ns()
                sent = trickle.send_for(stretch.measured_s)
                delays_ms = arrivals.wait_for(sent, from_ns)
            running.tree.look()
            running.tree.weigh()
            idle_cpu = _idle_cpu(running, stretch.idle_s) if stretch.idle_s else None
            running.check(float("inf"))
    if not delays_ms:
        raise running.failure(f"delivered none of {sent} records")
    return LatencyResult(
        contender=contender.code,
        workload=stretch.workload,
        label=job.label,
        sent=sent,
        arrived=len(delays_ms),
        p50_ms=percentile(delays_ms, 50),
        p99_ms=percentile(delays_ms, 99),
        max_ms=max(delays_ms),
        first_s=first_s,
        idle_cpu=idle_cpu,
        lane_peaks_bytes=running.tree.lane_peaks_bytes,
    )


def _wait_for_targets(running: Running, pair: ClusterPair, job: CopyJob) -> None:
    while not pair.target.has(*job.target_topics, partitions=job.partitions):
        running.check(LIVE_LIMIT_S)
        time.sleep(0.1)


def _wait_until_live(running: Running, trickle: Trickle, arrivals: Arrivals) -> None:
    while arrivals.count == 0:
        running.check(LIVE_LIMIT_S)
        trickle.send()
        time.sleep(0.1)


def _idle_cpu(running: Running, seconds: float) -> float:
    time.sleep(BEFORE_IDLE_S)  # what follows the last record is no idling
    running.tree.look()
    began, cpu_s = time.monotonic(), running.tree.cpu_s
    time.sleep(seconds)
    running.tree.look()
    return (running.tree.cpu_s - cpu_s) / (time.monotonic() - began)
