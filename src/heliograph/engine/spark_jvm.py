"""Spark's driver JVM as a process of ours: its start, what it prints, its end.

Must not know what is run on it. Its context is `session.py`'s.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from typing import Any

import psutil

from heliograph.engine.background import in_background
from heliograph.engine.spark_lines import SparkLines
from heliograph.model.errors import EngineLost, UsageError
from heliograph.model.outbox import Outbox

PYSPARK_SIGN = "_PYSPARK_DRIVER_CONN_INFO_PATH"
END_TIMEOUT_S = 5.0
LAST_WORDS_WAIT_S = 1.0


class JvmDied(EngineLost):
    """It ended before Spark was up, instead of telling what was wrong."""


def not_ours() -> UsageError:
    return UsageError(
        "Heliograph starts Spark itself and cannot run inside spark-submit or a notebook's Spark",
        hint="run `heliograph run` as a plain command; spark.master and spark.conf in the config say where to",
    )


def kill_starting() -> None:
    """End the JVM that a `SparkJvm` in another thread is waiting for: that one fails then, and cleans up.

    PySpark shows its process only once it has answered; before that it is known by a variable that PySpark gives it.
    """
    inherited = os.environ.get(PYSPARK_SIGN)
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if child.environ().get(PYSPARK_SIGN) not in (None, inherited):
                os.kill(child.pid, signal.SIGKILL)


class SparkJvm:
    """`gateway`: py4j's way into it."""

    def __init__(self, conf: Mapping[str, str], outbox: Outbox) -> None:
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway

        if SparkContext._gateway is not None:
            raise not_ours()  # somebody else started it and goes on using it: it is left running
        self.conf = SparkConf(loadDefaults=False).setAll(sorted(conf.items()))
        self._lines = SparkLines(outbox)
        try:
            # Java prints warnings of its own to stdout, which is for a command's result.
            pipe = {"stdout": self._lines.writing, "stderr": self._lines.writing}
            self.gateway: Any = launch_gateway(self.conf, pipe)  # type: ignore[no-untyped-call]
        except (RuntimeError, OSError) as problem:
            self._lines.given()
            raise self.did_not_start(problem, died=True) from problem
        self._lines.given()
        self.process: subprocess.Popen[bytes] = self.gateway.proc

    def did_not_start(self, problem: Exception, *, died: bool) -> EngineLost:
        """The error that tells so, with what Spark said last."""
        words = [_reason(problem), *self._lines.last_words(LAST_WORDS_WAIT_S)]
        return (JvmDied if died else EngineLost)(
            f"Spark did not start on {self.conf.get('spark.master')!r}: " + "\n  ".join(words),
            hint="check spark.master and spark.conf, and that java 17 or later is there (java -version)",
        )

    @property
    def gone(self) -> bool:
        return self.process.poll() is not None

    def end(self, timeout_s: float = END_TIMEOUT_S) -> int:
        """In whatever state it is. Another one may be started after that. Its exit code."""
        from pyspark import SparkContext

        in_background("spark-stop", self.gateway.shutdown).join(END_TIMEOUT_S)
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()  # the JVM's sign that its driver is done
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if SparkContext._gateway is self.gateway:
            SparkContext._gateway = SparkContext._jvm = None
        return self.process.wait()


def _reason(problem: Exception) -> str:
    """In a line. What an exception of Java's says, py4j asks in its JVM: which may be gone."""
    try:
        lines = str(problem).splitlines()
    except Exception:  # noqa: BLE001 - whatever py4j raises then
        lines = []
    java = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    return next(iter(java or lines), type(problem).__name__)
