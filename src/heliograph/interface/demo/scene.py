"""The demo's course while the mirror runs, one stage after another.

    STARTING ─▶ BACKLOG ─▶ LIVE ─▶ (kill -9 of a lane) ─▶ LIVE ─▶ OVER

Owns the stages and what is measured in them. `tick` is called a few times a second with the mirror; it must not know
how anything is shown.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from heliograph.interface.demo import backlog, live
from heliograph.interface.demo.child import Child
from heliograph.interface.demo.figures import Arrival, Laps, latencies_ms, longest_pause_s
from heliograph.interface.demo.workload import PARTITIONS
from heliograph.model.errors import HeliographError
from heliograph.model.percentile import percentile

LIVE_S = 12.0
KILL_AFTER_S = 6.0  # of live records: enough for a p99 before, and to recover after
# Before, the live clients open connections, the brokers' JVMs compile what handles single records, and the disk is
# busy with the backlog: at first the latency is ten times as much.
WARM_UP_S = 3.0
SAY_EVERY_S = 2.0


class Stage(StrEnum):
    STARTING = "starting"
    BACKLOG = "backlog"
    LIVE = "live"
    OVER = "over"


class Scene:
    """`say`: a sentence for who watches. `laps`: begun when the demo was."""

    def __init__(
        self, source_servers: str, target_servers: str, records: int, laps: Laps, say: Callable[[str], None]
    ) -> None:
        self.stage = Stage.STARTING
        self._records = records
        self._laps = laps
        self._say = say
        self._backlog = Child(backlog.__name__, source_servers, str(records))
        self._live = Child(live.__name__, source_servers, target_servers, str(LIVE_S))
        self._written: dict[str, Any] | None = None
        self._written_before = False
        self._idle_at = 0.0  # when nothing had been copied yet
        self._copied_s = 0.0
        self._arrivals: list[Arrival] = []
        self._said_at = 0.0
        self._killed_ns = 0
        self._kill: dict[str, Any] = {}
        self._paused: set[tuple[str, int]] = set()

    def end(self) -> None:
        self._backlog.end()
        self._live.end()

    def tick(self, mirror: Any) -> None:
        if stopped := mirror.board.stopped:
            raise HeliographError(
                f"{stopped[0].partition} is stopped: {stopped[0].error}", hint=stopped[0].hint
            )
        now = time.monotonic()
        for words in self._backlog.heard():
            self._written = words
        match self.stage:
            case Stage.STARTING:
                self._wait_for_spark(mirror, now)
            case Stage.BACKLOG:
                self._wait_for_backlog(mirror, now)
            case Stage.LIVE:
                self._tail(mirror, now)
            case Stage.OVER:
                pass

    def figures(self) -> dict[str, Any]:
        """What was measured, when it is over."""
        assert self._written is not None
        from_ns = self._arrivals[0].sent_ns + int(WARM_UP_S * 1e9)
        delays = latencies_ms(self._arrivals, from_ns=from_ns, to_ns=self._killed_ns)
        others = set(PARTITIONS) - self._paused
        size_bytes = self._written["size_bytes"]
        return {
            "backlog": {
                "records": self._records,
                "size_bytes": size_bytes,
                "written_s": self._written["seconds"],
                "written_before": self._written_before,
                "copied_s": round(self._copied_s, 2),
                "mb_per_s": round(size_bytes / 1e6 / self._copied_s, 1),
                "records_per_s": round(self._records / self._copied_s),
            },
            "live": {
                "records": len(self._arrivals),
                "records_per_s": live.RECORDS_PER_S,
                "measured_s": KILL_AFTER_S - WARM_UP_S,
                "p50_ms": round(percentile(delays, 50), 2),
                "p99_ms": round(percentile(delays, 99), 2),
                "max_ms": round(max(delays), 2),
            },
            "kill": {
                **self._kill,
                "pause_s": round(self._pause_s(self._paused), 3),
                "others_pause_s": round(self._pause_s(others), 3),
            },
        }

    # -- the stages

    def _wait_for_spark(self, mirror: Any, now: float) -> None:
        if _copied(mirror) == 0:
            self._idle_at = now
            return
        self._laps.over("Spark", self._idle_at)
        self._written_before = self._written is not None
        self.stage = Stage.BACKLOG
        self._wait_for_backlog(mirror, now)

    def _wait_for_backlog(self, mirror: Any, now: float) -> None:
        if self._written is None or _copied(mirror) < self._records:
            return
        self._copied_s = now - self._idle_at
        self._laps.over("backlog", now)
        megabytes = self._written["size_bytes"] / 1e6
        self._say(
            f"backlog of {self._records:,} records, {megabytes:,.0f} MB, copied in {self._copied_s:.1f} s:"
            f" {megabytes / self._copied_s:,.0f} MB/s"
        )
        self._live.go()
        self.stage, self._said_at = Stage.LIVE, now

    def _tail(self, mirror: Any, now: float) -> None:
        for words in self._live.heard():
            if isinstance(words, dict):  # how many were sent: all have arrived
                if not self._kill:
                    raise HeliographError(
                        "all live records came through before a lane could be killed: none was up at that time",
                        hint="the log says why; run the demo again",
                    )
                self._laps.over("live", now)
                self.stage = Stage.OVER
                return
            self._arrivals += [Arrival(*each) for each in words]
        self._say_latency(now)
        if not self._kill and self._arrivals:
            since_s = (time.monotonic_ns() - self._arrivals[0].sent_ns) / 1e9
            lane = next((each for each in mirror.lanes if each.pid is not None), None)
            if since_s >= KILL_AFTER_S and lane is not None:
                self._kill_lane(mirror, lane)

    def _kill_lane(self, mirror: Any, lane: Any) -> None:
        held = [row.partition for row in mirror.board.rows.values() if row.lane == lane.lane]
        killed_ns = time.monotonic_ns()
        try:
            os.kill(lane.pid, signal.SIGKILL)
        except ProcessLookupError:
            return  # it is gone already, and another one comes
        self._killed_ns = killed_ns
        self._paused = {(each.target_topic, each.partition) for each in held}
        self._kill = {"lane": lane.lane, "process": lane.pid, "partitions": len(held)}
        self._say(f"kill -9 of lane {lane.lane} (process {lane.pid}), which copies {len(held)} partitions")

    def _say_latency(self, now: float) -> None:
        since_ns = time.monotonic_ns() - int(SAY_EVERY_S * 1e9)
        lately = [each.latency_ms for each in self._arrivals if each.arrived_ns >= since_ns]
        if lately and now - self._said_at >= SAY_EVERY_S:
            self._said_at = now
            p50, p99 = percentile(lately, 50), percentile(lately, 99)
            self._say(f"live: {len(self._arrivals):,} records arrived; p50 {p50:.1f} ms, p99 {p99:.1f} ms")

    def _pause_s(self, wheres: set[tuple[str, int]]) -> float:
        return longest_pause_s(self._arrivals, wheres, since_ns=self._killed_ns)


def _copied(mirror: Any) -> int:
    """By offsets, in topics that began empty: a lane that is killed has copied more than it has told."""
    return sum(row.next_offset or 0 for row in mirror.board.rows.values())
