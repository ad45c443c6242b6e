"""The driver's loop: observe and plan; be elected; then prepare the links that are ours, and keep lanes and board.

    connect ─▶ plan ─▶ elect ─┬─▶ keep: for each link   standby ◀──▶ active ─▶ prepare ─▶ lanes copy
        └───▶ start Spark ────┘

Owns no durable state: kill it, start it elsewhere, and it reads where it was from the target cluster (P3). A run that
is not elected has Spark and its lanes up all the same, and takes over when the active one is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from heliograph.controller.active_link import ActiveLink
from heliograph.controller.arrivals import Arrivals, Arrived
from heliograph.controller.balance import cap_lanes, lane_count
from heliograph.controller.board import Board
from heliograph.controller.builds import Builds
from heliograph.controller.cells import Mark
from heliograph.controller.clusters import Clusters
from heliograph.controller.commands import Commands
from heliograph.controller.config_follower import ConfigFollower
from heliograph.controller.config_watch import ConfigWatch
from heliograph.controller.configs_in_step import ConfigsInStep
from heliograph.controller.configs_told import ConfigsTold
from heliograph.controller.drivership import Drivership, Role
from heliograph.controller.event_writer import EventWriter
from heliograph.controller.fill_rates import FillRates, rows_of_rate, way_of
from heliograph.controller.lane_keeper import LaneKeeper, LaneView
from heliograph.controller.ledger_sight import LedgerSight, look_at_ledgers
from heliograph.controller.link_roles import (
    Commanded,
    Failed,
    LinkRoles,
    Prepared,
    Reserved,
    RoleEvent,
    StoodDown,
)
from heliograph.controller.plan import AwaitPartition, Plan, RefusePartition, plan
from heliograph.controller.plan_told import PlanTold
from heliograph.controller.recorded_stops import rows_of_stops, stops_met
from heliograph.controller.remirror import Remirror
from heliograph.controller.restart import Restart
from heliograph.controller.secret_watch import SecretWatch
from heliograph.controller.snapshot import LinkSnapshot
from heliograph.controller.start_times import StartTimes, Step
from heliograph.controller.topic_turns import TopicTurns
from heliograph.copier.lease import ALIVE_S
from heliograph.engine.lanes import (
    LaneEvent,
    LaneGone,
    LaneProgress,
    LaneRevoked,
    Lanes,
    LaneTold,
    LaneUp,
    LaneWantsAttempts,
    SparkLost,
)
from heliograph.engine.spark_conf import is_local
from heliograph.engine.starting import Starting
from heliograph.model.claims import Claim
from heliograph.model.clock import clock_of_waits
from heliograph.model.errors import ClusterUnreachable, EngineLost, SecurityFailed
from heliograph.model.events import Event
from heliograph.model.link import Link
from heliograph.model.occurrence import Occurrence
from heliograph.model.occurrence_log import logged
from heliograph.model.outbox import Outbox
from heliograph.model.partition import MirrorPartition
from heliograph.model.partition_status import PartitionStatus
from heliograph.model.settings import Settings
from heliograph.model.states import CONDITIONS, STANDING_BY

WATCH_S = 1.0
TICK_S = 0.1
DRAIN_LIMIT_S = 5.0
JOBS_END_LIMIT_S = 3.0
MARKS_LIMIT_S = 3.0
GIVE_UP_LIMIT_S = 8.0  # most masters have answered by then, and Spark can be ended in good order

log = logging.getLogger("heliograph")


MirrorEvent = LaneEvent | RoleEvent | Arrived


def _has_work(todo: Plan) -> bool:
    return bool(todo.copies or todo.refusals or todo.paused or todo.cleaning or todo.deletions)


class Mirror:
    """One run. `on_tick(mirror)` is called a few times a second, for displays. `age_s`: how long the process has been
    running already. `outbox`: through which operators are told; by default the log is all that listens. `read_again`:
    the settings as the config has them by now; None: they never change."""

    def __init__(
        self,
        settings: Settings,
        *,
        until_caught_up: bool = False,
        on_tick: Callable[[Mirror], None] = lambda _: None,
        clusters: Clusters | None = None,
        make_lanes: Callable[..., Lanes] = Lanes,
        make_drivership: Callable[..., Drivership] = Drivership,
        age_s: float = 0.0,
        outbox: Outbox | None = None,
        read_again: Callable[[], Settings] | None = None,
    ) -> None:
        self.settings = settings
        self.outbox = outbox or logged()
        self.board = Board([], [], planned=False)
        self.cluster_ids: dict[str, tuple[str, str]] = {}  # by link: source, target
        self.ui_address: str | None = None
        self.phase = "connecting"
        self._until_caught_up = until_caught_up
        self._ends_by_itself = until_caught_up
        self._on_tick = on_tick
        self._stop = asyncio.Event()
        self._events: asyncio.Queue[MirrorEvent] = asyncio.Queue()
        self._make_drivership = make_drivership
        self._roles: LinkRoles | None = None
        self._adopted: dict[str, Plan] = {}  # links that are prepared,
        self._marks: dict[str, Mapping[MirrorPartition, Mark]] = {}  # and how their last holders left them
        self._keeper: LaneKeeper | None = None
        self._commands: Commands | None = None
        self._builds: Builds | None = None
        self._writer: EventWriter | None = None
        self._ledgers: Mapping[str, LedgerSight] = {}  # by link, as of the first plan
        self._clusters = clusters or Clusters(settings)
        self._alone = asyncio.Lock()  # whoever changes which links there are
        self._arrivals = Arrivals(
            self._clusters,
            self.outbox,
            self._arrived,
            self._alone,
            interval_s=settings.discovery_interval_s,
        )
        self._read_again = read_again
        self._config: ConfigWatch | None = None
        self._make_lanes = make_lanes
        self._told = PlanTold(self.outbox)
        self._turns = TopicTurns()
        self._restart: Restart | None = None
        self._slots = 0  # of Spark; counted where `lanes` is auto
        self._local_slots: int | None = None
        self._few_lanes = False  # that there are fewer than wanted was told
        self._active: dict[str, ActiveLink] = {}  # links that are ours, and followed
        self._configs_told = ConfigsTold(self.outbox)
        self._configs_once: dict[
            str, ConfigsInStep
        ] = {}  # of links that are ours, in a run that ends by itself
        self._times = StartTimes(age_s)
        self._fill_rates = FillRates()
        self._starting: Starting | None = None
        self._engine: Lanes | None = None

    @property
    def roles(self) -> Mapping[str, Role]:
        return self._roles.roles if self._roles is not None else {}

    @property
    def waiting(self) -> Mapping[str, str]:
        """Links that take no part yet, and why."""
        return self._arrivals.waiting

    @property
    def lanes(self) -> list[LaneView]:
        return self._keeper.lanes if self._keeper is not None else []

    def stop(self) -> None:
        """Ask the run to end: stop copying, drain, leave nothing behind."""
        self._stop.set()

    def look_at_config(self) -> None:
        """Now, and not when its time has come."""
        if self._config is not None:
            self._config.look_now()

    async def run(self) -> Board:
        """Until `stop`, or until caught up if so asked. The board tells how it ended."""
        try:
            await self._unless_stopped(self._begin())
            if self._keeper is not None:
                await self._keep()
        finally:
            self.phase = "stopping"
            try:
                # A run that failed before it had lanes has nothing to stop: its error is all there is to say.
                if self._keeper is not None or self._stop.is_set():
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
        for caution in self.settings.cautions:
            self.outbox.tell(caution.code, caution.message, hint=caution.hint)
        await self._connect()
        self._times.reached(Step.CONNECTED)
        self._clusters.on_refused = self._tell_access
        self._writer = self._clusters.event_writer(self.outbox)
        self._writer.start()
        self.outbox.attach(self._writer)
        self._arrivals.start()
        # It takes longer than everything else that comes before the first record. If it turns out that there is
        # nothing to copy, or the plan fails, it is given up.
        self._starting = self._start_spark()
        todo = await self._first_plan(self._starting)
        if todo is None:
            return
        self._times.reached(Step.PLANNED)
        self.board = Board(todo.copies, todo.refusals, todo.awaited, todo.paused, todo.cleaning)
        self._told.missing(todo.awaited)
        self._told.refused(todo.refusals)
        if self._stop.is_set():
            return
        # Until an operator resumes them, or until it is certain that they are to be deleted.
        waits = bool(todo.paused or todo.deletions) and not self._until_caught_up
        wanted = bool(todo.copies or todo.cleaning) or waits or self._is_anything_wanted(todo)
        wanted = wanted or bool(self.waiting)
        self._ends_by_itself = self._until_caught_up or not wanted
        if wanted or self._is_anything_unrecorded(todo):
            self._roles = self._elect()
            await self._start_lanes(self._starting, max(len(todo.copies), 1))

    async def _connect(self) -> None:
        """To all clusters, if the run ends by itself; else to those of one link at least."""
        if self._until_caught_up:
            await self._clusters.connect()
            return
        for link, away in (await self._clusters.connect_some()).items():
            self._arrivals.await_clusters(link, away)

    # -- observe, plan

    async def _first_plan(self, starting: Starting) -> Plan | None:
        """The first plan that has a partition to copy or to refuse; None when the run ends before."""
        told: set[str] = set()
        self.phase = "planning"
        self._on_tick(self)
        todo: Plan | None = await self._observe_and_plan()
        while True:
            for warning in todo.warnings if todo else ():
                if warning not in told:
                    self.outbox.tell(Event.PLAN_WARNING, warning)
                told.add(warning)
            if todo is not None and (_has_work(todo) or self._until_caught_up):
                return todo
            self._show_missing(todo.awaited if todo else ())
            self._on_tick(self)
            if await self._stopped_within(self.settings.discovery_interval_s):
                return None
            starting.check()  # else nobody would hear of it before a topic is there
            todo = await self._look_again()

    def _show_missing(self, awaited: Sequence[AwaitPartition]) -> None:
        """There is nothing to copy yet: no topic matches, or none of those that do is on the target."""
        self.phase = "waiting for target topics" if awaited else "waiting for a topic that matches"
        if awaited:
            self.board = Board([], [], awaited)
            self._told.missing(awaited)

    async def _look_again(self) -> Plan | None:
        """A cluster that cannot be read now was there before: it is waited for, like the topic."""
        try:
            return await self._observe_and_plan()
        except ClusterUnreachable as problem:
            words = f"{problem.message}; trying again in {self.settings.discovery_interval_s:g} s"
            self.outbox.tell(Event.CLUSTER_AWAY, words)
            return None

    async def _observe_and_plan(self) -> Plan:
        snapshots = await self._observe()
        self.cluster_ids = {s.link.name: s.cluster_ids for s in snapshots}
        self._ledgers = await look_at_ledgers(self._clusters, snapshots)
        recorded = {link: sight.recorded for link, sight in self._ledgers.items()}
        findings = await self._clusters.preflight(snapshots, recorded)
        return plan(snapshots, findings, recorded_of=lambda seen: recorded[seen.link.name])

    async def _observe(self) -> Sequence[LinkSnapshot]:
        if self._until_caught_up:
            return await self._clusters.observe()
        snapshots, away = await self._clusters.observe_some()
        self._clusters.set_apart(away)
        for link, problem in away.items():
            self._arrivals.await_reading(link, problem.message)
        return snapshots

    def _is_anything_wanted(self, todo: Plan) -> bool:
        """Whether an operator wants something of topics that nobody would copy: then there is something to do."""
        idle = [*(each.partition for each in todo.refusals), *(each.partition for each in todo.paused)]
        topics: dict[str, set[str]] = {}
        for key in idle:
            topics.setdefault(key.link, set()).add(key.target_topic)
        return any(self._ledgers[link].recorded.wanted() & names for link, names in topics.items())

    def _is_anything_unrecorded(self, todo: Plan) -> bool:
        """Whether a partition has stopped and no ledger says so yet, where there can be one."""
        return any(
            each.why.reason not in CONDITIONS and not self._is_recorded(each.partition)
            for each in todo.refusals
        )

    def _is_recorded(self, key: MirrorPartition) -> bool:
        topic_id = self._clusters.target(key.link).metadata.identity(key.target_topic)
        return self._ledgers[key.link].recorded.stop(key.target, topic_id) is not None

    # -- links that come later

    def _arrived(self, arrived: Arrived) -> None:
        """What is about it is written to its target from now on; all else has its turn in `_join`."""
        if self._writer is not None:
            for target in self._clusters.events_targets([arrived.link]):
                self._writer.add(target)
        self._events.put_nowait(arrived)

    def _join(self, link: str) -> None:
        """A link that was not there for the first plan."""
        assert self._keeper is not None
        taking_part = {each.name for each in self._clusters.links}
        if link in self._elected.roles or link not in taking_part:  # or it went again before its turn
            return
        self.cluster_ids[link] = self._clusters.cluster_ids(link)
        (clusters,) = (each for each in self._clusters.link_clusters() if each.link == link)
        self._keeper.add(clusters, self._clusters.flight_s(link))
        self._elected.add(link, self.cluster_ids[link])

    # -- the config, followed

    @property
    def claims(self) -> Mapping[str, Claim]:
        return self._elected.claims

    def go_by(self, settings: Settings) -> None:
        self.settings = settings
        self._arrivals.interval_s = settings.discovery_interval_s
        for active in self._active.values():
            active.interval_s = settings.discovery_interval_s

    def await_link(self, name: str) -> None:
        self._clusters.set_apart([name])
        self._arrivals.await_link(name)

    def look_anew(self, name: str, before: Link) -> None:
        active, now = self._active.get(name), self._clusters.link(name)
        if active is None:
            self._elected.prepare_again(name)
            return
        topics = self.board.by_source_topic(name)
        active.copy_otherwise(each for each in topics if before.policy_of(each) != now.policy_of(each))

    async def remove_link(self, name: str) -> None:
        self._arrivals.forget(name)
        if not self._elected.takes_part(name):
            return
        assert self._keeper is not None
        self._elected.retire(name)
        if (active := self._active.pop(name, None)) is not None:
            await active.aclose()
        self._end_work(name)
        keys = await self._keeper.release_link(name)
        await self._leave_marks(name)
        await self._elected.remove(name)
        self._adopted.pop(name, None)
        self._marks.pop(name, None)
        self._keeper.forget(keys)
        self.board.remove([key for key in self.board.rows if key.link == name])
        self.cluster_ids.pop(name, None)

    # -- which links are ours

    def _elect(self) -> LinkRoles:
        roles = LinkRoles(
            self._clusters, self.cluster_ids, self._events.put_nowait, self.outbox, self._make_drivership
        )
        roles.start()
        return roles

    def _prepared(self, link: str, todo: Plan, marks: Mapping[MirrorPartition, Mark]) -> None:
        assert self._keeper is not None
        assert self._roles is not None
        assert self._commands is not None
        if not self._roles.takes_part(link):
            return
        written = self._roles.ledgers.of(link) is not None
        adopted = self.board.adopt(
            link,
            todo.copies,
            todo.refusals,
            todo.left,
            todo.awaited,
            todo.paused,
            todo.cleaning,
            written=written,
        )
        self._told.refused(adopted)
        self._told.missing(todo.awaited)
        now = clock_of_waits()
        # Lanes of the driver before us may go on for a while, and what they sent may arrive even later.
        clear_at = now + ALIVE_S + self._clusters.flight_s(link)
        sooner = {key: now + mark.clear_in_s for key, mark in marks.items()}
        self._keeper.adopt(link, todo.copies, clear_at, {c.topic for c in todo.creations}, sooner)
        self._roles.grant(link)
        self._grow_lanes()
        self._adopted[link] = todo
        self._marks[link] = marks
        self._record_refusals(link, todo.refusals)
        self._commands.ready(link)
        self._builds_of_run.ready(todo)
        self._follow(link)

    def _follow(self, link: str) -> None:
        """A run that ends by itself copies what was there when it began, and brings its configs in step."""
        assert self._restart is not None
        configs = ConfigsInStep(
            link,
            self._clusters,
            self._elected,
            self.board,
            self._turns,
            self._configs_told,
            interval_s=self.settings.discovery_interval_s,
        )
        if self._ends_by_itself:
            self._configs_once[link] = configs
            configs.start_once()
            return
        self._active[link] = ActiveLink(
            link,
            self._clusters,
            self._elected,
            self.board,
            self._restart,
            self._builds_of_run,
            self._turns,
            self._told,
            self.outbox,
            self._found_more,
            configs,
            interval_s=self.settings.discovery_interval_s,
        )
        self._active[link].start()

    def _found_more(self, link: str) -> None:
        assert self._commands is not None
        self._grow_lanes()
        self._commands.look_again(link)

    def _grow_lanes(self) -> None:
        """A lane without a partition would be a process for nothing: they come with the partitions."""
        assert self._keeper is not None
        self._keeper.grow(self._count_lanes(self.board.copied_partitions), clock_of_waits())

    def _record_refusals(self, link: str, refusals: Iterable[RefusePartition]) -> None:
        """Those that need an operator, and stay until one has spoken."""
        assert self._roles is not None
        kept = [each for each in refusals if each.why.reason not in CONDITIONS]
        self._roles.record(link, partial(rows_of_stops, stops=kept))

    def _stood_down(self, link: str, active: str | None) -> None:
        assert self._keeper is not None
        assert self._commands is not None
        if (active_link := self._active.pop(link, None)) is not None:
            active_link.stop()
        self._end_work(link)
        self._adopted.pop(link, None)
        self._marks.pop(link, None)
        if active is not None:
            self.board.stand_by(link, active)
        self._keeper.drop(link)
        # At once: lanes must hear of what is taken back before anything is granted again.
        self._keeper.settle(clock_of_waits())

    def _end_work(self, link: str) -> None:
        assert self._commands is not None
        if (configs := self._configs_once.pop(link, None)) is not None:
            configs.stop()
        self._commands.stood_down(link)
        self._builds_of_run.stood_down(link)

    # -- lanes

    def _start_spark(self) -> Starting:
        loop = asyncio.get_running_loop()

        def hand_over(event: LaneEvent) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._events.put_nowait, event)

        spark, memory_bytes = self.settings.spark, self.settings.lane_memory_bytes
        return Starting(lambda: self._make_lanes(spark, memory_bytes, hand_over, self._grants, self.outbox))

    def _grants(self) -> Mapping[str, float]:
        """Asked from other threads, and by lanes only: these are started after the election has begun."""
        return self._roles.grants() if self._roles is not None else {}

    async def _start_lanes(self, starting: Starting, partitions: int) -> None:
        self.phase = "starting Spark"
        self._on_tick(self)
        settings = self.settings
        engine = self._engine = await starting.wait()
        self._times.reached(Step.SPARK_UP)
        # Whatever asks the JVM does so beside the event loop, which has leases to keep.
        self.ui_address = await asyncio.to_thread(lambda: engine.session.ui_address)
        self._slots = await asyncio.to_thread(lambda: engine.slots) if settings.lanes is None else 0
        self._local_slots = await asyncio.to_thread(lambda: engine.local_slots)
        count = self._count_lanes(partitions)
        self._keeper = LaneKeeper(
            engine,
            self.board,
            self._clusters.link_clusters(),
            {link.name: self._clusters.flight_s(link.name) for link in self._clusters.links},
            self.outbox,
            count=count,
            now=clock_of_waits(),
        )
        restart = Restart(self.board, self._keeper, lambda keys: self._builds_of_run.clean(keys))
        self._restart = restart
        self._builds = Builds(self._clusters, self._elected, self.board, restart, self.outbox)
        self._commands = self._take_commands(self._keeper, restart)
        if self._read_again is not None:
            followers = [SecretWatch(self._clusters, self._relink, self.outbox).look]
            if not self._ends_by_itself:
                followers.append(ConfigFollower(self._clusters, self, self.outbox, self._alone).follow)
            self._config = ConfigWatch(
                self._read_again,
                followers,
                self.outbox,
                interval_s=lambda: self.settings.discovery_interval_s,
            )
            self._config.start()
        log.info("%d partition(s) on %d lane(s)", partitions, count)
        engine.start(count)

    def _relink(self) -> None:
        assert self._keeper is not None
        self._keeper.relink(self._clusters.link_clusters())

    def _tell_access(self, cluster: str, problem: SecurityFailed) -> None:
        self.outbox.tell(Event.ACCESS_REFUSED, f"cluster {cluster!r}: {problem.message}", hint=problem.hint)

    @property
    def _elected(self) -> LinkRoles:
        assert self._roles is not None
        return self._roles

    @property
    def _builds_of_run(self) -> Builds:
        assert self._builds is not None
        return self._builds

    def _take_commands(self, keeper: LaneKeeper, restart: Restart) -> Commands:
        assert self._roles is not None
        remirror = Remirror(
            self._clusters,
            self._roles,
            restart,
            self._builds_of_run,
            lambda key: keeper.clear_in_s(key, clock_of_waits()),
            self.outbox,
        )
        return Commands(self._clusters, self._roles, self.board, restart, remirror, self._turns, self.outbox)

    def _count_lanes(self, partitions: int) -> int:
        wanted = lane_count(self.settings.lanes, slots=self._slots, partitions=partitions)
        count = cap_lanes(wanted, self._local_slots)
        if count < wanted and not self._few_lanes:
            self._few_lanes = True
            self.outbox.tell(
                Event.FEW_LANES,
                f"lanes: {wanted} wanted, {self.settings.spark.master} has {count} slot(s): {count} lane(s) are"
                " started",
                hint=f"a larger spark.master, such as local[{wanted}]",
            )
        return count

    async def _keep(self) -> None:
        """Until told to stop, caught up, or Spark is lost."""
        assert self._keeper is not None
        watch_at = sample_at = 0.0
        while not self._stop.is_set():
            await self._take_events()
            now = clock_of_waits()
            self._keeper.settle(now)
            if now >= sample_at:
                self._show(now)
                sample_at = now + TICK_S
            if now >= watch_at:
                self._keeper.watch(now)
                watch_at = now + WATCH_S
            if self._ends_by_itself and self._adopted_all and self.board.finished and not self._is_busy:
                return

    @property
    def _is_busy(self) -> bool:
        configs = any(each.busy for each in self._configs_once.values())
        return configs or (self._commands is not None and self._commands.busy)

    @property
    def _adopted_all(self) -> bool:
        """All that the links select is this run's."""
        all_are = set(self._adopted) == {link.name for link in self.settings.links}
        return all_are and not any(todo.left for todo in self._adopted.values())

    def _show(self, now: float) -> None:
        self.board.sample(now)
        self._record_rates()
        self.outbox.flush()
        standing_by = self._roles is not None and self._roles.standing_by
        holds = any(todo.partitions or not todo.left for todo in self._adopted.values())
        self.phase = "copying" if holds else STANDING_BY if standing_by else "electing"
        self._on_tick(self)

    async def _take_events(self) -> None:
        """All events that are there; wait a moment for the first."""
        try:
            async with asyncio.timeout(TICK_S):
                self._take(await self._events.get())
        except TimeoutError:
            return
        while not self._events.empty():
            self._take(self._events.get_nowait())

    def _take(self, event: MirrorEvent) -> None:
        assert self._keeper is not None
        now = clock_of_waits()
        match event:
            case Prepared(link, todo, marks):
                self._prepared(link, todo, marks)
            case Commanded(command):
                assert self._commands is not None
                self._commands.take(command)
            case StoodDown(link, active):
                self._stood_down(link, active)
            case Failed(problem):
                raise problem
            case Arrived(link):
                self._join(link)
            case LaneUp():
                self._times.reached(Step.LANE_UP)
                self._keeper.up(event, now)
            case LaneProgress(number, rows):
                if not self._times.complete and any(progress.records for progress in rows):
                    self._times.reached(Step.FIRST_RECORD)
                self._report(number, rows)
            case LaneTold(_, occurrences):
                self._tell(occurrences)
                self._record_stops(occurrences)
            case LaneWantsAttempts(lane, pid, wants):
                assert self._roles is not None
                self._roles.reserve(lane, pid, wants)
            case Reserved(lane, pid, attempts):
                self._keeper.grant_attempts(lane, pid, attempts)
            case LaneRevoked():
                self._keeper.revoked(event, now)
            case LaneGone():
                self._keeper.gone(event, now)
            case SparkLost(why, hint):
                raise EngineLost(
                    why, hint=f"start the mirror again: it goes on where the target ends; {hint}"
                )

    def _report(self, lane: int, rows: Iterable[PartitionStatus]) -> None:
        for progress in rows:
            self.board.report(lane, progress)
            self._fill_rates.report(progress)
            self._builds_of_run.report(progress)

    def _record_rates(self, *, over: bool = False) -> None:
        for link, rate in self._fill_rates.due(clock_of_waits(), over=over):
            if self._roles is not None and (way := way_of(self._adopted.get(link))) is not None:
                self._roles.record(link, partial(rows_of_rate, way=way, offsets_per_s=rate))

    def _tell(self, occurrences: Iterable[Occurrence]) -> None:
        for occurrence in occurrences:
            self.outbox.put(occurrence)

    def _record_stops(self, occurrences: Iterable[Occurrence]) -> None:
        assert self._roles is not None
        for link, stops in stops_met(occurrences).items():
            self._roles.record(link, partial(rows_of_stops, stops=stops))

    # -- the end

    async def _finish(self) -> None:
        try:
            if self._config is not None:
                await self._config.aclose()
            await self._arrivals.aclose()
            await asyncio.gather(*(each.aclose() for each in self._active.values()))
            await asyncio.gather(*(each.aclose() for each in self._configs_once.values()))
            if self._commands is not None:
                await self._commands.aclose()
            if self._builds is not None:
                await self._builds.aclose()
            if self._engine is not None:
                drained = await self._drain(self._engine)
                self._record_rates(over=True)
                await self._leave_marks()
                await self._step_down(leave=drained)
                await asyncio.to_thread(self._engine.close, JOBS_END_LIMIT_S)
            else:
                await self._step_down()
                if self._starting is not None:
                    local = is_local(self.settings.spark.master)
                    await asyncio.to_thread(self._starting.give_up, GIVE_UP_LIMIT_S, kill=local)
        finally:
            self._tell_rest()
            if self._writer is not None:
                await self._writer.aclose()
            await self._clusters.aclose()

    def _tell_rest(self) -> None:
        """What lanes have said and nobody has taken in yet."""
        while not self._events.empty():
            match self._events.get_nowait():
                case LaneTold(_, occurrences):
                    self._tell(occurrences)
        self.outbox.flush(over=True)

    async def _step_down(self, *, leave: bool = True) -> None:
        """After the lanes have drained a standby may take over at once. One that has not may still append under its
        lease: the group is then not left, and the lease runs out before another driver can be elected."""
        if self._roles is not None:
            await self._roles.aclose(leave=leave)

    async def _leave_marks(self, link: str | None = None) -> None:
        """Whoever comes next need not wait for what our lanes have drained (controller/cells.py)."""
        if self._keeper is None or self._roles is None:
            return
        now = clock_of_waits()
        # What no lane of ours had, because it is stopped or paused, is as it was left to us.
        untouched = {
            key: Mark(mark.end, self._keeper.clear_in_s(key, now))
            for of, marks in self._marks.items()
            for key, mark in marks.items()
            if link in (None, of) and not self._keeper.knows(key)
        }
        drained = {
            key: Mark(row.next_offset, self._keeper.clear_in_s(key, now))
            for key, row in self.board.rows.items()
            if link in (None, key.link)
            and row.compared
            and row.next_offset is not None
            and row.held_by is None
            and self._keeper.is_free(key)
        }
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(MARKS_LIMIT_S):
                await self._roles.leave_marks(untouched | drained)

    async def _drain(self, engine: Lanes) -> bool:
        """Whether every lane has ended."""
        if engine.session.lost:
            return False
        if self._keeper is None:
            return True  # no lane was started yet
        lanes = self.lanes
        engine.ask_to_stop(len(lanes))
        try:
            async with asyncio.timeout(DRAIN_LIMIT_S):
                while any(lane.pid is not None for lane in lanes):
                    event = await self._events.get()
                    match event:
                        case LaneProgress(number, rows):
                            self._report(number, rows)
                        case LaneTold(_, occurrences):
                            self._tell(occurrences)
                            self._record_stops(occurrences)
                        case LaneGone():
                            self._keeper.ended(event, clock_of_waits())
                        case SparkLost():
                            return False
                        case LaneUp(number, pid, _):  # too late to be given anything
                            lanes[number].pid = pid
                            engine.stop(number)
        except TimeoutError:
            words = f"a lane did not drain in {DRAIN_LIMIT_S:.0f} s; the target tells the next run"
            self.outbox.tell(Event.NOT_DRAINED, words)
            return False
        return True

    async def _stopped_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self._stop.wait()
        except TimeoutError:
            return False
