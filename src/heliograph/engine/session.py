"""The Spark context lanes run on: its start, its loss, and its end.

A context alone, with no DataFrame session: that takes 2 s longer to start, and lanes need none. Nothing here waits for
the JVM without a limit, once the context is up: a JVM may be frozen, and a call through py4j then never returns. What
asks it does so in a daemon thread.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from heliograph.engine.background import in_background
from heliograph.engine.class_archive import discard, options_for
from heliograph.engine.environment import lane_python
from heliograph.engine.run_directory import RunDirectory, sweep
from heliograph.engine.spark_conf import check_conf, conf_for, local_slots, network_warning
from heliograph.engine.spark_jvm import END_TIMEOUT_S, JvmDied, SparkJvm, not_ours
from heliograph.engine.spark_lines import LOG4J
from heliograph.model.events import Event
from heliograph.model.outbox import Outbox
from heliograph.model.settings import DEFAULT_LANE_MEMORY_BYTES, SparkSettings

CONTEXT_END_TIMEOUT_S = 5.0
CONTEXT_WATCH_S = 0.5
EXECUTORS_LIMIT_S = 30.0
EXECUTORS_SETTLED_S = 2.0


def check_launch(environ: Mapping[str, str]) -> None:
    """Under spark-submit the JVM is there before us and is not ours to watch or to end."""
    if "PYSPARK_GATEWAY_PORT" in environ:
        raise not_ours()


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Why nothing can be started on this Spark again."""

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
        in_background("spark-watch", self._run)

    def end(self) -> None:
        self._over.set()

    def _run(self) -> None:
        while not self.stopped and not self._over.wait(CONTEXT_WATCH_S):
            with contextlib.suppress(Exception):  # py4j's own: most likely the JVM is gone, which `loss` sees
                self.stopped = bool(self._context.isStopped())


class Session:
    """A running Spark with a directory of its own, both gone after `stop`. `class_archive`: options of a JVM that makes
    an archive of its classes, instead of those to use the one that is there."""

    def __init__(
        self,
        settings: SparkSettings,
        outbox: Outbox,
        *,
        lane_memory_bytes: int = DEFAULT_LANE_MEMORY_BYTES,
        class_archive: str | None = None,
    ) -> None:
        check_conf(settings.conf)
        check_launch(os.environ)
        python = lane_python(settings)
        warning = network_warning(settings)
        if warning is not None:
            outbox.tell(Event.SPARK_OPEN, warning)
        sweep()
        self._directory = RunDirectory()
        try:
            archive = options_for(settings.master) if class_archive is None else class_archive
            conf = partial(conf_for, settings, self._directory.path, lane_memory_bytes)
            try:
                self._jvm, self.context = _start(conf(archive), python, self._directory.path, outbox)
            except JvmDied:
                if not archive or class_archive is not None:
                    raise
                # The JVM looks at an archive's header only: what is broken further on kills it.
                self._jvm, self.context = _start(conf(), python, self._directory.path, outbox)
                discard(outbox)
        except BaseException:
            self._directory.remove()
            raise
        self._stop_spark: Callable[[], object] = self.context.stop
        self._watch = ContextWatch(self.context._jsc.sc())
        try:
            check_conf(dict(self.context.getConf().getAll()))  # spark-defaults.conf had its say, too
        except BaseException:
            self.stop()
            raise

    def dataframes(self) -> Any:
        """A SparkSession on the same context, for work beside the lanes. Making the first takes about 2 s."""
        from pyspark.sql import SparkSession

        session = SparkSession(self.context)
        self._stop_spark = session.stop  # the context with it
        return session

    @property
    def loss(self) -> Loss | None:
        """Whether Spark is gone, and how. Never waits."""
        if self._jvm.gone:
            return JVM_GONE
        return CONTEXT_STOPPED if self._watch.stopped else None

    @property
    def lost(self) -> bool:
        return self.loss is not None

    @property
    def slots(self) -> int:
        """How many tasks run at once. On a cluster it is waited for executors, until no more come for a while."""
        return self.local_slots or self._settled_slots()

    def _settled_slots(self) -> int:
        context = self.context
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
        found = int(self.context.defaultParallelism)
        return local_slots(self.conf("spark.master"), found)

    @property
    def ui_address(self) -> str | None:
        address = self.context.uiWebUrl
        return str(address) if address else None

    def conf(self, key: str) -> str:
        return str(self.context.getConf().get(key) or "")

    def cancel(self, job_group: str) -> None:
        in_background("spark-cancel", lambda: self.context.cancelJobGroup(job_group))

    def cancel_all(self) -> None:
        in_background("spark-cancel", self.context.cancelAllJobs).join(CONTEXT_END_TIMEOUT_S)

    def stop(self, *, jvm_end_timeout_s: float = END_TIMEOUT_S) -> int:
        """End the context, its JVM and its files, whatever state they are in. The JVM's exit code."""
        self._watch.end()
        if not self._jvm.gone:
            in_background("spark-stop", self._stop_spark).join(CONTEXT_END_TIMEOUT_S)
        exit_code = self._jvm.end(jvm_end_timeout_s)
        self._directory.remove()
        return exit_code


def _start(conf: Mapping[str, str], python: str, directory: Path, outbox: Outbox) -> tuple[SparkJvm, Any]:
    os.environ.update({"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": sys.executable})
    (directory / "log4j2.properties").write_text(LOG4J)
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException

    jvm = SparkJvm(conf, outbox)
    try:
        return jvm, SparkContext(conf=jvm.conf, gateway=jvm.gateway)
    except (PySparkException, Py4JError, RuntimeError, OSError) as problem:
        try:
            lost = jvm.did_not_start(problem, died=jvm.gone)  # while the JVM can be asked why
        finally:
            jvm.end()
        raise lost from problem
    except BaseException:
        jvm.end()
        raise
