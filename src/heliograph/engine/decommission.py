"""Executors that Spark is about to take away: their lanes are told to stop while there is still time to drain.

A decommissioned executor keeps a running task for as long as it lives, and a lane never ends by itself; so it must be
ended, and Spark starts it again elsewhere. Asks the JVM in a daemon thread: it may not answer.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

LOOK_S = 1.0


class DecommissionWatch:
    """`on_leaving(lane, executor)` is called from another thread, once for each."""

    def __init__(self, context: Any, on_leaving: Callable[[int, str], None]) -> None:
        self._context = context
        self._groups: Mapping[int, str] = {}  # replaced, never changed: another thread reads it
        self._on_leaving = on_leaving
        self._told: set[tuple[int, str]] = set()
        self._over = threading.Event()
        threading.Thread(target=self._run, name="decommission-watch", daemon=True).start()

    def watch(self, groups: Mapping[int, str]) -> None:
        """These, too; by lane: its job group."""
        self._groups = {**self._groups, **groups}

    def end(self) -> None:
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(LOOK_S):
            with contextlib.suppress(Exception):  # py4j's own: a JVM that is gone is seen by others
                self._look()

    def _look(self) -> None:
        scheduler = self._context._jsc.sc().taskScheduler()
        for lane, group in self._groups.items():
            executor = self._executor_of(group)
            if executor is None or (lane, executor) in self._told:
                continue
            if scheduler.getExecutorDecommissionState(executor).isDefined():
                self._told.add((lane, executor))
                self._on_leaving(lane, executor)

    def _executor_of(self, group: str) -> str | None:
        """Where the running task of a lane's job is."""
        store = self._context._jsc.sc().statusStore()
        tracker = self._context.statusTracker()
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            if info is None or info.status != "RUNNING":
                continue
            for stage in info.stageIds:
                tasks = store.taskList(stage, store.lastStageAttempt(stage).attemptId(), 10)
                for nth in range(tasks.size()):
                    if tasks.apply(nth).status() == "RUNNING":
                        return str(tasks.apply(nth).executorId())
        return None
