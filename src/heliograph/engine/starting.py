"""Lanes that are being made in a thread of their own, so that a run can be ended while Spark starts.

Starting Spark cannot be interrupted, and takes a minute where its master does not answer; what starts on this machine
alone is killed when nobody wants it any more. The thread is a daemon: a process that ends does not wait for it, and
Spark's JVM ends with the process.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from heliograph.engine.lanes import Lanes
from heliograph.engine.spark_jvm import kill_starting

CLOSE_LIMIT_S = 1.0  # no lane was started: there is nothing to wait for
KILL_AGAIN_S = 0.1


class Starting:
    def __init__(self, make: Callable[[], Lanes]) -> None:
        self._make = make
        self._made: Future[Lanes] = Future()
        self._made.set_running_or_notify_cancel()  # a waiter that is cancelled must not cancel the making
        threading.Thread(target=self._run, name="spark-start", daemon=True).start()

    def _run(self) -> None:
        try:
            self._made.set_result(self._make())
        except BaseException as problem:  # noqa: BLE001 - whoever waits raises it
            self._made.set_exception(problem)

    def check(self) -> None:
        """Raise what has gone wrong so far."""
        if self._made.done():
            self._made.result()

    async def wait(self) -> Lanes:
        return await asyncio.wrap_future(self._made)

    def give_up(self, timeout_s: float, *, kill: bool = False) -> None:
        """Nobody wants the lanes any more: end them as soon as they are there, after `timeout_s` without us. `kill`:
        do not wait for a JVM that is on its way; only a local master's, of which nobody else knows yet."""
        closed = threading.Event()

        def close(made: Future[Lanes]) -> None:
            try:
                if made.exception() is None:
                    made.result().close(CLOSE_LIMIT_S)
            finally:
                closed.set()

        self._made.add_done_callback(close)
        deadline = time.monotonic() + timeout_s
        while kill and not closed.is_set() and time.monotonic() < deadline:
            kill_starting()  # again: it may not be there yet, and one that dies may be followed by another
            closed.wait(KILL_AGAIN_S)
        closed.wait(max(deadline - time.monotonic(), 0))
