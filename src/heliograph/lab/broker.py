"""One Kafka broker as a process: format, start, kill, stop, freeze, thaw, start again on the same port.

Owns one node's directory: server.properties, data, broker.log, process.json. Must not know the rest of
its cluster. A broker that does not come up says so with the last errors of its own log.
"""

from __future__ import annotations

import math
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from heliograph.lab.probe import answers, live_brokers
from heliograph.lab.process import ProcessRecord, read_record, start_detached
from heliograph.lab.releases import Release
from heliograph.lab.runtime import Runtime, own_errors
from heliograph.lab.settings import ZOOKEEPER_SESSION_MS, Node
from heliograph.model.errors import LabError

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 40.0
KILL_TIMEOUT_S = 20.0
POLL_S = 0.05
SESSION_MARGIN_S = 2.0  # ZooKeeper looks for sessions that are over once in a tick, of a second


class Broker:
    """A broker whose directory holds its settings already."""

    def __init__(self, *, node: Node, directory: Path, runtime: Runtime, release: Release) -> None:
        self.node_id = node.node_id
        self.port = node.port
        self.directory = directory
        self.log_path = directory / "broker.log"
        self._runtime = runtime
        self._release = release
        self._settings_path = directory / "server.properties"
        self._record_path = directory / "process.json"
        self._record = read_record(self._record_path)
        self._killed_at = -math.inf

    @property
    def pid(self) -> int:
        return self._process().pid

    @property
    def last_pid(self) -> int | None:
        """The process it had when it last ran; None if it never did."""
        return None if self._record is None else self._record.pid

    @property
    def running(self) -> bool:
        return self._record is not None and self._record.is_running()

    def format(self, cluster_id: str, more: Sequence[str] = ()) -> None:
        """Prepares the data directory, once in the life of a broker without ZooKeeper. `more`: the tool's arguments."""
        arguments = (
            "kafka.tools.StorageTool",
            "format",
            f"--cluster-id={cluster_id}",
            "-c",
            str(self._settings_path),
            *more,
        )
        command = self._runtime.command(*arguments, options=("-XX:TieredStopAtLevel=1", *self._logging()))
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise self._failure("refused its settings", done.stdout)

    def start(self) -> None:
        """Starts it on its data and port and waits until it serves."""
        self.launch()
        self.wait_until_up()

    def launch(self) -> None:
        """Starts the process only: brokers of one cluster have to come up together."""
        if self.running:
            return
        if self._release.needs_zookeeper:
            self._await_end_of_session()
        heap = f"-Xmx{self._runtime.heap_mb}m"
        scratch = (
            f"-Djava.io.tmpdir={self._settings_path.parent}"  # what a killed broker unpacked goes with it
        )
        fixed = (heap, "-Xms256m", "-XX:+UseG1GC", "-Djava.awt.headless=true", scratch)
        options = (*fixed, *self._runtime.broker_options, *self._logging())
        settings = str(self._settings_path)
        command = self._runtime.command("kafka.Kafka", settings, options=options)
        self._record = start_detached(command, argument=settings, log_path=self.log_path)
        self._record.write(self._record_path)

    def wait_until_up(
        self, expected: frozenset[int] = frozenset(), timeout_s: float = START_TIMEOUT_S
    ) -> None:
        """Waits until it sees itself, and the `expected` brokers, alive in its cluster."""
        wanted = expected | {self.node_id}
        deadline = time.monotonic() + timeout_s
        while not self._sees(wanted):
            if not self.running:
                raise self._failure("ended while it started", self._log_text())
            if time.monotonic() > deadline:
                raise self._failure(f"did not serve within {timeout_s:.0f} s", self._log_text())
            time.sleep(POLL_S)

    def _sees(self, wanted: frozenset[int]) -> bool:
        version = self._release.metadata_version
        if not self._release.lists_brokers:
            return answers(self.port, version)
        return wanted <= live_brokers(self.port, version)

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nobody is told."""
        if not self._end(signal.SIGKILL, timeout_s=KILL_TIMEOUT_S):
            raise LabError(
                f"broker {self.node_id} (pid {self.pid}) outlives SIGKILL", hint="is its disk hung?"
            )
        self._killed_at = time.monotonic()

    def _await_end_of_session(self) -> None:
        """ZooKeeper keeps the id of a killed broker for that long, and a broker whose id is taken ends at once."""
        over_at = self._killed_at + ZOOKEEPER_SESSION_MS / 1000 + SESSION_MARGIN_S
        time.sleep(max(over_at - time.monotonic(), 0.0))

    def stop(self) -> None:
        """SIGTERM, and waits for the orderly end; a broker that hangs in it is killed."""
        if self.running:
            self.thaw()
            if not self._end(signal.SIGTERM, timeout_s=STOP_TIMEOUT_S):
                self.kill()

    def freeze(self) -> None:
        """SIGSTOP; returns when not one of its threads runs any more."""
        process = self._process()
        process.send(signal.SIGSTOP)
        deadline = time.monotonic() + KILL_TIMEOUT_S
        while not process.is_stopped() and time.monotonic() < deadline:
            time.sleep(POLL_S)

    def thaw(self) -> None:
        self._process().send(signal.SIGCONT)

    def _end(self, number: signal.Signals, *, timeout_s: float) -> bool:
        if self._record is None:
            return True
        return self._record.end(number, timeout_s=timeout_s)

    def _process(self) -> ProcessRecord:
        if self._record is None:
            raise LabError(f"broker {self.node_id} was never started")
        return self._record

    def _logging(self) -> tuple[str, ...]:
        return self._runtime.logging(self.directory)

    def _log_text(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def _failure(self, what: str, output: str) -> LabError:
        return LabError(
            f"broker {self.node_id} on port {self.port} {what}:\n{own_errors(output)}",
            hint="check the properties given to the lab; --property k=v overrides every default",
        )
