"""`heliograph demo`: the main job from nothing, with real Kafka and real Spark, in about a minute."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from typing import Annotated, Any

import typer

from heliograph.interface.cli import logs, output
from heliograph.interface.cli.run import end_at_once, stop_on_signals, use_java
from heliograph.interface.cli.run_display import display_for
from heliograph.lab.cluster import LabCluster
from heliograph.model.errors import HeliographError
from heliograph.model.link import Link
from heliograph.model.settings import Settings, SparkSettings

EPILOG = "Example: heliograph demo --records 500000 --keep"


def command(
    records: Annotated[int, typer.Option(min=1000, help="How many records to write and mirror.")] = 200_000,
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running until Ctrl-C.")] = False,
    form: output.FormatOption = output.Format.table,
    as_json: output.JsonOption = False,
    _level: logs.LevelOption = None,
    _log_format: logs.LogFormatOption = None,
) -> None:
    """Mirror one real Kafka cluster to another on Spark, kill a lane half way, verify the copy."""
    use_java()
    _say("starting two real one-node Kafka clusters (sf and nyc)")
    with LabCluster.start(name="sf") as source, LabCluster.start(name="nyc") as target:
        demo = Demo(source, target, records, keep=keep)
        report = demo.run()
    output.emit(report, output.chosen(form, as_json), _sentences)
    if not report["identical"]:
        raise typer.Exit(1)


class Demo:
    def __init__(self, source: LabCluster, target: LabCluster, records: int, *, keep: bool) -> None:
        from heliograph.interface.demo.workload import TOPICS, Workload

        self._clusters = (source, target)
        self._servers = (source.bootstrap_servers, target.bootstrap_servers)
        self._records = records
        self._keep = keep
        self._topics = list(TOPICS)
        self._workload = Workload(source.bootstrap_servers, records)
        self._killed: int | None = None
        self._killed_at = 0
        self._copied_s = 0.0
        self._began = 0.0
        self._interrupted = False

    def run(self) -> dict[str, Any]:
        from heliograph.interface.demo.check import check
        from heliograph.interface.demo.workload import create_topics

        create_topics(self._servers[0])
        _say(f"mirroring {', '.join(self._topics)} from sf to nyc on Spark")
        try:
            board = asyncio.run(self._mirror())
        finally:
            self._workload.end()
        if self._interrupted and not self._keep:
            raise HeliographError("interrupted before the copy was complete", hint="run the demo again")
        _say("reading both clusters with an independent consumer and comparing every record")
        result = check(*self._servers, self._topics)
        return {
            "identical": result.differences == 0 and result.records > 0,
            "records": result.records,
            "differences": result.differences,
            "first_difference": result.first_difference,
            "partitions": len(board.rows),
            "stopped_partitions": len(board.stopped),
            "seconds": round(self._copied_s, 1),
            "killed_process": self._killed,
            "killed_at_records": self._killed_at,
        }

    async def _mirror(self) -> Any:
        from heliograph.controller.mirror import Mirror

        source, target = self._servers
        link = Link(name="sf-to-nyc", source="sf", target="nyc", topics=tuple(self._topics))
        settings = Settings(
            clusters={"sf": {"bootstrap.servers": source}, "nyc": {"bootstrap.servers": target}},
            links=(link,),
            spark=SparkSettings(master="local[2]"),
        )
        with display_for() as show:

            def tick(mirror: Any) -> None:
                show(mirror)
                self._watch(mirror)

            mirror = Mirror(settings, on_tick=tick)
            stop_on_signals(lambda: self._interrupt(mirror), self._end_at_once)
            return await mirror.run()

    def _end_at_once(self) -> None:
        """The brokers are ours and outlive us unless they are ended."""
        self._workload.end()
        for cluster in self._clusters:
            cluster.stop()
        end_at_once()

    def _interrupt(self, mirror: Any) -> None:
        self._interrupted = True
        mirror.stop()

    def _watch(self, mirror: Any) -> None:
        """Kill a lane half way; stop when everything that was written is there."""
        if self._workload.failed:
            raise HeliographError("the demo's producer failed", hint="its own words are above")
        # By offsets, in topics that began empty: a lane that is killed has copied more than it has told.
        copied = sum(row.next_offset for row in mirror.board.rows.values())
        busy = [lane for lane in mirror.lanes if lane.pid is not None]
        if busy and not self._began:
            self._began = time.monotonic()
            _say(f"lanes are up; writing {self._records:,} records to sf")
            self._workload.start()
        if self._killed is None and copied >= self._records // 2 and busy:
            self._killed, self._killed_at = busy[0].pid, copied
            os.kill(busy[0].pid, signal.SIGKILL)
            _say(f"kill -9 of lane {busy[0].lane} (process {busy[0].pid}) with {copied:,} records copied")
        if copied >= self._records and not self._copied_s:
            self._copied_s = time.monotonic() - self._began
            if self._keep:
                self._where_to_look(mirror)
            else:
                mirror.stop()

    def _where_to_look(self, mirror: Any) -> None:
        _say(f"everything is copied; still mirroring. sf: {self._servers[0]}  nyc: {self._servers[1]}")
        _say(f"Spark UI: {mirror.ui_address}  Ctrl-C verifies the copy and ends")


def _say(words: str) -> None:
    print(f"demo: {words}", file=sys.stderr, flush=True)


def _sentences(report: dict[str, Any]) -> str:
    verdict = "IDENTICAL" if report["identical"] else "DIFFERENT"
    lines = [
        f"{verdict}: {report['records']:,} records in {report['partitions']} partitions compared:"
        f" offset, timestamp, key, value, headers; {report['differences']:,} differences",
        f"written and mirrored at the same time, in {report['seconds']} s",
    ]
    if report["killed_process"] is not None:
        lines.append(
            f"lane process {report['killed_process']} was killed with {report['killed_at_records']:,} records"
            " copied; its successor went on where the target ended"
        )
    if report["first_difference"]:
        lines.append(f"first difference: {report['first_difference']}")
    return "\n".join(lines)
