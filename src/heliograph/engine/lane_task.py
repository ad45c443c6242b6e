"""A lane as a Spark task: what runs in the Python worker of an executor.

Puts the copier's lane on an event loop, the control line beside it in a thread of its own; what orders mean, and when
it is over, is lane_orders.py's. All that it needs is in its ticket, which travels in the closure of
the task: the secret is nowhere else (no conf, environment, argument or log), and the fingerprint of the driver's
certificate is believed because it came the same way.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark import SparkFiles

from heliograph.copier.lane import Lane
from heliograph.copier.lane_clusters import LaneClusters
from heliograph.engine.control_line import ControlLine
from heliograph.engine.lane_log import tell_driver
from heliograph.engine.lane_orders import LaneOrders
from heliograph.engine.loop_troubles import tell
from heliograph.engine.orders import Hello, LineEnded, Occurrences, Order
from heliograph.engine.versions import versions
from heliograph.model.clock import time_of_day
from heliograph.model.errors import HeliographError, SecurityFailed, SecurityUnusable
from heliograph.model.events import Event
from heliograph.model.occurrence import Occurrence
from heliograph.wire.kernels import loading

KERNELS_LOOK_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTicket:
    lane: int
    address: tuple[str, int]
    memory_bytes: int
    fingerprint: bytes
    secret: bytes = field(repr=False)


def task_for(ticket: LaneTicket) -> Callable[[Iterable[Any]], Iterator[str]]:
    """The function for mapPartitions: the lane's life, then why it ended."""

    def run(rows: Iterable[Any]) -> Iterator[str]:
        for _ in rows:  # Spark's own writer waits for somebody to read them
            pass
        yield run_lane(ticket)

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

    async def live(self) -> str:
        loop = asyncio.get_running_loop()
        failure: asyncio.Future[str] = loop.create_future()

        def fail(problem: BaseException) -> None:
            if not failure.done():
                failure.set_exception(problem)

        def handle(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            tell(loop, context)
            problem = unforeseen(context)
            if problem is not None:
                fail(problem)

        loop.set_exception_handler(handle)

        def hand_over(order: Order | LineEnded) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(orders.hand_over, order)

        line = ControlLine(
            self._ticket.address,
            self._ticket.secret,
            self._ticket.lane,
            fingerprint=self._ticket.fingerprint,
            beat=lambda: orders.beat(),
            on_order=hand_over,
            on_end=lambda reason: hand_over(LineEnded(why=reason)),
        )
        lane = Lane(self._ticket.memory_bytes, fail)
        clusters = LaneClusters(
            lane,
            shipped=_shipped_files(),
            on_refused=lambda cluster, problem: line.send(
                access_refused(self._ticket.lane, cluster, problem)
            ),
        )
        orders = LaneOrders(lane, clusters, line.send, pid=os.getpid())
        loading.start()
        kernels = loop.create_task(_say_if_kernels_fail(self._ticket.lane, line.send))
        line.start()
        line.send(Hello(pid=os.getpid(), host=socket.gethostname(), versions=versions()))
        try:
            with tell_driver(line.send):
                return await orders.live(failure)
        finally:
            kernels.cancel()
            await lane.aclose()
            await clusters.aclose()
            await asyncio.to_thread(line.close)


def _shipped_files() -> Path | None:
    """Where Spark has put what `spark.files` names; None where no Spark task runs."""
    return Path(SparkFiles.getRootDirectory()) if SparkFiles._is_running_on_worker else None


def access_refused(lane: int, cluster: str, problem: SecurityFailed) -> Occurrences:
    """What the driver is told when TLS or SASL fails on this machine."""
    hint = problem.hint
    if isinstance(problem, SecurityUnusable):
        hint = f"have the file on every executor, or ship it: spark.conf: {{spark.files: PATH}}; {hint}"
    words = f"lane {lane} on {socket.gethostname()}: cluster {cluster!r}: {problem.message}"
    said = Occurrence(at=time_of_day(), code=Event.ACCESS_REFUSED, message=words, hint=hint)
    return Occurrences(occurrences=(said,))


async def _say_if_kernels_fail(lane: int, send: Callable[[Occurrences], None]) -> None:
    while loading.loaded() is None:
        failure = loading.failure()
        if failure is not None:
            words = f"lane {lane}: small batches go one by one, slowly: the compiled kernels cannot be used: {failure}"
            hint = "python -m heliograph.wire.kernels"
            said = Occurrence(at=time_of_day(), code=Event.NOT_MERGED, message=words, hint=hint)
            send(Occurrences(occurrences=(said,)))
            return
        await asyncio.sleep(KERNELS_LOOK_S)
