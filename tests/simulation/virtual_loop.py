"""Processes of a simulated world and their event loops, in virtual time.

A process can be frozen: what is due for it waits, and happens in order when it is thawed; and killed: nothing of it
ever happens again, and Python says nothing of the tasks that it leaves. One that exits must leave none. Its event loop
runs the production code's tasks, timers and events; one schedule drives all loops, so that a world is one story.
Whatever a process does outside its event loop (the control line's thread) asks the process itself: that goes on while
the loop is busy.
"""

from __future__ import annotations

import asyncio
import contextlib
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, cast

from .machine_clocks import MachineClocks
from .schedule import Do, Schedule

SPINS = 200_000  # callbacks at one moment: production code that never lets time pass
PRECISION_S = 1e-6  # of sums of times


Problem = Callable[[dict[str, Any]], None]


class Process:
    """`on_problem(context)`: what production code would have told its loop's exception handler."""

    def __init__(self, schedule: Schedule, name: str, on_problem: Problem) -> None:
        self.schedule = schedule
        self.name = name
        self.clocks = MachineClocks()
        self._paused_at: float | None = None
        self.loop = VirtualLoop(self, on_problem)
        self.frozen = False
        self.dead = False
        self._waiting: deque[tuple[Do, tuple[Any, ...]]] = deque()

    def at(self, when: float, do: Do, *what: Any) -> None:
        self.schedule.at(when, self._due, do, what)

    def after(self, delay_s: float, do: Do, *what: Any) -> None:
        self.schedule.after(delay_s, self._due, do, what)

    def happens(self, do: Do, *what: Any) -> None:
        """Now, or when it is thawed."""
        self._due(do, what)

    def _due(self, do: Do, what: tuple[Any, ...]) -> None:
        if self.frozen:
            self._waiting.append((do, what))
        elif not self.dead:
            self._do(do, what)

    def _do(self, do: Do, what: tuple[Any, ...]) -> None:
        others, self.schedule.clocks = self.schedule.clocks, self.clocks
        try:
            do(*what)
        finally:
            self.schedule.clocks = others

    def freeze(self) -> None:
        self.frozen = True

    def thaw(self) -> None:
        if self._paused_at is not None:
            return
        self.frozen = False
        while self._waiting and not self.frozen and not self.dead:
            self._do(*self._waiting.popleft())

    def pause(self) -> None:
        """As a hypervisor does: its clocks stand still too."""
        if self._paused_at is None:
            self._paused_at = self.schedule.now
            self.freeze()

    def resume(self, *, set_right: bool = True) -> None:
        """`set_right`: its time of day is, before anything happens."""
        if self._paused_at is None:
            return
        paused_s, self._paused_at = self.schedule.now - self._paused_at, None
        self.clocks.paused_s += paused_s
        self.clocks.wall_behind_s += 0.0 if set_right else paused_s
        self.thaw()

    def kill(self) -> None:
        """As kill -9 does, at any moment."""
        self.loop.forget_tasks()
        self._die()

    def exit(self) -> None:
        """Its main task is over."""
        self.loop.cancel_tasks()
        self._die()

    def _die(self) -> None:
        self.dead, self.frozen = True, False
        self._waiting.clear()


class VirtualLoop:
    """As much of an asyncio.AbstractEventLoop as production code and asyncio itself ask for."""

    def __init__(self, process: Process, on_problem: Problem) -> None:
        self._itself = cast(asyncio.AbstractEventLoop, self)
        self._process = process
        self._schedule = process.schedule
        self._on_problem = on_problem
        self._ready: deque[asyncio.Handle] = deque()
        self._turning = False  # callbacks run, or are about to
        self._buried = False
        self._cancelled = False  # its process has exited
        self.busy = False

    @property
    def process(self) -> Process:
        return self._process

    # -- what asyncio asks of a loop

    def time(self) -> float:
        return self._schedule.now - self._process.clocks.paused_s

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._buried

    def is_closed(self) -> bool:
        return self._buried or self._process.dead

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self._itself, context)
        self._ready.append(handle)
        if not self._turning:
            self._turning = True
            self._process.after(0.0, self._turn)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self._itself, context)
        self._process.at(when + self._process.clocks.paused_s, self._fire, handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when it is due."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self._itself)

    def create_task(
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self._itself, name=name, context=context)

    def run_in_executor(self, _executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """At once: what a thread does takes no time here."""
        future = self.create_future()
        future.set_result(func(*args))
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self._on_problem(context)

    # -- turns

    def arrive(self, do: Do, *what: Any) -> None:
        """Something has reached the process, and is a callback of its own."""
        self._ready.append(asyncio.Handle(do, what, self._itself))
        if not self._turning:
            self._turn()

    def _fire(self, handle: asyncio.TimerHandle) -> None:
        left_s = handle.when() - self.time()
        if left_s > 0:  # it was paused meanwhile, or a sum of times is not exact: never early
            self._process.after(left_s + PRECISION_S, self._fire, handle)
        elif not handle.cancelled():
            self._ready.append(handle)
            if not self._turning:
                self._turn()

    def _turn(self) -> None:
        if self.busy:
            self._turning = False
            return
        self._turning = True
        events._set_running_loop(self._itself)
        ready, spins = self._ready, 0
        try:
            while ready:
                handle = ready.popleft()
                if not handle.cancelled():
                    handle._run()
                    spins += 1
                    if spins > SPINS:
                        raise RuntimeError(f"{self._process.name} spins: {handle}")
        finally:
            self._turning = False
            events._set_running_loop(None)

    def come_round(self) -> None:
        """It is busy no more."""
        self.busy = False
        if not self._turning:
            self._turning = True
            self._process.after(0.0, self._turn)

    def forget_tasks(self) -> None:
        """Those that it holds now, and no others, are never ended: Python is not to tell that they are pending."""
        for task in asyncio.all_tasks(self._itself):
            task._log_destroy_pending = False  # type: ignore[attr-defined]

    def cancel_tasks(self) -> None:
        """As asyncio.run does at the end; they end in this turn."""
        self._cancelled = True
        for task in asyncio.all_tasks(self._itself):
            task.cancel()

    def bury(self) -> None:
        """The world is over: what is left of tasks is closed where it stands, or Python would tell of it later."""
        if self._cancelled and (tasks := asyncio.all_tasks(self._itself)):
            self._on_problem({"message": f"{self._process.name} has exited, and tasks go on: {tasks}"})
        self._buried = True
        events._set_running_loop(self._itself)
        closed: set[asyncio.Task[Any]] = set()
        while left := asyncio.all_tasks(self._itself) - closed:  # closing one may begin others
            for task in left:
                _close(task)
            closed |= left
        events._set_running_loop(None)


def process_that_runs() -> Process:
    """The one whose event loop calls."""
    return cast(VirtualLoop, asyncio.get_running_loop()).process


def _close(task: asyncio.Task[Any]) -> None:
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    for _ in range(10):  # code that waits while it is closed must be closed again
        # KeyError: code that asks which task it is, of which there is none when it is closed so.
        with contextlib.suppress(RuntimeError, KeyError):
            task.get_coro().close()
            return
