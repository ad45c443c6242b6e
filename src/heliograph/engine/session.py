"""The Spark session lanes run on: its settings, and its end."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from heliograph.model.errors import EngineLost
from heliograph.model.settings import SparkSettings

TASK_TRIES = 4  # local mode never retries a task unless told to
JVM_END_TIMEOUT_S = 5.0
# A Unix socket's path has at most 108 characters, and Spark adds a name of about 45 to the directory. Without such
# sockets Python jobs start some 40 ms later, over loopback.
SOCKET_DIRECTORY_LIMIT = 60
DIRECTORY_PREFIX = "heliograph-run-"
_LOCAL = re.compile(r"local(?:\[(\*|\d+)\])?")

_DEFAULTS = {
    "spark.app.name": "heliograph",
    "spark.driver.memory": "512m",
    "spark.scheduler.mode": "FAIR",
    "spark.task.maxFailures": str(TASK_TRIES),
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.python.task.killTimeout": "200ms",
    "spark.task.reaper.enabled": "true",
}
# The JVM only schedules lanes: the quick compiler and the small collector start it some 2 s sooner.
_LEAN_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_LOOPBACK_MASTERS = ("local", "spark://127.0.0.1", "spark://localhost", "spark://[::1]")
_QUIET_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.filter.threshold.type = ThresholdFilter
appender.console.filter.threshold.level = error
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = spark: %p %c{1}: %m%n%ex{short}
"""


def master_with_retries(master: str) -> str:
    """`local[N]` as `local[N,4]`: what the user means, with task retries."""
    found = _LOCAL.fullmatch(master)
    return f"local[{found.group(1) or 1},{TASK_TRIES}]" if found else master


def conf_for(settings: SparkSettings, directory: Path) -> dict[str, str]:
    """All Spark properties: ours, then the user's over them."""
    own = {
        **_DEFAULTS,
        "spark.master": master_with_retries(settings.master),
        "spark.local.dir": str(directory),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.driver.extraJavaOptions": f"{_LEAN_JVM} -Djava.io.tmpdir={directory}"
        f" -Dlog4j2.configurationFile={directory / 'log4j2.properties'}",
    }
    if len(str(directory)) > SOCKET_DIRECTORY_LIMIT:
        own["spark.python.unix.domain.socket.enabled"] = "false"
    if settings.master.startswith(_LOOPBACK_MASTERS):
        own |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return own | dict(settings.conf)


def sweep() -> None:
    """Remove what runs that were killed have left behind."""
    for left in Path(tempfile.gettempdir()).glob(f"{DIRECTORY_PREFIX}*-*"):
        pid = left.name.removeprefix(DIRECTORY_PREFIX).partition("-")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(left, ignore_errors=True)


class Session:
    """A running Spark session with a directory of its own, both gone after `stop`."""

    def __init__(self, settings: SparkSettings) -> None:
        sweep()
        self._directory = Path(tempfile.mkdtemp(prefix=f"{DIRECTORY_PREFIX}{os.getpid()}-"))
        try:
            self.spark = _start(settings, self._directory)
        except BaseException:
            self._remove()
            raise
        self._jvm: subprocess.Popen[bytes] = self.spark.sparkContext._gateway.proc

    @property
    def lost(self) -> bool:
        """Whether Spark's JVM is gone."""
        return self._jvm.poll() is not None

    @property
    def slots(self) -> int:
        return int(self.spark.sparkContext.defaultParallelism)

    @property
    def ui_address(self) -> str | None:
        address = self.spark.sparkContext.uiWebUrl
        return str(address) if address else None

    def conf(self, key: str) -> str:
        return str(self.spark.sparkContext.getConf().get(key) or "")

    def stop(self) -> None:
        """End the session, its JVM and its files, whatever state they are in."""
        gateway = self.spark.sparkContext._gateway
        if not self.lost:
            with contextlib.suppress(Exception):  # a JVM that dies while it is asked to stop has stopped
                self.spark.stop()
        with contextlib.suppress(Exception):  # the same for its gateway
            gateway.shutdown()
        _end(self._jvm)
        self._remove()

    def _remove(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)


def _start(settings: SparkSettings, directory: Path) -> Any:
    python = settings.python or sys.executable
    os.environ.update({"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": sys.executable})
    (directory / "log4j2.properties").write_text(_QUIET_LOG4J)
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in _as_items(conf_for(settings, directory)):
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError, _java_error()) as problem:
        raise EngineLost(
            f"Spark did not start on {settings.master!r}: {str(problem).splitlines()[0]}",
            hint="check spark.master and spark.conf, and that java 17 or later is there (java -version)",
        ) from problem
    return session


def _as_items(conf: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted(conf.items())


def _java_error() -> type[Exception]:
    from py4j.protocol import Py4JError

    return Py4JError  # type: ignore[no-any-return] # py4j has no types


def _end(jvm: subprocess.Popen[bytes]) -> None:
    if jvm.stdin is not None:
        with contextlib.suppress(OSError):
            jvm.stdin.close()  # the JVM's sign that its driver is done
    try:
        jvm.wait(JVM_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()
