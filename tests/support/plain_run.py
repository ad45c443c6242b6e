"""A whole run of the product in this process, with no JVM: the real Mirror with its election, ledger and placement,
and real lanes at its orders, on real clusters. Spark's part alone is played: lanes are tasks of the event loop.

For what does not need Spark. `kill` ends a run as kill -9 does: nothing is drained, no group is left, no mark written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

from heliograph.cluster.connection import Connection
from heliograph.controller.mirror import Mirror
from heliograph.copier.lane import Lane
from heliograph.copier.lane_clusters import LaneClusters
from heliograph.engine.control_server import ControlServer
from heliograph.engine.lane_jobs import LaneJobs
from heliograph.engine.lane_orders import LaneOrders
from heliograph.engine.lane_task import LaneTicket, access_refused
from heliograph.engine.lanes import Lanes
from heliograph.engine.orders import Hello, Order, Report, decode_order, decode_report, encode
from heliograph.engine.session import Session
from heliograph.model.partition_status import PartitionStatus
from heliograph.model.settings import Settings
from heliograph.model.states import PartitionState

BEAT_S = 0.2
POLL_S = 0.02
LIMIT_S = 60.0


class _PlainLane:
    def __init__(self, run: PlainRun, ticket: LaneTicket) -> None:
        self.number = ticket.lane
        self._run = run
        self._failure: asyncio.Future[str] = run.loop.create_future()
        self.lane = Lane(ticket.memory_bytes, self._failed)
        self.clusters = LaneClusters(
            self.lane,
            on_refused=lambda cluster, problem: self._send(access_refused(ticket.lane, cluster, problem)),
        )
        self.orders = LaneOrders(self.lane, self.clusters, self._send, pid=1000 + ticket.lane)
        self.life = run.loop.create_task(self._live())
        self.beats = run.loop.create_task(self._beat())

    async def _live(self) -> None:
        self._send(Hello(pid=1000 + self.number, host="here", versions=self._run.versions))
        try:
            await self.orders.live(self._failure)
        finally:
            self.beats.cancel()
            await self.lane.aclose()
            await self.clusters.aclose()
            self._run.lane_ended(self.number)

    async def _beat(self) -> None:
        while True:
            self._send(self.orders.beat())
            await asyncio.sleep(BEAT_S)

    def _send(self, report: Report) -> None:
        self._run.on_report(self.number, decode_report(encode(report)))

    def _failed(self, problem: BaseException) -> None:
        self._run.failures.append(problem)
        if not self._failure.done():
            self._failure.set_result(str(problem))


class PlainRun:
    """One run. `rows` and `events` tell what it says. `read_again`: the settings as its config has them by now."""

    def __init__(
        self,
        settings: Settings,
        *,
        until_caught_up: bool = False,
        read_again: Callable[[], Settings] | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.failures: list[BaseException] = []
        self.versions: dict[str, str] = {}
        self.on_report: Callable[[int, Report], None] = lambda _lane, _report: None
        self._on_gone: Callable[[int], None] = lambda _lane: None
        self._lanes: dict[int, _PlainLane] = {}
        self.mirror = Mirror(
            settings, until_caught_up=until_caught_up, make_lanes=self._make_lanes, read_again=read_again
        )
        self.task = self.loop.create_task(self.mirror.run())

    # -- what stands in for Spark

    def _make_lanes(self, *what: Any) -> Lanes:
        session = SimpleNamespace(
            conf=lambda _: "", slots=2, local_slots=None, ui_address=None, lost=False, stop=lambda: None,
            cancel_all=lambda: None,
        )  # fmt: skip

        def make_server(_secret: bytes, on_report: Any, on_gone: Any, **_options: Any) -> ControlServer:
            self.on_report, self._on_gone = on_report, on_gone
            server = SimpleNamespace(
                start=lambda _host: ("here", 0),
                fingerprint=b"",
                stop=lambda: None,
                send=self._to_lane,
                end_line=lambda _lane: None,
            )
            return cast(ControlServer, server)

        jobs = SimpleNamespace(
            start=self._start_lanes,
            stop=lambda: None,
            cancel=lambda _lane: None,
            join=lambda _timeout_s: True,
        )
        lanes = Lanes(
            *what,
            make_session=lambda *_, **__: cast(Session, session),
            make_server=make_server,
            make_jobs=lambda *_: cast(LaneJobs, jobs),
        )
        self.versions = lanes._versions
        return lanes

    def _start_lanes(self, tickets: list[LaneTicket]) -> None:
        self._lanes |= {ticket.lane: _PlainLane(self, ticket) for ticket in tickets}

    def _to_lane(self, lane: int, order: Order) -> None:
        """From any thread."""
        heard = decode_order(encode(order))

        def hand_over() -> None:
            if lane in self._lanes:
                self._lanes[lane].orders.hand_over(heard)

        self.loop.call_soon_threadsafe(hand_over)

    def lane_ended(self, number: int) -> None:
        del self._lanes[number]
        self._on_gone(number)

    # -- what a test sees and does

    @property
    def rows(self) -> list[PartitionStatus]:
        return list(self.mirror.board.rows.values())

    @property
    def states(self) -> set[PartitionState]:
        return {row.state for row in self.rows}

    @property
    def codes(self) -> list[str]:
        """Of all that was told."""
        return [str(each.code) for each in self.mirror.outbox.last]

    @property
    def copied(self) -> int:
        """Records that are durable on the target, by its own word."""
        return sum(row.next_offset or 0 for row in self.rows)

    @property
    def connections(self) -> list[Connection]:
        """Those of its lanes that are open."""
        clients = [client for lane in self._lanes.values() for client in lane.clusters._clients.values()]
        return [each for client in clients for each in client._connections.values() if not each.closed]

    def sever(self) -> None:
        """All connections end, those of the driver too, as when a network is cut for a moment."""
        driver = [
            each
            for client in self.mirror._clusters._clients.values()
            for each in client._connections.values()
        ]
        for connection in (*self.connections, *driver):
            connection.close()

    async def until(self, condition: Callable[[PlainRun], bool], limit_s: float = LIMIT_S) -> None:
        try:
            async with asyncio.timeout(limit_s):
                while not condition(self):
                    if self.task.done():
                        self.task.result()
                        raise AssertionError(f"the run has ended: {self.rows}")
                    assert not self.failures, self.failures
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise AssertionError(f"not in {limit_s:.0f} s: {self.rows}") from None

    async def caught_up(self) -> None:
        await self.until(lambda run: bool(run.rows) and run.states == {PartitionState.CAUGHT_UP})

    async def stop(self) -> None:
        """In good order."""
        self.mirror.stop()
        await self.task

    async def kill(self) -> None:
        for lane in list(self._lanes.values()):
            lane.life.cancel()
            lane.beats.cancel()
        roles = self.mirror._roles
        if roles is not None:
            await roles._drivership.aclose(leave=False)
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def plain_run(settings: Settings, **options: Any) -> AsyncIterator[PlainRun]:
    run = PlainRun(settings, **options)
    try:
        yield run
    finally:
        if not run.task.done():
            await run.stop()
        assert not run.failures, run.failures
