"""The part that copies a full topic, for any recipe: everybody's copies of one workload on clusters of its own.

Before the rounds everybody takes turns that do not count: they warm the brokers, or the first would pay for all. Three
brokers share what one would have, and take three times as long to be compiled.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.aims import MB
from bench.clusters import ClusterPair, cluster_pair
from bench.contender import Contender, CopyJob
from bench.copy_round import CopyResult, copy_once
from bench.names import OURS
from bench.report import Run
from bench.scope import Scope
from bench.turns import Turn, turns
from bench.workload import Recipe, Say, Workload, filled


def measure_copies(recipe: Recipe, scope: Scope, contenders: Sequence[Contender], run: Run, say: Say) -> None:
    rounds, warm_ups = (1, 0) if recipe.ours_only else (scope.rounds, scope.replication)
    chosen = [each for each in contenders if takes_part(each, recipe)]
    if not chosen:
        return
    say(f"{recipe.name} ({recipe.about}): starting two clusters")
    with cluster_pair(scope.replication, tls=scope.tls) as pair:
        records = scope.records[recipe.name]
        say(f"producing {records:,} records")
        workload = filled(pair.source, recipe, records=records, say=say)
        run.workloads.append(workload)
        say(described(workload))
        for turn in turns(chosen, rounds=rounds, warm_ups=warm_ups):
            _copy(turn, workload, pair, run, say)


def takes_part(contender: Contender, recipe: Recipe) -> bool:
    if recipe.ours_only:
        return contender.code == OURS
    return contender.reads_committed or not recipe.transactional


def _copy(turn: Turn, workload: Workload, pair: ClusterPair, run: Run, say: Say) -> None:
    name = f"{workload.name}, {turn.name}: {turn.contender.name}"
    say(f"{name} ...")
    job = CopyJob(
        workload=workload.name,
        label=turn.label,
        topics=(workload.topic,),
        partitions=workload.partitions,
        codec=workload.codec,
        records=workload.records,
        offsets=workload.offsets,
    )
    result = copy_once(turn.contender, job, pair, say)
    if turn.counts:
        run.copies.append(result)
    say(f"{name}: {told(result)}")
    pair.clear(workload.topic)


def described(workload: Workload) -> str:
    each = workload.value_bytes / workload.records
    more = f", {workload.offsets:,} offsets" if workload.offsets != workload.records else ""
    return (
        f"{workload.records:,} records of {each:,.0f} bytes in {workload.partitions} partitions{more}: "
        f"{workload.value_bytes / 1e6:,.0f} MB, {workload.size_bytes / 1e6:,.0f} MB as batches"
    )


def told(result: CopyResult) -> str:
    left = f"; {result.killed_at_end} processes outlived it and were killed" if result.killed_at_end else ""
    lanes = f", of a lane {result.lane_peak_bytes / MB:,.0f} MB" if result.lane_peaks_bytes else ""
    return (
        f"{result.records_per_s:,.0f} records/s, first after {result.first_s:.1f} s, last after "
        f"{result.last_s:.1f} s, CPU {result.cpu_copy_s:.2f} s (lanes {result.lanes_cpu_copy_s:.2f} s), "
        f"peak {result.peak_bytes / MB:,.0f} MB{lanes}{left}"
    )
