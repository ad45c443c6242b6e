"""What is done to a pair of runs and to the brokers of their target: lanes, drivers and leaders killed and frozen.

Owns the faults and the end of each. Must not know what is copied, nor when a fault may strike.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections.abc import Callable, Iterator

import psutil

from .fault_scene import is_gone
from .struck_pair import StruckPair, Where

# Because of a partition. It calls the last one when it has struck, and mends after that.
Fault = Callable[[StruckPair, Where, Callable[[], None]], None]

log = logging.getLogger(__name__)


def kill_lane(pair: StruckPair, where: Where, struck: Callable[[], None]) -> None:
    victim = _lane_pid(pair, where)
    os.kill(victim, signal.SIGKILL)
    pair.runs.wait(lambda: is_gone(victim), "end of the lane")
    struck()


def freeze_lane(pair: StruckPair, where: Where, struck: Callable[[], None]) -> None:
    """Until another lane has its partition."""
    victim, run = _lane_pid(pair, where), pair.runs.active()
    with _frozen(pair, victim):
        struck()
        pair.runs.wait(lambda: pair.runs.lane_pid(run, *where) not in (None, victim), "another lane")


def kill_driver(pair: StruckPair, where: Where, struck: Callable[[], None]) -> None:
    run = pair.runs.active()
    standby, family = pair.runs.other(run), run.family()
    os.kill(run.pid, signal.SIGKILL)
    pair.runs.wait(lambda: not run.running, "end of the driver")
    struck()
    pair.runs.wait(lambda: pair.runs.lane_pid(standby, *where) is not None, "taking over")
    pair.runs.wait(lambda: all(is_gone(each.pid) for each in family), "end of what the driver left behind")
    pair.runs.replace(run)


def freeze_driver(pair: StruckPair, where: Where, struck: Callable[[], None]) -> None:
    """Until the other run has the partition. Lanes of the frozen one go on meanwhile, and race with it."""
    run = pair.runs.active()
    standby = pair.runs.other(run)
    with _frozen(pair, run.pid):
        struck()
        pair.runs.wait(lambda: pair.runs.lane_pid(standby, *where) is not None, "taking over")
        log.info("taken over while the target ends at %d", pair.bounds(where)[0].stop)


def kill_broker(pair: StruckPair, where: Where, struck: Callable[[], None]) -> None:
    """That leads the partition, until another one does."""
    leader = pair.leader(where)
    assert leader is not None
    with pair.without(leader):
        leader.kill()
        try:
            pair.runs.wait(lambda: pair.leader(where) not in (None, leader), "new leader")
            struck()
        finally:
            leader.start()


def freeze_broker(pair: StruckPair, where: Where, struck: Callable[[], None]) -> None:
    leader = pair.leader(where)
    assert leader is not None
    with pair.without(leader):
        leader.freeze()
        try:
            pair.runs.wait(lambda: pair.leader(where) not in (None, leader), "new leader")
            struck()
        finally:
            leader.thaw()


@contextlib.contextmanager
def _frozen(pair: StruckPair, pid: int) -> Iterator[None]:
    """None of its threads runs; it is thawed at the end, unless it was ended meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    try:
        pair.runs.wait(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "freeze")
        yield
    finally:
        if not is_gone(pid):
            os.kill(pid, signal.SIGCONT)


def _lane_pid(pair: StruckPair, where: Where) -> int:
    pid = pair.runs.lane_pid(pair.runs.active(), *where)
    assert pid is not None, f"no lane holds {where}"
    return pid
