"""Event loops in virtual time: what asyncio's own parts do on them, and what a process that freezes, is busy or dies
does not."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any

from heliograph.model.clock import clock_of_suspended_time, clock_of_waits

from .machine_clocks import each_with_its_own
from .schedule import Schedule
from .virtual_loop import Process


class Stage:
    """One process, and what it told when."""

    def __init__(self) -> None:
        self.schedule = Schedule()
        self.problems: list[dict[str, Any]] = []
        self.process = Process(self.schedule, "p", self.problems.append)
        self.told: list[tuple[float, object]] = []

    def tell(self, what: object) -> None:
        self.told.append((self.schedule.now, what))

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        self.process.loop.create_task(work)

    def play(self, until_s: float) -> None:
        self.schedule.at(until_s, lambda: None)
        while self.schedule.now < until_s and self.schedule.step():
            pass


def test_timeouts_sleeps_events_and_gathers_take_virtual_time() -> None:
    stage = Stage()

    async def work() -> None:
        event = asyncio.Event()
        asyncio.get_running_loop().call_later(2, event.set)
        await event.wait()
        stage.tell("event")
        try:
            async with asyncio.timeout(3):
                await asyncio.sleep(10)
        except TimeoutError:
            stage.tell("timeout")
        stage.tell(await asyncio.gather(asyncio.sleep(1, "a"), asyncio.sleep(2, "b")))
        stage.tell(await asyncio.to_thread(lambda: "thread"))

    stage.begin(work())
    stage.play(20.0)
    assert stage.told == [(2.0, "event"), (5.0, "timeout"), (7.0, ["a", "b"]), (7.0, "thread")]
    assert stage.problems == []


async def _tick(stage: Stage) -> None:
    while True:
        await asyncio.sleep(1)
        stage.tell("tick")


def test_what_is_due_for_a_frozen_process_happens_when_it_is_thawed_and_never_when_it_is_dead() -> None:
    stage = Stage()
    stage.begin(_tick(stage))
    stage.process.after(2.5, stage.tell, "message")
    stage.schedule.at(1.5, stage.process.freeze)
    stage.schedule.at(6.0, stage.process.thaw)
    stage.schedule.at(7.5, stage.process.kill)
    stage.play(20.0)
    assert stage.told == [(1.0, "tick"), (6.0, "tick"), (6.0, "message"), (7.0, "tick")]
    stage.process.loop.bury()


def test_timers_of_a_process_that_was_paused_go_on_where_they_were() -> None:
    """Its clocks know nothing of the pause, but for the time of day where it is set right."""
    stage = Stage()
    stage.begin(_tick(stage))
    stage.schedule.at(1.5, stage.process.pause)
    stage.schedule.at(2.0, stage.process.thaw)  # of another fault
    stage.schedule.at(6.0, stage.process.resume)
    stage.play(8.0)
    assert [(round(at, 3), what) for at, what in stage.told] == [(1.0, "tick"), (6.5, "tick"), (7.5, "tick")]
    assert stage.process.loop.time() == stage.schedule.now - 4.5
    assert stage.process.clocks.wall_behind_s == 0.0
    stage.process.loop.bury()


def test_no_timer_of_a_process_that_was_paused_fires_early() -> None:
    """Not even by the last digit of a sum: who waits until then again would wait for ever."""
    stage = Stage()
    loop = stage.process.loop
    stage.schedule.at(0.1, stage.process.pause)
    stage.schedule.at(0.7, stage.process.resume)

    def look(when: float) -> None:
        stage.tell(loop.time() >= when)

    for n in range(1000):
        when = 1.0 + n / 7
        stage.process.at(0.8, loop.call_at, when, look, when)
    stage.play(200.0)
    assert [what for _, what in stage.told] == [True] * 1000


def test_each_process_reads_its_own_clocks_and_only_what_is_held_jumps() -> None:
    stage = Stage()
    other = Process(stage.schedule, "q", stage.problems.append)

    def look() -> None:
        stage.tell((clock_of_waits(), clock_of_suspended_time()))

    stage.schedule.at(1.0, stage.process.pause)
    stage.schedule.at(5.0, stage.process.resume)
    for process in (stage.process, other):
        process.at(6.0, look)
    stage.schedule.at(7.0, stage.process.pause)
    stage.schedule.at(9.0, lambda: stage.process.resume(set_right=False))
    stage.process.at(10.0, look)
    with each_with_its_own(stage.schedule):
        stage.play(11.0)
    assert stage.told == [(6.0, (2.0, 6.0)), (6.0, (6.0, 6.0)), (10.0, (4.0, 8.0))]


def test_the_threads_of_a_process_go_on_while_its_loop_is_busy() -> None:
    stage = Stage()
    stage.begin(_tick(stage))
    stage.process.after(2.5, stage.tell, "message")
    stage.schedule.at(1.5, setattr, stage.process.loop, "busy", True)
    stage.schedule.at(4.0, stage.process.loop.come_round)
    stage.play(5.5)
    assert stage.told == [(1.0, "tick"), (2.5, "message"), (4.0, "tick"), (5.0, "tick")]
    stage.process.loop.bury()


def test_a_callback_that_raises_is_told_of_and_ends_nothing() -> None:
    stage = Stage()
    problem = ValueError("what")

    def fail() -> None:
        raise problem

    stage.process.loop.call_later(1, fail)
    stage.process.loop.call_later(2, stage.tell, "on")
    stage.play(3.0)
    assert [context["exception"] for context in stage.problems] == [problem]
    assert stage.told == [(2.0, "on")]


async def _linger(seconds: float) -> None:
    """In a ring that nothing but Python's collector finds: the task, its coroutine, and what it waits for."""
    ring = [asyncio.current_task()]
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    ring.append(future)  # type: ignore[arg-type]
    await asyncio.sleep(seconds)
    await future


def test_python_tells_of_a_task_that_is_lost_and_not_of_those_of_a_process_that_was_killed() -> None:
    for killed in (False, True):
        stage = Stage()
        stage.begin(_linger(1.0))
        stage.schedule.at(2.0, stage.process.kill if killed else lambda: None)
        stage.play(3.0)
        gc.collect()
        told = [str(context["message"]) for context in stage.problems]
        assert told == ([] if killed else ["Task was destroyed but it is pending!"])


def test_a_process_that_exits_cancels_its_tasks_and_one_that_goes_on_is_told_of() -> None:
    async def stubborn() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(100)

    for work, count in ((_tick, 0), (lambda _: stubborn(), 1)):
        stage = Stage()
        stage.begin(work(stage))
        stage.process.loop.call_later(1.5, stage.process.exit)
        stage.play(3.0)
        stage.process.loop.bury()
        assert [str(context["message"])[:12] for context in stage.problems] == ["p has exited"] * count


def test_a_buried_process_leaves_nothing_that_python_tells_of_later() -> None:
    """Also where code would wait while it is closed: pytest makes errors of what it could not end."""
    stage = Stage()

    async def work() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(100)

    stage.begin(work())
    stage.play(1.0)
    stage.process.loop.bury()
    assert stage.problems == []
