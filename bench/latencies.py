"""The parts that measure latency: on warm brokers, on brokers just started, and among 1,000 partitions.

Owns which contender meets which brokers and topics. Only contenders that tail take part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.clusters import ClusterPair, cluster_pair
from bench.contender import Contender, CopyJob
from bench.latency import LatencyResult, Stretch, latency_once
from bench.report import Run
from bench.scope import Scope
from bench.trickle import PARTITIONS
from bench.turns import Turn, turns
from bench.workload import Say

WARM_UP_S = 5.0
IDLE_S = 10.0
WIDE_TOPICS = tuple(f"wide-{number:02}" for number in range(20))
WIDE_PARTITIONS = 50  # of each topic

LATENCY = Stretch(workload="latency", warm_up_s=WARM_UP_S)
COLD = Stretch(workload="cold", warm_up_s=0.0)
WIDE = Stretch(workload="wide", warm_up_s=WARM_UP_S, idle_s=IDLE_S)
ALONE = Stretch(workload="alone", warm_up_s=WARM_UP_S, idle_s=IDLE_S)


def measure_warm(scope: Scope, contenders: Sequence[Contender], run: Run, say: Say) -> None:
    say("latency: starting two clusters")
    with cluster_pair(scope.replication, tls=scope.tls) as pair:
        for turn in turns(contenders, rounds=scope.rounds, warm_ups=1):
            _few(turn, LATENCY, pair, run, say)


def measure_cold(scope: Scope, contenders: Sequence[Contender], run: Run, say: Say) -> None:
    """Brokers of its own for each turn: whoever came second would find them half warm."""
    for turn in turns(contenders, rounds=scope.rounds, warm_ups=0):
        say("cold: starting two clusters")
        with cluster_pair(scope.replication, tls=scope.tls) as pair:
            _few(turn, COLD, pair, run, say)


def measure_wide(scope: Scope, contenders: Sequence[Contender], run: Run, say: Say) -> None:
    """Each contender by itself once with 4 partitions alone, once with them among 1,000."""
    say("wide: starting two clusters")
    with cluster_pair(scope.replication, tls=scope.tls) as pair:
        pair.source.create(*WIDE_TOPICS, partitions=WIDE_PARTITIONS)
        for turn in turns(contenders, rounds=scope.rounds, warm_ups=1):
            _few(turn, ALONE, pair, run, say)
            if turn.counts:
                job = CopyJob(
                    workload=WIDE.workload,
                    label=f"{turn.label}-wide",
                    topics=WIDE_TOPICS,
                    partitions=WIDE_PARTITIONS,
                    endless=True,
                )
                _measure(turn, WIDE, job, pair, run, say)


def _few(turn: Turn, stretch: Stretch, pair: ClusterPair, run: Run, say: Say) -> None:
    """A new topic of 4 partitions and nothing else."""
    topic = f"trickle-{turn.label}"
    pair.source.create(topic, partitions=PARTITIONS)
    job = CopyJob(
        workload=stretch.workload, label=turn.label, topics=(topic,), partitions=PARTITIONS, endless=True
    )
    _measure(turn, stretch, job, pair, run, say)


def _measure(turn: Turn, stretch: Stretch, job: CopyJob, pair: ClusterPair, run: Run, say: Say) -> None:
    name = f"{stretch.workload}, {turn.name}: {turn.contender.name}"
    say(f"{name} ...")
    result = latency_once(turn.contender, job, stretch, pair, say)
    if turn.counts:
        run.latencies.append(result)
    say(f"{name}: {told(result)}")
    pair.clear(*WIDE_TOPICS)


def told(result: LatencyResult) -> str:
    lost = f"; {result.sent - result.arrived} of {result.sent} late or lost" * (result.arrived < result.sent)
    idle = "" if result.idle_cpu is None else f", idle {result.idle_cpu:.3f} cores"
    return (
        f"p50 {result.p50_ms:.1f} ms, p99 {result.p99_ms:.1f} ms, max {result.max_ms:.1f} ms, "
        f"first after {result.first_s:.1f} s{idle}{lost}"
    )


Measure = Callable[[Scope, Sequence[Contender], Run, Say], None]
LATENCIES: dict[str, Measure] = {"latency": measure_warm, "cold": measure_cold, "wide": measure_wide}
