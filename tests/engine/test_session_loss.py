"""Whether Spark is lost, and its end, are never waited for: the JVM may be frozen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from heliograph.engine import session, spark_jvm
from heliograph.engine.session import CONTEXT_STOPPED, JVM_GONE, ContextWatch, Session
from heliograph.engine.spark_jvm import SparkJvm

SOON_S = 5.0


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "CONTEXT_WATCH_S", 0.01)
    monkeypatch.setattr(session, "CONTEXT_END_TIMEOUT_S", 0.1)
    monkeypatch.setattr(spark_jvm, "END_TIMEOUT_S", 0.1)


class Jvm:
    """A process and a context in it."""

    stdin = None

    def __init__(self) -> None:
        self.exit_code: int | None = None
        self.answer: Callable[[], bool] = lambda: False
        self.thawed = threading.Event()

    def poll(self) -> int | None:
        return self.exit_code

    def wait(self, _timeout_s: float = 0.0) -> int:
        return self.exit_code or 0

    def isStopped(self) -> bool:
        return self.answer()

    def hang(self) -> bool:
        self.thawed.wait(SOON_S)
        return False


def session_on(jvm: Jvm) -> Session:
    """As `Session` is once it is up."""
    made = object.__new__(Session)
    made._jvm = object.__new__(SparkJvm)
    made._jvm.process = cast(Any, jvm)
    made._watch = ContextWatch(jvm)
    return made


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_running_spark_is_not_lost() -> None:
    running = session_on(Jvm())
    time.sleep(0.1)
    assert running.loss is None
    assert not running.lost
    running._watch.end()


def test_a_context_that_was_stopped_in_a_living_jvm_is_lost() -> None:
    jvm = Jvm()
    running = session_on(jvm)
    jvm.answer = lambda: True
    until(lambda: running.lost)
    assert running.loss is CONTEXT_STOPPED


def test_a_jvm_that_is_gone_is_lost_at_once() -> None:
    jvm = Jvm()
    running = session_on(jvm)
    jvm.exit_code = 137
    assert running.loss is JVM_GONE
    running._watch.end()


def test_a_question_that_fails_is_asked_again() -> None:
    jvm, asked = Jvm(), list[int]()

    def fail_once() -> bool:
        asked.append(1)
        if len(asked) == 1:
            raise RuntimeError("py4j: connection reset")
        return True

    jvm.answer = fail_once
    running = session_on(jvm)
    until(lambda: running.lost)


def test_a_frozen_jvm_holds_up_neither_the_question_nor_the_end() -> None:
    jvm = Jvm()
    jvm.answer = jvm.hang
    running = session_on(jvm)
    removed: list[str] = []
    running._jvm.gateway = SimpleNamespace(shutdown=jvm.hang)
    running.context = SimpleNamespace(cancelAllJobs=jvm.hang, cancelJobGroup=lambda _: jvm.hang())
    running._stop_spark = jvm.hang
    running._directory = cast(Any, SimpleNamespace(remove=lambda: removed.append("directory")))
    begun = time.monotonic()
    assert running.loss is None
    running.cancel("heliograph-lane-0")
    running.cancel_all()
    running.stop()
    assert time.monotonic() - begun < 1.0
    assert removed == ["directory"]
    jvm.thawed.set()
