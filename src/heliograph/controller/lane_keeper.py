"""The lanes of a run: who is up, and who holds what. Turns what lanes report into orders for them.

A lane that hangs (lane_health.py) is ended and its partitions move, just like one that gives no sign of life at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from heliograph.controller.board import Board
from heliograph.controller.lane_health import ADVANCE_LIMIT_S, LaneHealth
from heliograph.controller.placement import Give, Placement, Take
from heliograph.controller.plan import CopyPartition
from heliograph.copier.lane_clusters import LinkClusters
from heliograph.engine.lanes import LaneGone, LaneRevoked, Lanes, LaneUp
from heliograph.model.errors import EngineLost
from heliograph.model.events import Event
from heliograph.model.outbox import Outbox
from heliograph.model.partition import MirrorPartition
from heliograph.model.states import PartitionState

RELEASE_LOOK_S = 0.05
HELLO_LIMIT_S = 60.0  # executors may have to start first, and unpack an archive
NO_SLOT_HINT = (
    "lower `lanes`, or give Spark more cores or executors: a lane holds one slot for as long as it lives"
)


@dataclass(slots=True)
class LaneView:
    """A lane as it is now; `pid` None while it is away, since `away_since`. `missed`: that it is, was said."""

    lane: int
    pid: int | None = None
    host: str = ""
    away_since: float = 0.0
    missed: bool = False


class LaneKeeper:
    """`now` is always by `clock_of_waits`."""

    def __init__(
        self,
        engine: Lanes,
        board: Board,
        link_clusters: Iterable[LinkClusters],
        flight_s: Mapping[str, float],
        outbox: Outbox,
        *,
        count: int,
        now: float,
    ) -> None:
        self.lanes = [LaneView(lane, away_since=now) for lane in range(count)]
        self._engine = engine
        self._board = board
        self._outbox = outbox
        self._link_clusters = {each.link: each for each in link_clusters}
        self._placement = Placement(count, flight_s, now)
        self._health = LaneHealth(now)
        self._hung: set[int] = set()

    # -- links

    def add(self, link_clusters: LinkClusters, flight_s: float) -> None:
        """One more link: lanes hear of it with its first partition."""
        self._link_clusters[link_clusters.link] = link_clusters
        self._placement.add_link(link_clusters.link, flight_s)

    def relink(self, link_clusters: Sequence[LinkClusters]) -> None:
        """The clusters' secrets are others now: lanes that are up hear of it, the others when they come."""
        self._link_clusters = {each.link: each for each in link_clusters}
        for view in self.lanes:
            if view.pid is not None:
                self._engine.relink(view.lane, link_clusters)

    def grow(self, count: int, now: float) -> None:
        """So many lanes are wanted by now; those that are there stay as they are."""
        more = range(len(self.lanes), count)
        for lane in more:
            self.lanes.append(LaneView(lane, away_since=now))
            self._placement.add_lane(now)
        if more:
            self._engine.add(more)

    def adopt(
        self,
        link: str,
        copies: Iterable[CopyPartition],
        clear_at: float,
        created: Collection[str] = (),
        sooner: Mapping[MirrorPartition, float] = MappingProxyType({}),
    ) -> None:
        self._placement.adopt(link, copies, clear_at, created, sooner)

    def drop(self, link: str) -> None:
        self._placement.drop(link)

    async def release_link(self, link: str) -> list[MirrorPartition]:
        """All that was to be copied of it; on return no lane has any of it."""
        self.drop(link)
        partitions = self._placement.of_link(link)
        await self.release(partitions)
        return partitions

    # -- partitions

    def extend(self, copies: Iterable[CopyPartition], created: Collection[str] = ()) -> None:
        """More of a link that is ours."""
        self._placement.extend(copies, created)

    async def release(self, partitions: Collection[MirrorPartition]) -> None:
        """Take these from their lanes; on return none has one."""
        self._placement.release(partitions)
        while not all(self._placement.is_free(key) for key in partitions):  # noqa: ASYNC110 - `settle` is what moves it
            await asyncio.sleep(RELEASE_LOOK_S)

    def forget(self, partitions: Iterable[MirrorPartition]) -> None:
        """Of these nothing is known any more, but for how long something of ours may still arrive there."""
        partitions = list(partitions)
        self._placement.forget(partitions)
        self._health.forget(partitions)

    def is_free(self, partition: MirrorPartition) -> bool:
        """No lane has it."""
        return self._placement.is_free(partition)

    def knows(self, partition: MirrorPartition) -> bool:
        """A lane has it, or may have had it."""
        return self._placement.knows(partition)

    def clear_in_s(self, partition: MirrorPartition, now: float) -> float:
        """For how long something that was sent there may still arrive."""
        return max(self._placement.over_at(partition) - now, 0.0)

    # -- what lanes report

    def up(self, event: LaneUp, now: float) -> None:
        if event.unfit is not None:
            raise EngineLost(
                f"lane {event.lane} on {event.host} cannot work for this driver", hint=event.unfit
            )
        view = self.lanes[event.lane]
        if view.pid is not None:
            # Replaced before its end was noticed: the new one knows nothing of what it was given, and the old one
            # may go on for a while without us.
            self.gone(LaneGone(event.lane, silent=True), now)
        view.pid, view.host, view.missed = event.pid, event.host, False
        self._placement.lane_up(event.lane, now)
        words = f"lane {event.lane} is up on {event.host} (process {event.pid})"
        self._outbox.tell(Event.LANE_UP, words)

    def ended(self, event: LaneGone, now: float) -> None:
        """It was told to end."""
        self.lanes[event.lane].pid = None
        self._placement.lane_gone(
            event.lane,
            now,
            clean=event.clean,
            hung=event.silent or event.lane in self._hung,  # it may go on for a while without us
            leased_until=lambda link: self._engine.leased_until(event.lane, link),
        )

    def gone(self, event: LaneGone, now: float) -> None:
        view = self.lanes[event.lane]
        view.pid, view.away_since = None, now
        hung = event.silent or event.lane in self._hung
        self._hung.discard(event.lane)
        self._placement.lane_gone(
            event.lane,
            now,
            clean=event.clean,
            hung=hung,
            leased_until=lambda link: self._engine.leased_until(event.lane, link),
        )
        self._board.lane_gone(event.lane)
        self._health.lane_gone(event.lane)
        words = f"lane {event.lane} is gone; its partitions wait until it is back, or move to another lane"
        self._outbox.tell(Event.LANE_HUNG if hung else Event.LANE_GONE, words)

    def revoked(self, event: LaneRevoked, now: float) -> None:
        self._placement.let_go(event.partition, event.lane, now, clean=event.clean)
        self._board.let_go(event.partition)

    def grant_attempts(self, lane: int, pid: int, attempts: Iterable[tuple[MirrorPartition, int]]) -> None:
        """Reserved for that process alone: one that has come in its place asks for its own."""
        attempts = list(attempts)
        self._placement.gaps_filled(key for key, _ in attempts)
        self._engine.grant_attempts(lane, attempts, pid=pid)

    # -- what to do about it

    def settle(self, now: float) -> None:
        """Give and take what can be given and taken now."""
        for order in self._placement.orders(now, self._is_stopped):
            match order:
                case Give(lane=lane, copies=copies, clear_in_s=clear_in_s):
                    self._give(lane, copies, clear_in_s)
                case Take(lane=lane, partitions=partitions):
                    self._engine.revoke(lane, partitions)

    def _give(self, lane: int, copies: tuple[CopyPartition, ...], clear_in_s: float) -> None:
        specs = [copy.spec for copy in copies]
        self._board.lane_up(spec.partition for spec in specs)
        links = {spec.partition.link for spec in specs}
        clusters = [self._link_clusters[link] for link in sorted(links)]
        self._engine.assign(lane, clusters, specs, clear_in_s=clear_in_s, pid=self.lanes[lane].pid)

    def _is_stopped(self, partition: MirrorPartition) -> bool:
        return self._board.rows[partition].state is PartitionState.STOPPED

    def watch(self, now: float) -> None:
        """End lanes that do not advance; say once of a lane that it does not come."""
        for lane in self._health.hanging(self._board.rows.values(), now):
            if self.lanes[lane].pid is None or lane in self._hung:
                continue
            self._hung.add(lane)
            self._outbox.tell(
                Event.LANE_HUNG,
                f"lane {lane} has work to do and has not advanced for {ADVANCE_LIMIT_S:.0f} s: it is ended and its"
                " partitions move",
            )
            self._engine.abandon(lane)
        self._miss_lanes(now)

    def _miss_lanes(self, now: float) -> None:
        for view in self.lanes:
            if view.pid is None and not view.missed and now - view.away_since >= HELLO_LIMIT_S:
                view.missed = True
                trouble = (
                    f"lane {view.lane} has no Spark slot yet: it has not come up for {HELLO_LIMIT_S:.0f} s"
                )
                self._outbox.tell(Event.FEW_LANES, trouble, hint=NO_SLOT_HINT)
                if all(v.pid is None for v in self.lanes):
                    self._board.lane_waits(list(self._board.rows), trouble, NO_SLOT_HINT)
