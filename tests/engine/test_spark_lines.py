"""What Spark's JVM prints: how loud each line is, and what is kept of it for an error."""

from __future__ import annotations

import logging
import os
import time

import pytest

from heliograph.engine import spark_lines
from heliograph.engine.spark_lines import LAST_WORDS, SparkLines, is_loud
from heliograph.model.occurrence_log import logged

SOON_S = 5.0


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: Using incubator modules: jdk.incubator.vector",
        "spark: ERROR Executor: Exception in task 0.0 in stage 0.0 (TID 0)",
        "spark: ERROR TaskSetManager: Task 0 in stage 0.0 failed 4 times; aborting job",
        "spark: ERROR PythonRunner: This may have been caused by a prior exception:",
        "spark: WARN TaskSetManager: Lost task 0.0 in stage 0.0 (TID 0) (host executor driver)",
        "spark: WARN NativeCodeLoader: Unable to load native-hadoop library",
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
        "\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.hasNext(PythonRunner.scala:1)",
        "",
    ],
)
def test_what_is_told_in_our_own_words_is_for_debugging(line: str) -> None:
    assert not is_loud(line)


@pytest.mark.parametrize(
    "line",
    [
        "spark: ERROR StandaloneSchedulerBackend: Application has been killed. Reason: All masters are unresponsive!",
        "spark: ERROR TaskSchedulerImpl: Lost executor 0 on host: worker lost",
        "spark: FATAL SparkContext: out of everything",
        "java.lang.OutOfMemoryError: Java heap space",
        "# A fatal error has been detected by the Java Runtime Environment:",
    ],
)
def test_what_concerns_spark_as_a_whole_is_an_error(line: str) -> None:
    assert is_loud(line)


def printed(*lines: str) -> SparkLines:
    read = SparkLines(logged())
    os.write(read.writing, "".join(f"{line}\n" for line in lines).encode())
    read.given()
    return read


def test_every_line_is_logged_under_one_name_without_its_mark(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "heliograph.spark")
    printed("spark: ERROR TaskSchedulerImpl: Lost executor 0", "\tat somewhere").last_words(SOON_S)
    assert caplog.record_tuples == [
        ("heliograph.spark", logging.ERROR, "ERROR TaskSchedulerImpl: Lost executor 0"),
        ("heliograph.spark", logging.DEBUG, "\tat somewhere"),
    ]


def test_the_last_words_are_the_last_lines_that_are_no_stack_trace() -> None:
    lines = [f"word {number}" for number in range(9)]
    read = printed(*lines, "Caused by: this", "\tat a.b(C.java:1)", "\t... 7 more", "")
    assert read.last_words(SOON_S) == [*lines[-LAST_WORDS + 1 :], "Caused by: this"]


def test_a_line_without_end_is_told_in_pieces(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(spark_lines, "LINE_LIMIT", 10)
    caplog.set_level(logging.DEBUG, "heliograph.spark")
    printed("x" * 25).last_words(SOON_S)
    assert [len(record.message) for record in caplog.records] == [10, 10, 5]


def test_bytes_that_are_no_text_do_not_end_the_reading() -> None:
    read = SparkLines(logged())
    os.write(read.writing, b"\xff\xfe\nstill read\n")
    read.given()
    assert read.last_words(SOON_S)[-1] == "still read"


def test_words_of_a_jvm_that_goes_on_are_not_waited_for() -> None:
    read = SparkLines(logged())
    begun = time.monotonic()
    assert read.last_words(0.1) == []
    assert time.monotonic() - begun < SOON_S
    read.given()
