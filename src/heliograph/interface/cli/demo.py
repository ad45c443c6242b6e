"""`heliograph demo`: the main job from nothing, with real Kafka and real Spark, in under a minute."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from typing import Annotated, Any

import typer

from heliograph.interface.cli import logs, output
from heliograph.interface.cli.process_age import process_age_s
from heliograph.interface.cli.run import end_at_once, stop_on_signals, use_java
from heliograph.interface.cli.run_display import display_for
from heliograph.lab.cluster import LabCluster
from heliograph.lab.together import started_together
from heliograph.model.errors import HeliographError
from heliograph.model.link import Link
from heliograph.model.settings import Settings, SparkSettings

EPILOG = "Example: heliograph demo --records 500000 --keep"


def command(
    records: Annotated[
        int, typer.Option(min=1000, help="Records of the backlog, of 500 bytes each.")
    ] = 1_000_000,
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running until Ctrl-C.")] = False,
    form: output.FormatOption = output.Format.table,
    as_json: output.JsonOption = False,
    _level: logs.LevelOption = None,
    _log_format: logs.LogFormatOption = None,
) -> None:
    """Mirror one real Kafka cluster to another on Spark: a backlog, then live records; kill a lane; compare."""
    from heliograph.interface.demo.figures import Laps
    from heliograph.interface.demo.report import sentences

    laps = Laps(time.monotonic() - process_age_s())
    use_java()
    _interrupt_on_sigterm()
    _say("starting two real one-node Kafka clusters, sf and nyc")
    with started_together("sf", "nyc") as (source, target):
        report = Demo(source, target, records, laps, keep=keep).run()
    output.emit(report, output.chosen(form, as_json), sentences)
    if not report["identical"]:
        raise typer.Exit(1)


class Demo:
    def __init__(
        self, source: LabCluster, target: LabCluster, records: int, laps: Any, *, keep: bool
    ) -> None:
        self._clusters = (source, target)
        self._servers = (source.bootstrap_servers, target.bootstrap_servers)
        self._records = records
        self._laps = laps
        self._keep = keep
        self._interrupted = False
        self._scene: Any = None

    def run(self) -> dict[str, Any]:
        from heliograph.interface.demo.check import check
        from heliograph.interface.demo.scene import Scene, Stage
        from heliograph.interface.demo.workload import TOPICS, create_topics

        create_topics(self._servers[0])
        self._laps.over("clusters", time.monotonic())
        _say(f"mirroring {', '.join(TOPICS)} from sf to nyc; {self._records:,} records are written meanwhile")
        self._scene = Scene(*self._servers, self._records, self._laps, _say)
        try:
            board = asyncio.run(self._mirror(tuple(TOPICS)))
        finally:
            _interrupt_on_sigterm()  # the event loop has put back what was there before anybody
            self._scene.end()
        if self._scene.stage is not Stage.OVER or (self._interrupted and not self._keep):
            raise HeliographError("interrupted before the demo was over", hint="run the demo again")
        self._laps.over("ending", time.monotonic())
        _say("comparing every record of both clusters, by kafka-python's consumer")
        result = check(*self._servers)
        self._laps.over("comparing", time.monotonic())
        seconds = {name: round(taken, 1) for name, taken in self._laps.seconds.items()}
        return {
            "identical": result.differences == 0 and result.records > 0,
            "records": result.records,
            "differences": result.differences,
            "first_difference": result.first_difference,
            "partitions": len(board.rows),
            "stopped_partitions": len(board.stopped),
            **self._scene.figures(),
            "seconds": {**seconds, "total": round(self._laps.total_s, 1)},
        }

    async def _mirror(self, topics: tuple[str, ...]) -> Any:
        from heliograph.controller.mirror import Mirror
        from heliograph.engine.loop_troubles import tell

        asyncio.get_running_loop().set_exception_handler(tell)

        source, target = self._servers
        settings = Settings(
            clusters={"sf": {"bootstrap.servers": source}, "nyc": {"bootstrap.servers": target}},
            links=(Link(name="sf-to-nyc", source="sf", target="nyc", topics=topics),),
            spark=SparkSettings(master="local[2]"),
        )
        with display_for() as show:

            def tick(mirror: Any) -> None:
                show(mirror)
                self._watch(mirror)

            mirror = Mirror(settings, on_tick=tick)
            stop_on_signals(lambda: self._interrupt(mirror), self._end_at_once)
            return await mirror.run()

    def _interrupt(self, mirror: Any) -> None:
        self._interrupted = True
        if self._keep:
            self._laps.over("kept", time.monotonic())
        mirror.stop()

    def _end_at_once(self) -> None:
        """The brokers are ours and outlive us unless they are ended."""
        self._scene.end()
        for cluster in self._clusters:
            cluster.stop()
        end_at_once()

    def _watch(self, mirror: Any) -> None:
        from heliograph.interface.demo.scene import Stage

        before = self._scene.stage
        self._scene.tick(mirror)
        if self._scene.stage is Stage.OVER and before is not Stage.OVER:
            if self._keep:
                self._where_to_look(mirror)
            else:
                mirror.stop()

    def _where_to_look(self, mirror: Any) -> None:
        _say(f"everything is copied; still mirroring. sf: {self._servers[0]}  nyc: {self._servers[1]}")
        _say(f"Spark UI: {mirror.ui_address}  Ctrl-C compares the clusters and ends")


def _interrupt_on_sigterm() -> None:
    """As Ctrl-C does: whatever is going on is left by its contexts, which end the brokers and everybody else."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def _say(words: str) -> None:
    print(f"demo: {words}", file=sys.stderr, flush=True)
