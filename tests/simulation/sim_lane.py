"""A lane's process in a world: the real Lane at the real orders of a driver, on an event loop in virtual time.

Plays engine/lane_task.py and the thread of control_line.py. It belongs to the driver that started it, and ends when
that says so or is silent for long; what Spark starts in its place is another process.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.properties import ClientProperties
from heliograph.copier.lane import Lane
from heliograph.copier.lane_clusters import LaneClusters
from heliograph.copier.surroundings import Surroundings
from heliograph.engine.control_line import HEARTBEAT_S, SILENCE_LIMIT_S
from heliograph.engine.lane_orders import LaneOrders
from heliograph.engine.orders import Hello, LineEnded, Order

from .control_wires import END, ControlWire, Farewell
from .marker_line import MarkerLine
from .sim_client import SimClient
from .sim_line import SimLine
from .sim_source import SimSource
from .sim_target import SimTarget
from .virtual_loop import Process

if TYPE_CHECKING:
    from .sim_driver import SimDriver

BREAKS_HARD = 0.3  # how often the line of a lane that dies ends with an error


class SimLane(Process):
    def __init__(self, driver: SimDriver, number: int) -> None:
        world = driver.world
        self.pid = len(world.processes)
        super().__init__(world, f"lane {driver.number}.{number} (process {self.pid})", world.problem)
        self.number = number
        self.driver = driver
        self.wall_jump_ms = 0
        self._kernels_at = world.now + world.plan.merging.kernels_s_of(driver.number)
        self.lane: Lane | None = None
        self.orders: LaneOrders | None = None
        self._life: asyncio.Task[Any] | None = None
        self.wire = ControlWire(driver, self)
        self._world = world
        self._targets: list[SimTarget] = []
        self._heard_at = self.loop.time()
        world.processes.append(self)
        world.lanes.append(self)
        self.loop.call_soon(self._begin)

    def _begin(self) -> None:
        failure: asyncio.Future[str] = self.loop.create_future()
        chance = self._world.chance
        surroundings = Surroundings(wall_ms=self._wall_ms, uniform=chance.uniform)
        self.lane = Lane(self._world.plan.conditions.lane_memory_bytes, self._failed, surroundings)
        clusters = LaneClusters(
            self.lane, make_client=self._client, make_source=self._source, make_target=self._target
        )
        self.orders = LaneOrders(self.lane, clusters, self.wire.to_driver, pid=self.pid)
        self._life = self.loop.create_task(self._live(self.lane, self.orders, failure))
        self._life.add_done_callback(self._ended)
        self.wire.to_driver(Hello(pid=self.pid, host="there", versions=self.driver.versions))
        self._beat()

    async def _live(self, lane: Lane, orders: LaneOrders, failure: asyncio.Future[str]) -> str:
        try:
            return await orders.live(failure)
        finally:
            await lane.aclose()

    def _failed(self, problem: BaseException) -> None:
        self._world.problem({"message": "a worker of a lane ended", "exception": problem})

    def _wall_ms(self) -> int:
        return self._world.wall_ms + self._world.plan.conditions.lane_clock_ms + self.wall_jump_ms

    def _client(self, name: str, properties: ClientProperties) -> ClusterClient:
        return cast(ClusterClient, SimClient(self, self._world.clusters[name], properties))

    def _source(self, client: ClusterClient, link: str) -> SimSource:
        return SimSource(cast(SimClient, client), link)

    def _target(self, client: ClusterClient, link: str) -> SimTarget:
        self._targets.append(SimTarget(cast(SimClient, client), link))
        return self._targets[-1]

    # -- the control line's thread

    def _beat(self) -> None:
        self.after(HEARTBEAT_S, self._beat)
        assert self.orders is not None
        self.wire.to_driver(self.orders.beat())
        if self.loop.time() - self._heard_at > SILENCE_LIMIT_S:
            self._give(END)

    def hear(self, order: Order | LineEnded) -> None:
        self._heard_at = self.loop.time()
        self._give(order)

    def _give(self, order: Order | LineEnded) -> None:
        if self.orders is not None:
            self.loop.arrive(self.orders.hand_over, order)

    # -- its end

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._world.tell(self.name, "ends:", task.exception() or task.result())
        self.exit()
        self._end(Farewell.CLOSED)

    def kill(self) -> None:
        if not self.dead:
            super().kill()
            self._end(Farewell.BROKEN if self._world.chance.random() < BREAKS_HARD else Farewell.CLOSED)

    def _end(self, farewell: Farewell) -> None:
        self._world.lanes.remove(self)
        for line in self.lines:
            line.drop_some()
            line.closed = True
        self.wire.to_driver(farewell)
        self.driver.jobs.ended(self)

    # -- for faults and the judge

    @property
    def lines(self) -> list[SimLine | MarkerLine]:
        lines: list[SimLine | MarkerLine] = []
        for target in self._targets:
            lines += [*target.lines.values(), *target.marker_lines.values()]
        return [line for line in lines if not line.closed]

    @property
    def has_kernels(self) -> bool:
        """Loading them takes a while; until then, and where it fails, it merges nothing."""
        return self._world.now >= self._kernels_at

    @property
    def holds(self) -> bool:
        return self.lane is not None and bool(self.lane.copies)
