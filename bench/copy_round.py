"""One copy of the workload by one contender, timed by what a consumer of the target could see.

Owns the clock: it starts when the first look finds a record on the target and stops when a look finds all of them.
The rate counts only records that appeared between these two looks: what was there at the first one took place
before the clock started. Must not know what kind of mirror it watches, but for one thing: a look sees offsets, and
where a mirror keeps the source's, markers have taken some of them.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.clusters import ClusterPair, TopicEnds
from bench.contender import Contender, CopyJob, Running
from bench.workload import Say

POLL_S = 0.025
LOOK_S = 0.1
WEIGH_S = 0.25
FIRST_LIMIT_S = 180.0
COPY_LIMIT_S = 600.0
SAY_EVERY_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyResult:
    """Seconds count from the process's start; CPU and rate of `copy` from the first to the last record."""

    contender: str
    workload: str
    label: str
    records: int
    target_offsets: int
    target_offsets_at_first: int
    first_s: float
    last_s: float
    records_per_s: float
    cpu_copy_s: float
    cpu_total_s: float
    lanes_cpu_copy_s: float
    brokers_cpu_copy_s: float
    peak_bytes: int
    lane_peaks_bytes: list[int]
    killed_at_end: int

    @property
    def lane_peak_bytes(self) -> int:
        return max(self.lane_peaks_bytes, default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """Everything read at one moment."""

    at_s: float
    offsets: int
    cpu_s: float
    lanes_cpu_s: float
    brokers_cpu_s: float


def copy_once(contender: Contender, job: CopyJob, pair: ClusterPair, say: Say) -> CopyResult:
    with tempfile.TemporaryDirectory(prefix=f"heliograph-bench-{job.label}-") as name:
        directory = Path(name)
        command = contender.prepare(job, pair, directory)
        with Running(contender, job, command, directory) as running:
            (target_topic,) = job.target_topics
            watch = _Watch(running, TopicEnds(pair.target, target_topic, job.partitions), pair, say)
            offsets = target_offsets(contender, job)
            first = watch.until(1, of=offsets, limit_s=FIRST_LIMIT_S)
            last = watch.until(offsets, of=offsets, limit_s=COPY_LIMIT_S)
            if running.ends_itself:
                running.wait()
            killed = running.end()
            return _result(contender, job, running, first, last, killed)


def target_offsets(contender: Contender, job: CopyJob) -> int:
    """How many the target has when everything is copied."""
    return job.offsets if contender.keeps_offsets else job.records


class _Watch:
    def __init__(self, running: Running, ends: TopicEnds, pair: ClusterPair, say: Say) -> None:
        self._running = running
        self._ends = ends
        self._pair = pair
        self._say = say
        self._look_at = self._weigh_at = 0.0
        self._say_at = SAY_EVERY_S

    def until(self, offsets: int, *, of: int, limit_s: float) -> _Look:
        """Looks at the target until it has this many offsets."""
        while True:
            seen = self._ends.read()
            if seen >= offsets:
                return self._look(seen)
            self._running.check(limit_s)
            self._keep_books(seen, of)
            time.sleep(POLL_S)

    def _look(self, offsets: int) -> _Look:
        at_s = self._running.age_s
        tree = self._running.tree
        tree.look()
        return _Look(
            at_s=at_s,
            offsets=offsets,
            cpu_s=tree.cpu_s,
            lanes_cpu_s=tree.lanes_cpu_s,
            brokers_cpu_s=self._pair.cpu_s(),
        )

    def _keep_books(self, seen: int, of: int) -> None:
        now_s = self._running.age_s
        if now_s >= self._look_at:
            self._running.tree.look()
            self._look_at = now_s + LOOK_S
        if now_s >= self._weigh_at:
            self._running.tree.weigh()
            self._weigh_at = now_s + WEIGH_S
        if now_s >= self._say_at:
            self._say(f"{seen:,} of {of:,} offsets on the target after {now_s:.0f} s")
            self._say_at = now_s + SAY_EVERY_S


def rate(*, records: int, offsets: int, first: int, seconds: float) -> float:
    """Records per second between two looks; a copy seen whole at once is as fast as one look can tell. `offsets` of the
    target hold so many records, evenly spread; it had the first ones at the first look."""
    seen, seconds = (offsets - first, max(seconds, POLL_S)) if offsets > first else (offsets, POLL_S)
    return seen * records / offsets / seconds


def _result(
    contender: Contender, job: CopyJob, running: Running, first: _Look, last: _Look, killed: int
) -> CopyResult:
    offsets = target_offsets(contender, job)
    return CopyResult(
        contender=contender.code,
        workload=job.workload,
        label=job.label,
        records=job.records,
        target_offsets=offsets,
        target_offsets_at_first=first.offsets,
        first_s=first.at_s,
        last_s=last.at_s,
        records_per_s=rate(
            records=job.records, offsets=offsets, first=first.offsets, seconds=last.at_s - first.at_s
        ),
        cpu_copy_s=last.cpu_s - first.cpu_s,
        cpu_total_s=last.cpu_s,
        lanes_cpu_copy_s=last.lanes_cpu_s - first.lanes_cpu_s,
        brokers_cpu_copy_s=last.brokers_cpu_s - first.brokers_cpu_s,
        peak_bytes=running.tree.peak_bytes,
        lane_peaks_bytes=running.tree.lane_peaks_bytes,
        killed_at_end=killed,
    )
