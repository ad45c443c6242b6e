"""Lanes as Spark jobs: one job of one task each, resubmitted with backoff for as long as the run lasts.

One job per lane, because a job of n tasks dies as a whole when one task has failed too often. Each is submitted from
a thread of its own (that is what Spark's job groups and scheduler pools are bound to).
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import dropwhile, takewhile

from heliograph.engine.lane_task import LaneTicket, task_for
from heliograph.engine.session import Loss, Session
from heliograph.engine.versions import why_it_never_began
from heliograph.model.events import Event
from heliograph.model.outbox import Outbox

BACKOFF_FIRST_S = 0.2
BACKOFF_MAX_S = 10.0
LONG_LIFE_S = 60.0  # a lane that lived so long is started again without delay
WATCH_S = 0.5
_PY4J = "An error occurred while calling "  # and then a name that says nothing
_TRACEBACK = "Traceback (most recent call last)"
# `package.module.Name` or a builtin's `SomethingError`, then a message or nothing
_EXCEPTION = re.compile(
    r"(?:[a-z_]\w*\.)+[A-Z]\w*(?::.*)?|[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Group)(?::.*)?"
)


class LaneJobs:
    """`on_lost` is called once, from another thread, when Spark is gone."""

    def __init__(self, session: Session, on_lost: Callable[[Loss], None], outbox: Outbox) -> None:
        self._session = session
        self._on_lost = on_lost
        self._outbox = outbox
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, tickets: list[LaneTicket]) -> None:
        """More may be started later."""
        if not self._threads:
            self._thread("lane-watch", self._watch)
        for ticket in tickets:
            self._thread(f"lane-{ticket.lane}", partial(self._keep_running, ticket))

    def stop(self) -> None:
        """Start no lane again; those that run are ended by the control line."""
        self._stopping.set()

    def join(self, timeout_s: float) -> bool:
        """Whether all jobs have ended in time."""
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0))
        return not any(thread.is_alive() for thread in self._threads)

    def cancel(self, lane: int) -> None:
        """End the lane's job as it is; it is started again."""
        self._session.cancel(job_group(lane))

    def _thread(self, name: str, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _watch(self) -> None:
        while not self._stopping.wait(WATCH_S):
            loss = self._session.loss
            if loss is not None:
                self._on_lost(loss)
                return

    def _keep_running(self, ticket: LaneTicket) -> None:
        wait_s = BACKOFF_FIRST_S
        while not self._stopping.is_set() and not self._session.lost:
            began_at = time.monotonic()
            ended = self._run_once(ticket)
            if time.monotonic() - began_at > LONG_LIFE_S:
                wait_s = BACKOFF_FIRST_S
            if self._stopping.is_set() or self._session.lost:
                return
            words = f"lane {ticket.lane} ended ({ended}); starting it again in {wait_s:.1f} s"
            self._outbox.tell(Event.LANE_GONE, words)
            remedy = why_it_never_began(ended)
            if remedy is not None:
                self._outbox.tell(Event.LANE_UNFIT, f"lane {ticket.lane} cannot begin: {remedy}")
            self._stopping.wait(wait_s)
            wait_s = min(wait_s * 2, BACKOFF_MAX_S)

    def _run_once(self, ticket: LaneTicket) -> str:
        context = self._session.context
        name = f"heliograph lane {ticket.lane}"
        try:
            context.setJobGroup(job_group(ticket.lane), name, interruptOnCancel=True)
            context.setLocalProperty("spark.scheduler.pool", f"lane-{ticket.lane}")
            ends = context.parallelize([ticket.lane], 1).mapPartitions(task_for(ticket)).collect()
        except Exception as problem:  # noqa: BLE001 - whatever Spark raises, the lane is over and is started again
            return cause_of(problem)
        return str(ends[0]) if ends else "no result"


def job_group(lane: int) -> str:
    return f"heliograph-lane-{lane}"


def cause_of(problem: Exception) -> str:
    """One line that says why: of a worker's traceback the exception at its end, else Spark's own first line."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    if not lines:
        return type(problem).__name__
    of_worker = dropwhile(lambda line: _TRACEBACK not in line, lines)
    before_java = takewhile(lambda line: not line.startswith("at "), of_worker)
    named = [line for line in before_java if _EXCEPTION.fullmatch(line)]
    if named:
        return named[-1]
    told_by_py4j = lines[0].startswith(_PY4J) and len(lines) > 1
    return lines[1].removeprefix(": ") if told_by_py4j else lines[0]
