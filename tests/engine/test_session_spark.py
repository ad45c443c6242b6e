"""A real Spark: a context alone, its words in the log, DataFrames when they are wanted, another one after it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from heliograph.wire.kernels.loading import wait

SPARK_LIMIT_S = 240

_STORY = """\
import json, logging, os, signal, sys
from heliograph.engine.lane_jobs import cause_of
from heliograph.engine.session import Session
from heliograph.model.errors import EngineLost
from heliograph.model.occurrence_log import logged
from heliograph.model.settings import SparkSettings

class Kept(logging.Handler):
    lines = []
    def emit(self, record):
        self.lines.append(record.getMessage())

class Shown(logging.Handler):  # what an operator sees
    def emit(self, record):
        print(record.getMessage(), file=sys.stderr)

told = {}
spark_log = logging.getLogger("heliograph.spark")
spark_log.setLevel(logging.DEBUG)
spark_log.addHandler(Kept())
spark_log.addHandler(Shown(logging.INFO))

def modules(rows):
    list(rows)
    return [sorted({name.partition(".")[0] for name in sys.modules} & {"pandas", "pyarrow"})]

def ready(rows):
    from heliograph.wire.kernels import loading
    list(rows)
    return [loading.ready()]

def die(rows):
    os.kill(os.getpid(), signal.SIGKILL)

session = Session(SparkSettings(master="local[1]"), logged())
told["loaded"] = session.context.parallelize([0], 1).mapPartitions(modules).collect()[0]
told["ready"] = session.context.parallelize([0], 1).mapPartitions(ready).collect()
try:
    session.context.parallelize([0], 1).mapPartitions(die).collect()
except Exception as problem:
    told["cause"] = cause_of(problem)
told["counted"] = session.dataframes().range(3).count()
session.stop()
told["debug"] = Kept.lines
for name, master in (("refusal", "sparc://nowhere:1"), ("refusal by Java", "local[x]")):
    try:
        Session(SparkSettings(master=master), logged())
    except EngineLost as problem:
        told[name] = problem.message
again = Session(SparkSettings(master="local[1]"), logged())
told["again"] = again.context.parallelize([7], 1).collect()
again.stop()
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def story() -> tuple[dict[str, Any], str]:
    """What happened, and what an operator saw of Spark at the default level."""
    wait()  # kernels that are in the cache
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _STORY]
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=SPARK_LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


pytestmark = pytest.mark.spark


def test_lanes_workers_load_neither_pandas_nor_arrow(story: tuple[dict[str, Any], str]) -> None:
    assert story[0]["loaded"] == []


def test_lanes_workers_are_forked_with_kernels_loaded(story: tuple[dict[str, Any], str]) -> None:
    assert story[0]["ready"] == [True]


def test_a_killed_worker_is_no_stack_trace_to_an_operator_but_is_one_to_who_debugs(
    story: tuple[dict[str, Any], str],
) -> None:
    told, shown = story
    assert "crashed" in told["cause"]
    assert any("Exception in task" in line for line in told["debug"])
    assert any("\tat org.apache.spark" in line for line in told["debug"])
    assert "incubator" not in shown
    assert "\tat " not in shown
    assert "Exception" not in shown


def test_dataframes_can_be_had_on_the_same_context(story: tuple[dict[str, Any], str]) -> None:
    assert story[0]["counted"] == 3


def test_a_spark_that_does_not_start_is_told_with_its_own_last_words(
    story: tuple[dict[str, Any], str],
) -> None:
    assert "Spark did not start on 'sparc://nowhere:1'" in story[0]["refusal"]
    assert "Master must" in story[0]["refusal"]
    assert "Could not parse Master URL: 'local[x]'" in story[0]["refusal by Java"].splitlines()[0]


def test_another_spark_can_be_started_after_the_first_has_ended(story: tuple[dict[str, Any], str]) -> None:
    assert story[0]["again"] == [7]
