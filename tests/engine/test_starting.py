"""A Spark that nobody wants any more: what is on its way on this machine is killed, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import cast

from heliograph.engine.lanes import Lanes
from heliograph.engine.spark_jvm import PYSPARK_SIGN, kill_starting
from heliograph.engine.starting import Starting
from heliograph.model.errors import EngineLost

SOON_S = 5.0
SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def test_only_the_jvm_that_pyspark_waits_for_is_killed() -> None:
    starting = subprocess.Popen(SLEEP, env={**os.environ, PYSPARK_SIGN: "/tmp/a"})
    other = subprocess.Popen(SLEEP)
    try:
        kill_starting()
        assert starting.wait(SOON_S) == -9
        assert other.poll() is None
    finally:
        for process in (starting, other):
            process.kill()
            process.wait()


def test_giving_up_does_not_wait_for_a_jvm_that_can_be_killed_nor_for_the_one_after_it() -> None:
    """A JVM that dies with its class-data archive is started a second time, without."""
    exits: list[int] = []

    def make() -> Lanes:
        time.sleep(0.2)  # not there yet when it is given up
        for _ in range(2):
            jvm = subprocess.Popen(SLEEP, env={**os.environ, PYSPARK_SIGN: "/tmp/a"})
            exits.append(jvm.wait())
        raise EngineLost("Spark did not start")

    starting = Starting(make)
    begun = time.monotonic()
    starting.give_up(60.0, kill=True)
    assert time.monotonic() - begun < SOON_S
    assert exits == [-9, -9]


def test_lanes_that_are_there_already_are_closed_and_nothing_is_killed() -> None:
    class Made:
        closed = False

        def close(self, _timeout_s: float) -> None:
            self.closed = True

    made = Made()
    starting = Starting(lambda: cast(Lanes, made))
    jvm = subprocess.Popen(SLEEP, env={**os.environ, PYSPARK_SIGN: "/tmp/a"})
    try:
        while not starting._made.done():
            time.sleep(0.01)
        starting.check()
        starting.give_up(SOON_S, kill=True)
        assert made.closed
        assert jvm.poll() is None
    finally:
        jvm.kill()
        jvm.wait()
