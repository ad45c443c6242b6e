"""Lanes as Spark jobs: named, started again with the cause told, ended in bounded time; on a Spark that is played."""

from __future__ import annotations

import logging
import time
from typing import cast

import pytest

from heliograph.engine import lane_jobs
from heliograph.engine.lane_jobs import LaneJobs, cause_of, job_group
from heliograph.engine.lane_task import LaneTicket, task_for
from heliograph.engine.session import CONTEXT_STOPPED, Loss, Session
from heliograph.model.occurrence_log import logged

from .played_spark import SOON_S, PlayedSpark, until

SECRET = b"do not tell anybody of this one!"


def jobs_on(spark: PlayedSpark, lost: list[Loss] | None = None) -> LaneJobs:
    return LaneJobs(cast(Session, spark), (lost if lost is not None else []).append, logged())


def ticket(lane: int = 3) -> LaneTicket:
    return LaneTicket(lane=lane, address=("127.0.0.1", 9), memory_bytes=1, fingerprint=b"", secret=SECRET)


def end(jobs: LaneJobs, spark: PlayedSpark) -> None:
    jobs.stop()
    spark.over.set()
    assert jobs.join(SOON_S)


def test_every_lane_is_a_job_of_its_own_with_a_name_and_a_pool() -> None:
    spark = PlayedSpark()
    jobs = jobs_on(spark)
    jobs.start([ticket(0), ticket(1)])
    until(lambda: len(spark.pools) == 2)
    end(jobs, spark)
    assert sorted(spark.groups) == [
        ("heliograph-lane-0", "heliograph lane 0", True),
        ("heliograph-lane-1", "heliograph lane 1", True),
    ]
    assert sorted(spark.pools) == [("spark.scheduler.pool", "lane-0"), ("spark.scheduler.pool", "lane-1")]


def test_the_runs_secret_is_in_no_repr_name_or_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    spark = PlayedSpark("the driver is gone", RuntimeError("no slot"))
    jobs = jobs_on(spark)
    jobs.start([ticket()])
    until(lambda: len(spark.groups) == 3)
    end(jobs, spark)
    shown = "".join(
        [repr(ticket()), str(ticket()), repr(task_for(ticket())), caplog.text, *map(str, spark.groups)]
    )
    for form in (SECRET.decode(), SECRET.hex(), repr(SECRET)):
        assert form not in shown


def test_a_lane_whose_job_cannot_even_be_named_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_jobs, "BACKOFF_FIRST_S", 0.01)
    spark = PlayedSpark()
    spark.refuses_groups = RuntimeError("py4j: no answer")
    jobs = jobs_on(spark)
    jobs.start([ticket()])
    time.sleep(0.1)
    spark.refuses_groups = None
    until(lambda: spark.groups)
    end(jobs, spark)


def test_waiting_for_many_lanes_has_one_deadline() -> None:
    spark = PlayedSpark()
    jobs = jobs_on(spark)
    jobs.start([ticket(lane) for lane in range(8)])
    jobs.stop()
    begun = time.monotonic()
    assert not jobs.join(0.2)
    assert time.monotonic() - begun < 1.0
    end(jobs, spark)


def test_a_spark_that_is_lost_is_told_once_with_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_jobs, "WATCH_S", 0.01)
    spark, lost = PlayedSpark(), list[Loss]()
    jobs = jobs_on(spark, lost)
    jobs.start([ticket()])
    spark.loss = CONTEXT_STOPPED
    until(lambda: lost)
    time.sleep(0.1)
    assert lost == [CONTEXT_STOPPED]
    end(jobs, spark)


def test_a_lane_is_cancelled_by_the_group_its_job_was_given() -> None:
    spark = PlayedSpark()
    jobs_on(spark).cancel(3)
    assert spark.cancelled == [job_group(3)] == ["heliograph-lane-3"]


# -- the cause

WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/opt/lane_task.py", line 56, in run
    ended = run_lane(ticket)
ConnectionResetError: [Errno 104] Connection reset by peer

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/opt/lane.py", line 9, in step
    raise ProtocolError("a batch: of 3 bytes")
{last}

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""


@pytest.mark.parametrize(
    "last",
    [
        "heliograph.model.errors.ProtocolError: a batch: of 3 bytes",
        "AssertionError",
        "KeyError: 'partitions'",
        "asyncio.exceptions.InvalidStateError: invalid state",
    ],
)
def test_the_cause_is_the_exception_that_ended_the_worker(last: str) -> None:
    assert cause_of(RuntimeError(WORKER.format(last=last))) == last


def test_a_cause_of_several_lines_is_told_by_its_first() -> None:
    text = WORKER.format(last="heliograph.model.errors.EngineLost: gone\nSee the log of it: there")
    assert cause_of(RuntimeError(text)) == "heliograph.model.errors.EngineLost: gone"


@pytest.mark.parametrize(
    ("problem", "cause"),
    [
        (RuntimeError("\n Job 3 cancelled \nat somewhere"), "Job 3 cancelled"),
        (
            RuntimeError(
                "An error occurred while calling o1.collect.\n: org.apache.spark.X: Job 0 cancelled\n\tat a"
            ),
            "org.apache.spark.X: Job 0 cancelled",
        ),
        (ValueError(""), "ValueError"),
        (RuntimeError("Traceback (most recent call last):\n  cut off"), "Traceback (most recent call last):"),
    ],
)
def test_without_a_workers_exception_spark_has_the_word(problem: Exception, cause: str) -> None:
    assert cause_of(problem) == cause


def test_the_warning_names_the_cause(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lane_jobs, "BACKOFF_FIRST_S", 0.01)
    spark = PlayedSpark(RuntimeError(WORKER.format(last="KeyError: 'partitions'")))
    jobs = jobs_on(spark)
    jobs.start([ticket()])
    until(lambda: len(spark.groups) == 2)
    end(jobs, spark)
    assert "lane 3 ended (KeyError: 'partitions'); starting it again" in caplog.text
