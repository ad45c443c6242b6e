"""The ZooKeeper of a cluster of Kafka before 3.3: one process, on loopback, from the broker's own jars.

Owns its directory: zookeeper.properties, data, zookeeper.log, process.json. Must not know brokers. It is started before
them and ended after them; what it holds is lost with the cluster.
"""

from __future__ import annotations

import signal
import socket
import time
from pathlib import Path

from heliograph.lab.process import read_record, start_detached
from heliograph.lab.runtime import Runtime, own_errors
from heliograph.lab.settings import LOOPBACK, write_settings
from heliograph.model.errors import LabError

START_TIMEOUT_S = 60.0
END_TIMEOUT_S = 20.0
POLL_S = 0.05
HEAP_MB = 128
MAIN_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"


class ZooKeeper:
    def __init__(self, *, port: int, directory: Path, runtime: Runtime) -> None:
        self.port = port
        self.directory = directory
        self.log_path = directory / "zookeeper.log"
        self._runtime = runtime
        self._settings_path = directory / "zookeeper.properties"
        self._record_path = directory / "process.json"
        self._record = read_record(self._record_path)

    @property
    def last_pid(self) -> int | None:
        """The process it had when it last ran; None if it never did."""
        return None if self._record is None else self._record.pid

    @property
    def running(self) -> bool:
        return self._record is not None and self._record.is_running()

    def launch(self) -> None:
        """Starts the process only."""
        self.directory.mkdir(exist_ok=True)
        write_settings(self._settings_path, zookeeper_settings(self.port, self.directory / "data"))
        options = (
            f"-Xmx{HEAP_MB}m",
            "-Dzookeeper.admin.enableServer=false",  # an HTTP server, on all addresses
            "-Dzookeeper.jmx.log4j.disable=true",  # it looks for classes of log4j that are not there
            *self._runtime.logging(self.directory),
        )
        settings = str(self._settings_path)
        command = self._runtime.command(MAIN_CLASS, settings, options=options)
        self._record = start_detached(command, argument=settings, log_path=self.log_path)
        self._record.write(self._record_path)

    def wait_until_up(self, timeout_s: float = START_TIMEOUT_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not self._accepts():
            if not self.running:
                raise self._failure("ended while it started")
            if time.monotonic() > deadline:
                raise self._failure(f"did not serve within {timeout_s:.0f} s")
            time.sleep(POLL_S)

    def kill(self) -> None:
        """Its data is thrown away with the cluster: it needs no orderly end."""
        if self._record is not None and not self._record.end(signal.SIGKILL, timeout_s=END_TIMEOUT_S):
            raise LabError(f"ZooKeeper (pid {self.last_pid}) outlives SIGKILL", hint="is its disk hung?")

    def _accepts(self) -> bool:
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=1.0):
                return True
        except OSError:
            return False

    def _failure(self, what: str) -> LabError:
        output = self.log_path.read_text(errors="replace") if self.log_path.exists() else ""
        return LabError(f"ZooKeeper on port {self.port} {what}:\n{own_errors(output)}")


def zookeeper_settings(port: int, data_directory: Path) -> dict[str, str]:
    return {
        "dataDir": str(data_directory),
        "clientPort": str(port),
        "clientPortAddress": LOOPBACK,
        # Sessions last 2 to 20 ticks: as long as brokers of the lab ask for (settings.py).
        "tickTime": "1000",
        "maxClientCnxns": "0",  # all brokers have one address, and nobody else connects
    }
