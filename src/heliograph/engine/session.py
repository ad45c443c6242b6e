"""The Spark session lanes run on: its start, its loss, and its end.

Nothing here waits for the JVM without a limit, once the session is up: a JVM may be frozen, and a call through py4j
then never returns. What asks it does so in a daemon thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heliograph.engine.environment import lane_python
from heliograph.engine.run_directory import RunDirectory, sweep
from heliograph.engine.spark_conf import check_conf, conf_for, local_slots, network_warning
from heliograph.model.errors import EngineLost, UsageError
from heliograph.model.events import Event
from heliograph.model.settings import DEFAULT_LANE_MEMORY_BYTES, SparkSettings

JVM_END_TIMEOUT_S = 5.0
CONTEXT_WATCH_S = 0.5
EXECUTORS_LIMIT_S = 30.0
EXECUTORS_SETTLED_S = 2.0
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

log = logging.getLogger(__name__)


def check_launch(environ: Mapping[str, str]) -> None:
    """Under spark-submit the JVM is there before us and is not ours to watch or to end."""
    if "PYSPARK_GATEWAY_PORT" in environ:
        raise _not_ours()


def _not_ours() -> UsageError:
    return UsageError(
        "Heliograph starts Spark itself and cannot run inside spark-submit or a notebook's Spark",
        hint="run `heliograph run` as a plain command; spark.master and spark.conf in the config say where to",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Why nothing can be started on this session again."""

    message: str
    hint: str


JVM_GONE = Loss(message="Spark's JVM is gone", hint="see the system's log for an out-of-memory kill")
CONTEXT_STOPPED = Loss(
    message="Spark has stopped its context while its JVM lives",
    hint="see whether Spark's master and its workers run, and what its log says of this application",
)


class ContextWatch:
    """Asks Spark's context again and again whether it has stopped, so that `stopped` need not wait for an answer.

    A standalone master that goes away, for one, stops the context and leaves the JVM.
    """

    def __init__(self, context: Any) -> None:
        self.stopped = False
        self._context = context
        self._over = threading.Event()
        _in_background("spark-watch", self._run)

    def end(self) -> None:
        self._over.set()

    def _run(self) -> None:
        while not self.stopped and not self._over.wait(CONTEXT_WATCH_S):
            with contextlib.suppress(Exception):  # py4j's own: most likely the JVM is gone, which `loss` sees
                self.stopped = bool(self._context.isStopped())


class Session:
    """A running Spark session with a directory of its own, both gone after `stop`."""

    def __init__(
        self, settings: SparkSettings, *, lane_memory_bytes: int = DEFAULT_LANE_MEMORY_BYTES
    ) -> None:
        check_conf(settings.conf)
        check_launch(os.environ)
        python = lane_python(settings)
        warning = network_warning(settings)
        if warning is not None:
            log.warning("%s", warning, extra={"event": Event.SPARK_OPEN})
        sweep()
        self._directory = RunDirectory()
        try:
            conf = conf_for(settings, self._directory.path, lane_memory_bytes)
            self.spark = _start(conf, python, self._directory.path)
            self._jvm = _jvm_of(self.spark)
        except BaseException:
            self._directory.remove()
            raise
        self._context = ContextWatch(self.spark.sparkContext._jsc.sc())
        try:
            effective = dict(self.spark.sparkContext.getConf().getAll())
            check_conf(effective)  # spark-defaults.conf had its say, too
        except BaseException:
            self.stop()
            raise

    @property
    def loss(self) -> Loss | None:
        """Whether Spark is gone, and how. Never waits."""
        if self._jvm.poll() is not None:
            return JVM_GONE
        return CONTEXT_STOPPED if self._context.stopped else None

    @property
    def lost(self) -> bool:
        return self.loss is not None

    @property
    def slots(self) -> int:
        """How many tasks run at once. On a cluster it is waited for executors, until no more come for a while."""
        return self.local_slots or self._settled_slots()

    def _settled_slots(self) -> int:
        context = self.spark.sparkContext
        deadline = time.monotonic() + EXECUTORS_LIMIT_S
        slots, since = 0, time.monotonic()
        while time.monotonic() < deadline:
            executors = int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1  # less the driver
            found = int(context.defaultParallelism) if executors else 0
            if found != slots:
                slots, since = found, time.monotonic()
            elif slots and time.monotonic() - since >= EXECUTORS_SETTLED_S:
                break
            time.sleep(CONTEXT_WATCH_S)
        return slots or int(context.defaultParallelism)

    @property
    def local_slots(self) -> int | None:
        """What a local master has; None on any other, which may be given more at any time."""
        found = int(self.spark.sparkContext.defaultParallelism)
        return local_slots(self.conf("spark.master"), found)

    @property
    def ui_address(self) -> str | None:
        address = self.spark.sparkContext.uiWebUrl
        return str(address) if address else None

    def conf(self, key: str) -> str:
        return str(self.spark.sparkContext.getConf().get(key) or "")

    def cancel(self, job_group: str) -> None:
        _in_background("spark-cancel", lambda: self.spark.sparkContext.cancelJobGroup(job_group))

    def cancel_all(self) -> None:
        _in_background("spark-cancel", self.spark.sparkContext.cancelAllJobs).join(JVM_END_TIMEOUT_S)

    def stop(self) -> None:
        """End the session, its JVM and its files, whatever state they are in."""
        self._context.end()
        gateway = self.spark.sparkContext._gateway
        if self._jvm.poll() is None:
            _in_background("spark-stop", self.spark.stop).join(JVM_END_TIMEOUT_S)
        _in_background("spark-stop", gateway.shutdown).join(JVM_END_TIMEOUT_S)
        _end(self._jvm)
        self._directory.remove()


def _in_background(name: str, work: Callable[[], Any]) -> threading.Thread:
    """A call to the JVM that may never return, or fail because it is gone: neither is the caller's trouble."""

    def run() -> None:
        with contextlib.suppress(Exception):
            work()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def _jvm_of(spark: Any) -> subprocess.Popen[bytes]:
    jvm: subprocess.Popen[bytes] | None = getattr(spark.sparkContext._gateway, "proc", None)
    if jvm is None:
        raise _not_ours()  # somebody else started it and goes on using it: it is left running
    return jvm


def _start(conf: Mapping[str, str], python: str, directory: Path) -> Any:
    os.environ.update({"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": sys.executable})
    (directory / "log4j2.properties").write_text(_QUIET_LOG4J)
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in _as_items(conf):
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError, _java_error()) as problem:
        raise EngineLost(
            f"Spark did not start on {conf['spark.master']!r}: {str(problem).splitlines()[0]}",
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
