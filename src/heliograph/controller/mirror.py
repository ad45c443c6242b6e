"""The driver's loop: observe, plan, act; then lanes copy and the board is kept until the end.

Owns no durable state: kill it, start it elsewhere, and it reads where it was from the target cluster (P3). A plan
is made once, when the run starts; a lane that comes back is given its partitions again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from heliograph.controller.act import create
from heliograph.controller.balance import balance, cap_lanes, lane_count
from heliograph.controller.board import Board, BoardRow
from heliograph.controller.clusters import Clusters
from heliograph.controller.plan import CopyPartition, CreateTopic, Plan, RefusePartition, plan
from heliograph.engine.assignment import encode_assignment
from heliograph.engine.lanes import LaneEvent, LaneGone, LaneProgress, Lanes, LaneUp, SparkLost
from heliograph.engine.starting import Starting
from heliograph.model.admission import Refused
from heliograph.model.errors import ClusterUnreachable, EngineLost, ProtocolError, RequestFailed
from heliograph.model.settings import Settings
from heliograph.model.states import PartitionState, StopReason

DISCOVERY_S = 5.0
RENEW_S = 2.0
TICK_S = 0.1
DRAIN_LIMIT_S = 5.0
JOBS_END_LIMIT_S = 3.0
GIVE_UP_LIMIT_S = 8.0  # a Spark that starts on this machine is there by then and can be ended in good order
HELLO_LIMIT_S = 30.0
NO_SLOT_HINT = (
    "lower `lanes`, or give Spark more cores or executors: a lane holds one slot for as long as it lives"
)

log = logging.getLogger("heliograph")


@dataclass(slots=True)
class LaneView:
    """A lane as it is now; `pid` None while it is away, since `away_since`. `missed`: that it is, was said."""

    lane: int
    copies: list[CopyPartition]
    pid: int | None = None
    host: str = ""
    restarts: int = 0
    away_since: float = 0.0
    missed: bool = False


class Mirror:
    """One run. `on_tick(mirror)` is called a few times a second, for displays."""

    def __init__(
        self,
        settings: Settings,
        *,
        until_caught_up: bool = False,
        on_tick: Callable[[Mirror], None] = lambda _: None,
        clusters: Clusters | None = None,
        make_lanes: Callable[..., Lanes] = Lanes,
    ) -> None:
        self.settings = settings
        self.board = Board([], [], planned=False)
        self.cluster_ids: dict[str, tuple[str, str]] = {}  # by link: source, target
        self.lanes: list[LaneView] = []
        self.ui_address: str | None = None
        self.phase = "connecting"
        self._until_caught_up = until_caught_up
        self._on_tick = on_tick
        self._stop = asyncio.Event()
        self._events: asyncio.Queue[LaneEvent] = asyncio.Queue()
        self._clusters = clusters or Clusters(settings)
        self._make_lanes = make_lanes
        self._starting: Starting | None = None
        self._engine: Lanes | None = None

    def stop(self) -> None:
        """Ask the run to end: stop copying, drain, leave nothing behind."""
        self._stop.set()

    async def run(self) -> Board:
        """Until `stop`, or until caught up if so asked. The board tells how it ended."""
        try:
            await self._unless_stopped(self._begin())
            if self._engine is not None:
                await self._keep()
        finally:
            self.phase = "stopping"
            try:
                self._on_tick(self)
            finally:
                await self._finish()
        return self.board

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it, but drop it where it is when the run is asked to end."""
        doing, stop = asyncio.ensure_future(work), asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({doing, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            doing.cancel()  # does nothing to what is done
            await asyncio.wait({doing})
        if not doing.cancelled():
            doing.result()

    async def _begin(self) -> None:
        await self._clusters.connect()
        todo = await self._prepare()
        if todo is not None and todo.copies and not self._stop.is_set():
            await self._start_lanes(todo)

    # -- observe, plan, act

    async def _prepare(self) -> Plan | None:
        """The plan with its topics made; None when the run ends before there is anything to copy."""
        todo = await self._first_plan()
        if todo is None:
            return None
        todo = await self._create_topics(todo)
        self.board = Board(todo.copies, todo.refusals)
        for row in self.board.stopped:
            _say_stopped(row)
        return todo

    async def _first_plan(self) -> Plan | None:
        """The first plan that has a partition; None when the run ends before."""
        told: set[str] = set()
        self.phase = "planning"
        self._on_tick(self)
        todo: Plan | None = await self._observe_and_plan()
        while True:
            for warning in todo.warnings if todo else ():
                if warning not in told:
                    log.warning("%s", warning)
                told.add(warning)
            if todo is not None and (todo.partitions or self._until_caught_up):
                return todo
            self.phase = "waiting for a topic that matches"
            self._on_tick(self)
            if await self._stopped_within(DISCOVERY_S):
                return None
            todo = await self._look_again()

    async def _look_again(self) -> Plan | None:
        """A cluster that cannot be read now was there before: it is waited for, like the topic."""
        try:
            return await self._observe_and_plan()
        except ClusterUnreachable as problem:
            log.warning("%s; trying again in %.0f s", problem.message, DISCOVERY_S)
            return None

    async def _observe_and_plan(self) -> Plan:
        snapshots = await self._clusters.observe()
        self.cluster_ids = {s.link.name: s.cluster_ids for s in snapshots}
        return plan(snapshots)

    async def _create_topics(self, todo: Plan) -> Plan:
        failed: dict[tuple[str, str], Refused] = {}
        for creation in todo.creations:
            try:
                for warning in await create(self._clusters.target(creation.link), creation):
                    log.warning("%s", warning)
                log.info("created topic %s (%d partitions)", creation.topic, creation.shape.partitions)
            except (RequestFailed, ProtocolError) as problem:
                failed[creation.link, creation.topic] = _not_created(creation, problem.message)
        return _without(todo, failed)

    # -- lanes

    async def _start_lanes(self, todo: Plan) -> None:
        self.phase = "starting Spark"
        self._on_tick(self)
        loop = asyncio.get_running_loop()

        def hand_over(event: LaneEvent) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._events.put_nowait, event)

        settings = self.settings
        self._starting = Starting(
            lambda: self._make_lanes(settings.spark, settings.lane_memory_bytes, hand_over)
        )
        engine = self._engine = await self._starting.wait()
        self.ui_address = engine.session.ui_address
        count = self._count_lanes(engine, len(todo.copies))
        portions, now = balance(todo.copies, count), loop.time()
        self.lanes = [LaneView(lane, copies, away_since=now) for lane, copies in enumerate(portions)]
        log.info("%d partition(s) on %d lane(s)", len(todo.copies), count)
        engine.start(count)
        self.phase = "copying"

    def _count_lanes(self, engine: Lanes, partitions: int) -> int:
        wanted = lane_count(self.settings.lanes, slots=engine.slots, partitions=partitions)
        count = cap_lanes(wanted, engine.local_slots)
        if count < wanted:
            log.warning(
                "lanes: %d wanted, %s has %d slot(s): %d lane(s) are started (hint: a larger spark.master, such as"
                " local[%d])",
                wanted,
                self.settings.spark.master,
                count,
                count,
                wanted,
            )
        return count

    async def _keep(self) -> None:
        """Until told to stop, caught up, or Spark is lost."""
        loop = asyncio.get_running_loop()
        renew_at = sample_at = 0.0
        while not self._stop.is_set():
            await self._take_events()
            now = loop.time()
            if now >= sample_at:
                self.board.sample(now)
                self._on_tick(self)
                sample_at = now + TICK_S
            if now >= renew_at:
                self._renew()
                self._miss_lanes(now)
                renew_at = now + RENEW_S
            if self._until_caught_up and self.board.finished:
                return

    async def _take_events(self) -> None:
        """All events that are there; wait a moment for the first."""
        try:
            async with asyncio.timeout(TICK_S):
                self._take(await self._events.get())
        except TimeoutError:
            return
        while not self._events.empty():
            self._take(self._events.get_nowait())

    def _take(self, event: LaneEvent) -> None:
        match event:
            case LaneUp(number, pid, host):
                self._welcome(self.lanes[number], pid, host)
            case LaneProgress(number, rows):
                for progress in rows:
                    _say_change(self.board.report(number, progress))
            case LaneGone(number):
                lane = self.lanes[number]
                lane.pid, lane.away_since = None, asyncio.get_running_loop().time()
                lane.restarts += 1
                self.board.lane_gone(number)
                log.warning("lane %d is gone; its partitions wait until it is back", number)
            case SparkLost(why, hint):
                raise EngineLost(
                    why, hint=f"start the mirror again: it goes on where the target ends; {hint}"
                )

    def _welcome(self, lane: LaneView, pid: int, host: str) -> None:
        assert self._engine is not None
        lane.pid, lane.host, lane.missed = pid, host, False
        self.board.lane_up(c.spec.partition for c in lane.copies)
        log.info("lane %d is up on %s (process %d)", lane.lane, host, pid)
        specs = [c.spec for c in lane.copies if not self._is_stopped(c)]  # what stopped stays so
        links = {spec.partition.link for spec in specs}
        ends = [ends for ends in self._clusters.ends() if ends.link in links]
        self._engine.send(lane.lane, encode_assignment(ends, specs))

    def _is_stopped(self, copy: CopyPartition) -> bool:
        return self.board.rows[copy.spec.partition].state is PartitionState.STOPPED

    def _miss_lanes(self, now: float) -> None:
        """Say once of a lane that it does not come: most likely Spark has no slot for it."""
        for lane in self.lanes:
            if lane.pid is None and not lane.missed and now - lane.away_since >= HELLO_LIMIT_S:
                lane.missed = True
                trouble = (
                    f"lane {lane.lane} has no Spark slot yet: it has not come up for {HELLO_LIMIT_S:.0f} s"
                )
                log.warning("%s (hint: %s)", trouble, NO_SLOT_HINT)
                self.board.lane_waits((c.spec.partition for c in lane.copies), trouble, NO_SLOT_HINT)

    def _renew(self) -> None:
        assert self._engine is not None
        for lane in self.lanes:
            self._engine.send(lane.lane, [{"type": "renew"}])

    # -- the end

    async def _finish(self) -> None:
        try:
            if self._engine is not None:
                await self._drain(self._engine)
                await asyncio.to_thread(self._engine.close, JOBS_END_LIMIT_S)
            elif self._starting is not None:
                await asyncio.to_thread(self._starting.give_up, GIVE_UP_LIMIT_S)
        finally:
            await self._clusters.aclose()

    async def _drain(self, engine: Lanes) -> None:
        if engine.session.lost:
            return
        engine.ask_to_stop(len(self.lanes))
        try:
            async with asyncio.timeout(DRAIN_LIMIT_S):
                while any(lane.pid is not None for lane in self.lanes):
                    event = await self._events.get()
                    match event:
                        case LaneProgress(number, rows):
                            for progress in rows:
                                self.board.report(number, progress)
                        case LaneGone(number):
                            self.lanes[number].pid = None
                        case SparkLost():
                            return
                        case LaneUp(number, pid, _):  # too late to be given anything
                            self.lanes[number].pid = pid
                            engine.send(number, [{"type": "stop"}])
        except TimeoutError:
            log.warning("a lane did not drain in %.0f s; the target tells the next run", DRAIN_LIMIT_S)

    async def _stopped_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self._stop.wait()
        except TimeoutError:
            return False


def _not_created(creation: CreateTopic, message: str) -> Refused:
    return Refused(
        reason=StopReason.REFUSED,
        message=message,
        hint=f"create topic {creation.topic} on the target with {creation.shape.partitions} partitions, or exclude it",
    )


def _without(todo: Plan, failed: dict[tuple[str, str], Refused]) -> Plan:
    """The plan less the topics that could not be made; their partitions are refused."""
    copies, refusals = [], list(todo.refusals)
    for copy in todo.copies:
        partition = copy.spec.partition
        why = failed.get((partition.link, partition.target_topic))
        if why is None:
            copies.append(copy)
        else:
            refusals.append(RefusePartition(partition=partition, why=why))
    return Plan(
        creations=todo.creations, copies=tuple(copies), refusals=tuple(refusals), warnings=todo.warnings
    )


def _say_change(change: tuple[BoardRow, BoardRow] | None) -> None:
    if change is None:
        return
    old, new = change
    if new.state is PartitionState.STOPPED and old.state is not PartitionState.STOPPED:
        _say_stopped(new)
    elif new.trouble is not None and new.trouble != old.trouble:
        log.warning("%s: %s; recovering", new.partition, new.trouble)


def _say_stopped(row: BoardRow) -> None:
    log.error("%s is stopped [%s]: %s (hint: %s)", row.partition, row.reason, row.error, row.hint)
