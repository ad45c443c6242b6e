"""The parts of a run in their order: copy, latency, memory of a lane. Each on clusters of its own.

Owns which contender runs when. A, B, C, A, B, C: what changes on the machine meets everybody alike. Before that
everybody takes turns that do not count: they warm the brokers, or the first would pay for all. Three brokers share what
one would have, and take three times as long to be compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.clusters import ClusterPair, cluster_pair
from bench.contender import Contender, CopyJob
from bench.copy_round import CopyResult, copy_once
from bench.latency import LatencyResult, latency_once
from bench.report import MB, Run
from bench.workload import PARTITIONS, Say, Workload, fill, fill_backlog

COPY_TOPIC = "orders"
BACKLOG_TOPIC = "backlog"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """How much is measured."""

    records: int
    rounds: int
    latency_rounds: int
    backlog_bytes: int
    replication: int = 1


def measure_copies(scope: Scope, contenders: Sequence[Contender], run: Run, say: Say) -> None:
    say("copy: starting two clusters")
    with cluster_pair(scope.replication) as pair:
        say(f"producing {scope.records:,} records")
        run.workload = workload = fill(pair.source, topic=COPY_TOPIC, records=scope.records, say=say)
        say(described(workload))
        for turn in range(scope.replication + scope.rounds):
            for contender in contenders:
                _copy_round(turn, contender, pair, workload, scope, run, say)


def _copy_round(
    turn: int,
    contender: Contender,
    pair: ClusterPair,
    workload: Workload,
    scope: Scope,
    run: Run,
    say: Say,
) -> None:
    number = turn - scope.replication + 1  # from 1 on; the turns before do not count
    name = f"round {number} of {scope.rounds}" if number > 0 else "warm-up"
    say(f"{name}: {contender.name} ...")
    result = copy_once(contender, _job(contender, turn, workload), pair, say)
    if number > 0:
        run.copies.append(result)
    say(f"{name}: {contender.name}: {told(result)}")
    pair.clear(COPY_TOPIC)


def measure_latencies(scope: Scope, contenders: Sequence[Contender], run: Run, say: Say) -> None:
    say("latency: starting two clusters")
    with cluster_pair(scope.replication) as pair:
        for number in range(scope.latency_rounds + 1):
            for contender in contenders:
                name = f"latency {number} of {scope.latency_rounds}" if number else "latency, warm-up"
                say(f"{name}: {contender.name} ...")
                label = f"{contender.code}-{number}"
                job = CopyJob(label=label, topic=f"trickle-{label}", partitions=PARTITIONS, endless=True)
                result = latency_once(contender, job, pair, say)
                if number:
                    run.latencies.append(result)
                say(f"{name}: {contender.name}: {told_latency(result)}")
                pair.clear()


def measure_lane_memory(scope: Scope, contender: Contender, run: Run, say: Say) -> None:
    say("memory of a lane: starting two clusters")
    with cluster_pair(scope.replication) as pair:
        say(f"producing {scope.backlog_bytes / 1e9:.1f} GB of large records")
        run.backlog_workload = workload = fill_backlog(
            pair.source, topic=BACKLOG_TOPIC, size_bytes=scope.backlog_bytes, say=say
        )
        say(described(workload))
        run.backlog = result = copy_once(contender, _job(contender, 1, workload), pair, say)
        peaks = ", ".join(f"{peak / MB:.0f} MB" for peak in result.lane_peaks_bytes)
        say(f"{contender.name}: {told(result)}; peaks of the lanes' processes: {peaks}")


def _job(contender: Contender, turn: int, workload: Workload) -> CopyJob:
    return CopyJob(
        label=f"{contender.code}-{turn}",
        topic=workload.topic,
        partitions=workload.partitions,
        records=workload.records,
    )


def described(workload: Workload) -> str:
    each = workload.value_bytes / workload.records
    return (
        f"{workload.records:,} records of {each:,.0f} bytes in {workload.partitions} partitions: "
        f"{workload.value_bytes / 1e6:,.0f} MB, {workload.size_bytes / 1e6:,.0f} MB as batches"
    )


def told(result: CopyResult) -> str:
    left = f"; {result.killed_at_end} processes outlived it and were killed" if result.killed_at_end else ""
    return (
        f"{result.records_per_s:,.0f} records/s, first after {result.first_s:.1f} s, last after "
        f"{result.last_s:.1f} s, CPU {result.cpu_copy_s:.2f} s (lanes {result.lanes_cpu_copy_s:.2f} s), "
        f"peak {result.peak_bytes / MB:,.0f} MB{left}"
    )


def told_latency(result: LatencyResult) -> str:
    lost = f"; {result.sent - result.arrived} of {result.sent} late or lost" * (result.arrived < result.sent)
    return f"p50 {result.p50_ms:.1f} ms, p99 {result.p99_ms:.1f} ms, max {result.max_ms:.1f} ms{lost}"
