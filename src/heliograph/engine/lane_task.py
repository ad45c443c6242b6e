"""A lane as a Spark task: what runs in the Python worker of an executor.

Puts the copier's lane on an event loop, the control line beside it in a thread of its own, and ends when the driver
says stop, the line ends, or the lane fails. All that it needs is in its ticket, which travels in the closure of
the task: the secret is nowhere else (no conf, environment, argument or log).
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow

from heliograph.copier.lane import Lane
from heliograph.copier.lane_clusters import LaneClusters
from heliograph.engine.assignment import (
    Progress,
    decode_links,
    decode_specs,
    encode_progress,
    progress_of,
)
from heliograph.engine.control_line import ControlLine
from heliograph.engine.frames import Message
from heliograph.engine.lane_log import tell_driver
from heliograph.engine.versions import versions
from heliograph.model.clock import clock_of_suspended_time, clock_of_waits
from heliograph.model.errors import HeliographError
from heliograph.model.partition import MirrorPartition

PROGRESS_S = 0.2
DRAIN_LIMIT_S = 4.0
ROWS_PER_FRAME = 1000
SCHEMA = "lane long, ended string"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTicket:
    lane: int
    address: tuple[str, int]
    memory_bytes: int
    secret: bytes = field(repr=False)


def task_for(ticket: LaneTicket) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function for mapInArrow: one row in, the lane's life, one row out."""

    def run(rows: Iterator[Any]) -> Iterator[Any]:
        for _ in rows:
            pass
        ended = run_lane(ticket)
        yield pyarrow.RecordBatch.from_pydict({"lane": [ticket.lane], "ended": [ended]})

    return run


def run_lane(ticket: LaneTicket) -> str:
    """Copy until told to stop; why it ended."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(LaneTask(ticket).live())
    return str(uvloop.run(LaneTask(ticket).live()))


def unforeseen(context: dict[str, Any]) -> BaseException | None:
    """What an event loop tells of, if a lane cannot go on after it: then it is started anew and resynchronises.

    A callback that raised has left its work half done, whatever it raised. An error of a connection that nobody
    awaited any more is no surprise: whoever used the connection has learnt of it.
    """
    problem = context.get("exception")
    if not isinstance(problem, BaseException):
        return None
    foreseen = isinstance(problem, HeliographError | OSError) and "handle" not in context
    return None if foreseen else problem


class LaneTask:
    def __init__(self, ticket: LaneTicket) -> None:
        self._ticket = ticket
        self._reported: dict[MirrorPartition, Progress] = {}
        self._orders: asyncio.Queue[Message] = asyncio.Queue()
        self._revoking: set[asyncio.Task[None]] = set()
        self._pulse = 0
        self._wants: list[str] = []
        self._heard: tuple[float, float] | None = None  # the driver's time, and ours when we heard it

    async def live(self) -> str:
        loop = asyncio.get_running_loop()
        failure: asyncio.Future[str] = loop.create_future()

        def fail(problem: BaseException) -> None:
            if not failure.done():
                failure.set_exception(problem)

        def handle(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            loop.default_exception_handler(context)
            problem = unforeseen(context)
            if problem is not None:
                fail(problem)

        loop.set_exception_handler(handle)

        def hand_over(message: Message) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._orders.put_nowait, message)

        self._line = ControlLine(
            self._ticket.address,
            self._ticket.secret,
            self._ticket.lane,
            beat=self._beat,
            on_message=hand_over,
            on_end=lambda reason: hand_over({"type": "end", "why": reason}),
        )
        self._lane = Lane(self._ticket.memory_bytes, fail)
        self._clusters = LaneClusters(self._lane)
        self._line.start()
        self._line.send(
            {"type": "hello", "pid": os.getpid(), "host": socket.gethostname(), "versions": versions()}
        )
        tasks: list[asyncio.Future[str]] = [
            asyncio.create_task(self._obey()),
            asyncio.create_task(self._report()),
            failure,
        ]
        try:
            with tell_driver(self._line.send):
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return str(done.pop().result())
        finally:
            for task in tasks:
                task.cancel()
            for revoking in self._revoking:
                revoking.cancel()
            await self._finish()

    def _beat(self) -> Message:
        """In the line's thread: when leases are asked for, of which links, and how often the data loop has turned. And
        what time it must be at the driver by now, at least: its machine may have stood still."""
        heard = self._heard
        return {
            "type": "heartbeat",
            "at": clock_of_suspended_time(),
            "pulse": self._pulse,
            "wants": self._wants,
            "heard": (heard[0], clock_of_waits() - heard[1]) if heard is not None else None,
        }

    async def _finish(self) -> None:
        clean = False
        try:
            async with asyncio.timeout(DRAIN_LIMIT_S):
                clean = await self._lane.drain()
        except TimeoutError:
            pass  # what is still in flight is settled from the target by the next lane
        self._send_progress()
        self._line.send({"type": "drained", "clean": clean})
        await self._lane.aclose()
        await self._clusters.aclose()
        await asyncio.to_thread(self._line.close)

    async def _obey(self) -> str:
        while True:
            order = await self._orders.get()
            match order.get("type"):
                case "links":
                    for ends in decode_links(order):
                        self._clusters.open(ends)
                    self._line.send(
                        self._beat()
                    )  # nothing is sent before the driver's first word on these links
                case "assign" if order["pid"] in (None, os.getpid()):
                    self._clusters.assign(decode_specs(order), clear_in_s=order["clear_in_s"])
                case "revoke":
                    for key in order["partitions"]:
                        self._revoke(MirrorPartition(*key))
                case "stop":
                    return "stopped by the driver"
                case "end":
                    return str(order["why"])
                case "renew":
                    self._heard = (order["now"], clock_of_waits())
                    for link, lasts_s in order["leases"].items():
                        self._lane.renew(link, order["at"], lasts_s)

    def _revoke(self, key: MirrorPartition) -> None:
        """In a task of its own: the answers that are due may take long, and other orders must not wait for them."""

        async def revoke() -> None:
            clean = await self._lane.revoke(key)
            self._reported.pop(key, None)
            self._line.send({"type": "revoked", "partition": key, "clean": clean})

        task = asyncio.create_task(revoke())
        self._revoking.add(task)
        task.add_done_callback(self._revoking.discard)

    async def _report(self) -> str:
        while True:
            self._pulse += 1
            self._wants = self._lane.wants_exclusion()
            self._lane.lapse()
            self._send_progress()
            await asyncio.sleep(PROGRESS_S)

    def _send_progress(self) -> None:
        """Only what changed since the last report."""
        changed, now = [], asyncio.get_running_loop().time()
        for key, copy in self._lane.copies.items():
            for notice in copy.take_notices():
                self._line.send({"type": "notice", "partition": key, "event": notice[0], "words": notice[1]})
            progress = progress_of(copy, now)
            if self._reported.get(key) != progress:
                self._reported[key] = progress
                changed.append(encode_progress(progress))
        for at in range(0, len(changed), ROWS_PER_FRAME):
            self._line.send({"type": "progress", "partitions": changed[at : at + ROWS_PER_FRAME]})
