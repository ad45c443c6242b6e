"""A driver's process in a world: a whole real run (controller/mirror.py) with its elections, board, placement and
leases, on clusters, a group's coordinator, a Spark and control lines that are models.

Plays Spark's side of a lane's job (engine/lane_jobs.py): a job that ends is started again, and one that is cancelled
may live on for a while, or for long where its machine is cut off.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from heliograph.controller.mirror import Mirror
from heliograph.engine.control_server import ControlServer
from heliograph.engine.lane_jobs import LaneJobs
from heliograph.engine.lane_task import LaneTicket
from heliograph.engine.lanes import Lanes
from heliograph.engine.session import Session
from heliograph.model.errors import HeliographError

from .control_wires import SimServer
from .driver_clusters import DriverClusters
from .sim_lane import SimLane
from .virtual_loop import Process

if TYPE_CHECKING:
    from .world import World


class SimJobs:
    def __init__(self, driver: SimDriver) -> None:
        self._driver = driver
        self._running: dict[int, SimLane] = {}
        self._stopping = False

    def start(self, tickets: list[LaneTicket]) -> None:
        for ticket in tickets:
            self.start_later(ticket.lane)

    def start_later(self, number: int) -> None:
        self._driver.after(self._driver.world.chance.uniform(0.2, 2.0), self.start_lane, number)

    def start_lane(self, number: int) -> None:
        if not self._stopping and number not in self._running and not self._driver.dead:
            self._running[number] = SimLane(self._driver, number)

    def ended(self, lane: SimLane) -> None:
        if self._running.get(lane.number) is lane:
            del self._running[lane.number]
            self.start_later(lane.number)

    def lane(self, number: int) -> SimLane | None:
        return self._running.get(number)

    def cancel(self, number: int) -> None:
        lane, world = self._running.pop(number, None), self._driver.world
        if lane is not None:
            if not lane.wire.cut and world.chance.random() < 0.6:  # else nobody reaches its machine
                world.after(world.chance.uniform(0.8, 3.6), lane.kill)
            self.start_later(number)

    def stop(self) -> None:
        self._stopping = True

    def join(self, _timeout_s: float) -> bool:
        return not self._running


class SimLanes(Lanes):
    """The real ones; whoever ends a lane as hung is watched."""

    driver: SimDriver

    def abandon(self, lane: int) -> None:
        self.driver.world.watch.abandoned(self.driver, lane)
        super().abandon(lane)


class SimDriver(Process):
    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, f"driver {number}", world.problem)
        self.world = world
        self.number = number
        self.cut = False  # from the election's coordinator
        self.clusters = DriverClusters(self)
        self.jobs = SimJobs(self)
        self.server: SimServer
        self.engine: SimLanes | None = None
        self.mirror: Mirror | None = None
        self.versions: dict[str, str] = {}
        self._run: asyncio.Task[Any] | None = (
            None  # held, as asyncio.run does: what is collected tells another story
        )
        world.processes.append(self)
        self.loop.call_soon(self._begin)

    def _begin(self) -> None:
        self.mirror = Mirror(self.world.settings, clusters=self.clusters, make_lanes=self._make_lanes)
        self._run = self.loop.create_task(self.mirror.run())
        self._run.add_done_callback(self._ended)

    def _make_lanes(self, *what: Any) -> Lanes:
        session = SimpleNamespace(
            conf=lambda _: "", slots=1, local_slots=None, ui_address=None, lost=False, stop=lambda: None,
            cancel_all=lambda: None,
        )  # fmt: skip

        def make_server(
            _secret: bytes, on_report: Any, on_gone: Any, *, on_silent: Any, **_options: Any
        ) -> ControlServer:
            self.server = SimServer(self, on_report, on_gone, on_silent)
            return cast(ControlServer, self.server)

        self.engine = SimLanes(
            *what,
            make_session=lambda *_, **__: cast(Session, session),
            make_server=make_server,
            make_jobs=lambda *_: cast(LaneJobs, self.jobs),
        )
        self.engine.driver = self
        self.versions = self.engine._versions
        return self.engine

    # -- its end

    def _ended(self, task: asyncio.Task[Any]) -> None:
        problem = task.exception()
        self.world.tell(self.name, "ends:", problem or "in good order")
        if problem is not None and not isinstance(problem, HeliographError):
            self.world.problem({"message": "a run ended", "exception": problem})
        self.exit()
        self._end()

    def kill(self) -> None:
        if not self.dead:
            super().kill()
            self._end()

    def _end(self) -> None:
        self.jobs.stop()
        for lane in self.world.lanes:
            if lane.driver is self:
                lane.wire.end()
        self.world.start_driver_later(self.number)

    def hand_back(self, lane: int) -> None:
        """Its executor is being taken away."""
        if self.engine is not None and not self.dead:
            self.after(0.0, self.engine._hand_back, lane, "executor")

    def give_up(self, lane: int) -> None:
        """A lane that does not advance, as far as this driver knows."""
        mirror = self.mirror
        if mirror is not None and mirror._keeper is not None and not self.dead and self.engine is not None:
            mirror._keeper._hung.add(lane)
            self.after(0.0, Lanes.abandon, self.engine, lane)
