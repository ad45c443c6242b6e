"""A lane: the copiers of many partitions, on one event loop. Knows neither Spark nor the control line.

    source brokers ──▶ Fetcher (two per broker) ──▶ PartitionCopy (one per partition) ──▶ Sender (a few per broker)
                                                        ▲  │                                     │
                                                        │  └── resynchronise (a task) ◀── errors ┘
                                                        └── acknowledgements ◀── target brokers

Owns the routing: which fetcher and which sender a partition is with, by the leaders in the clusters' metadata.
When a leader moves, the partition is resynchronised before anything goes to the new one. A partition that stops
stays here, silent, so that its state can be read; the others go on (P7).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from heliograph.cluster.metadata import Leader
from heliograph.copier.budget import ByteBudget, Share, Shares
from heliograph.copier.clearance import CLEAR
from heliograph.copier.deletions import Deletions
from heliograph.copier.fill import Fill
from heliograph.copier.fills import Fills
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.phases import OVER, Phase
from heliograph.copier.ports import SourcePort, TargetPort
from heliograph.copier.resynchroniser import Resynchroniser, quietly
from heliograph.copier.route import Route
from heliograph.copier.sender import NO_LEASE, TOLD_AFTER_S
from heliograph.copier.spec import CopySpec
from heliograph.copier.surroundings import Surroundings
from heliograph.copier.topic_ids import SOURCE, TARGET
from heliograph.copier.vigil import Vigil
from heliograph.copier.workers import LaneLink, Workers, line_of
from heliograph.model.events import Event, Trouble
from heliograph.model.partition import MirrorPartition
from heliograph.model.states import BoundBy

ROUTE_INTERVAL_S = 0.5
LOOK_INTERVAL_S = 3.0
SLOW_FOR_S = 60.0
# One in so many parts of a lane's memory is for merged batches on their way, and half of that at most for one broker:
# of 64 MB so much that four requests of the default max.request.size are full.
MERGED_PART = 8
ASK_AGAIN_S = 3.0  # for an attempt that the driver did not grant: it may have lost its own right meanwhile
RECODE_AGAIN_S = 0.01  # for memory that what is on its way holds: as long as an append takes, about
OLD_LEADER_S = 1.0  # how long its answers are awaited when a partition has a new one


class Lane:
    """`failed` is called with whatever ends a worker that must not end: the lane is then of no use."""

    def __init__(
        self,
        memory_bytes: int,
        failed: Callable[[BaseException], None],
        surroundings: Surroundings | None = None,
    ) -> None:
        surroundings = surroundings or Surroundings()
        merged_bytes = memory_bytes // MERGED_PART
        self._budget = ByteBudget(memory_bytes - merged_bytes, merged_bytes)
        self._workers = Workers(
            self._budget,
            self._spawn,
            on_change=self._attend,
            on_slow=self._set_apart,
            wall_ms=surroundings.wall_ms,
        )
        self._fills = Fills(self._spawn, self._attend, self._set_apart)
        self._deletions = Deletions(self._spawn, self._attend)
        self._attempts: dict[
            MirrorPartition, float
        ] = {}  # who needs one to fill a gap; when it was asked for
        self._shares = Shares(self._budget, on_turn=self._share_turned)
        self._failed = failed
        self._links: dict[str, LaneLink] = {}
        # Whether they were exclusive, and alive, at the last look.
        self._leases: dict[str, tuple[bool, bool]] = {}
        self._routes: dict[MirrorPartition, Route] = {}
        self._leaderless: dict[MirrorPartition, Route] = {}  # on either side
        self._by_topic: dict[str, dict[MirrorPartition, Route]] = {}  # by the names at both ends
        self._by_share: dict[Share, dict[MirrorPartition, Route]] = {}  # by their leader at the target
        self._moved: dict[PartitionCopy, None] = {}  # of whom there is something new to report
        self._cramped: dict[PartitionCopy, None] = {}  # who waits for memory to recode a batch in
        self._exclusive: dict[MirrorPartition, None] = {}  # who needs an exclusive lease, as of `_note_moved`
        self._tasks: dict[asyncio.Task[None], None] = {}  # an ordered set: they end in the order they began
        self._asked: set[int] = set()  # clusters whose metadata is being read
        self._resynchroniser = Resynchroniser(self._route, surroundings)
        self._uniform = surroundings.uniform
        self._draining = False
        self._answer = asyncio.Event()  # set whenever a copy was given an answer
        self._spawn(self._keep_routed())
        self._spawn(Vigil(self._routes, self._attend, surroundings.uniform).run())

    @property
    def copies(self) -> Mapping[MirrorPartition, PartitionCopy]:
        return {key: route.copy for key, route in self._routes.items()}

    def copy(self, key: MirrorPartition) -> PartitionCopy | None:
        route = self._routes.get(key)
        return route.copy if route is not None else None

    def take_moved(self) -> list[PartitionCopy]:
        """The copies of which there is something new to report since this was last asked."""
        self._note_moved()
        now = asyncio.get_running_loop().time()
        moved = [copy for copy in self._moved if self.copy(copy.spec.partition) is copy]
        self._moved.clear()  # the dict itself stays: the copies have it
        # What is said of a quota is over when its time has passed, though nothing happens then.
        self._moved.update((copy, None) for copy in moved if copy.bound_by(now) is BoundBy.QUOTA)
        return moved

    def link(self, name: str, lane_link: LaneLink) -> None:
        """Make a link's clusters known before its partitions are assigned."""
        self._links[name] = lane_link

    def assign(self, spec: CopySpec, *, clear_in_s: float = 0.0) -> None:
        """`clear_in_s`: after that, whatever the last holder of the partition has sent is over."""
        if spec.partition in self._routes:
            return
        lane_link = self._links[spec.partition.link]
        limit_bytes = 4 * lane_link.consumer.max_partition_fetch_bytes
        clear_at = asyncio.get_running_loop().time() + clear_in_s if clear_in_s > 0 else CLEAR
        copy = PartitionCopy(
            spec, limit_bytes, clear_at=clear_at, flight_s=lane_link.flight_s, moved=self._moved
        )
        self._routes[spec.partition] = route = Route(copy, lane_link.source, lane_link.target)
        for topic in (spec.partition.source_topic, spec.partition.target_topic):
            self._by_topic.setdefault(topic, {})[spec.partition] = route
        if lane_link.target.topic_id(spec.partition.target_topic):
            copy.doubt_metadata()  # an operator may have had the topic made anew while nobody here copied it
        self._route(route)
        self._attend(copy)

    async def revoke(self, key: MirrorPartition) -> bool:
        """Stop copying this partition and wait for the answers that are due. Whether all is known of what was sent:
        if not, it may still arrive."""
        route = self._routes.get(key)
        if route is None:
            return True
        self._retire(route)
        await self._settled(route)
        self._routes.pop(key, None)
        self._leaderless.pop(key, None)
        self._attempts.pop(key, None)
        for topic in (key.source_topic, key.target_topic):
            self._by_topic[topic].pop(key, None)
        if route.target_leader is not None:
            self._by_share[self._share_of(route)].pop(key, None)
        self._note_moved()
        return route.copy.is_clear(asyncio.get_running_loop().time())

    # -- leases

    def renew(self, link: str, asked_at: float, lasts_s: float) -> None:
        """The driver's word on how long this link's partitions are ours."""
        lane_link = self._links.get(link)
        if lane_link is None:
            return
        self._note_lease(link, lane_link)  # that it was over, though nobody has looked since
        lane_link.lease.renew(asked_at, lasts_s)
        self._note_lease(link, lane_link)

    def wants_exclusion(self) -> list[str]:
        """The links that an exclusive lease is needed for."""
        self._note_moved()
        return sorted({key.link for key in self._exclusive})

    def _note_moved(self) -> None:
        for copy in self._moved:
            key = copy.spec.partition
            if self.copy(key) is copy and copy.wants_exclusion:
                self._exclusive[key] = None
            else:
                self._exclusive.pop(key, None)

    def take_attempt_wants(self) -> list[tuple[MirrorPartition, int]]:
        """Whose gaps wait for an attempt that the driver must reserve, and above which one; each is asked for again
        after a while."""
        now = asyncio.get_running_loop().time()
        due = [key for key, asked_at in self._attempts.items() if now - asked_at >= ASK_AGAIN_S]
        wants = []
        for key in due:
            copy = self.copy(key)
            if copy is None or not copy.asks_for_attempt:
                del self._attempts[key]
            else:
                self._attempts[key] = now
                wants.append((key, copy.attempt_above))
        return wants

    def grant_attempt(self, key: MirrorPartition, attempt: int) -> None:
        copy = self.copy(key)
        self._attempts.pop(key, None)
        if copy is not None:
            copy.attempt_granted(attempt)
            self._attend(copy)

    def lapse(self) -> None:
        """Close the lines of links whose lease is over. To be called every now and then."""
        self._workers.lapse()
        for link, lane_link in self._links.items():
            self._note_lease(link, lane_link)

    def _note_lease(self, link: str, lane_link: LaneLink) -> None:
        held = (lane_link.lease.exclusive, lane_link.lease.alive)
        if self._leases.get(link) == held:
            return
        self._leases[link] = held
        for key, route in list(self._routes.items()):
            if key.link == link:
                route.copy.leased(exclusive=held[0])
                self._attend(route.copy)

    def _clear(self, route: Route) -> None:
        route.clearing = None
        route.copy.cleared(asyncio.get_running_loop().time())
        self._attend(route.copy)

    async def drain(self) -> bool:
        """Stop fetching and resynchronising; return when no append is in flight, and whether all is known of what was
        sent."""
        self._draining = True
        for route in self._routes.values():
            self._retire(route)
        for route in list(self._routes.values()):
            await self._settled(route)
        now = asyncio.get_running_loop().time()
        return all(route.copy.is_clear(now) for route in self._routes.values())

    async def aclose(self) -> None:
        self._draining = True  # answers that fail from now on must not set anything going
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _retire(self, route: Route) -> None:
        self._workers.forget(route.copy)
        if route.resync is not None:
            route.resync.cancel()
        for timer in (route.clearing, route.telling):
            if timer is not None:
                timer.cancel()
        route.copy.retire()

    async def _settled(self, route: Route) -> None:
        while not route.copy.settled:
            self._answer.clear()
            await self._answer.wait()

    # -- routing

    def reroute(self, topics: Iterable[str] | None = None) -> None:
        """Leaders of these topics' partitions may have moved, on either side; None: of all."""
        if self._draining:
            return
        routes: Mapping[MirrorPartition, Route] = self._routes
        if topics is not None:
            routes = {key: route for topic in topics for key, route in self._by_topic.get(topic, {}).items()}
        for route in list(routes.values()):
            self._route(route)

    def _route(self, route: Route) -> None:
        copy = route.copy
        if copy.over:
            return
        copy.seen_topic(SOURCE, route.source.topic_id(copy.spec.partition.source_topic))
        copy.seen_topic(TARGET, route.target.topic_id(copy.spec.partition.target_topic))
        if copy.over:
            self._attend(copy)
            return
        source_leader = route.source.leader(copy.spec.partition.source)
        target_leader = route.target.leader(copy.spec.partition.target)
        if (source_leader, target_leader) != (route.source_leader, route.target_leader):
            route.leader_moved()
        if source_leader != route.source_leader:
            self._move_fetches(route, source_leader)
        if target_leader != route.target_leader:
            self._move_appends(route, target_leader)
        if source_leader is None or target_leader is None:
            self._leaderless[copy.spec.partition] = route
        else:
            self._leaderless.pop(copy.spec.partition, None)

    def _move_fetches(self, route: Route, leader: Leader | None) -> None:
        if route.source_leader is not None:
            route.copy.interrupted(Trouble(Event.LEADER_MOVED, "the source partition has a new leader"))
        if route.fetches is not None:
            route.fetches.discard(route.copy)
        route.source_leader, route.fetches = leader, None
        if leader is not None:
            isolation = route.copy.spec.policy.isolation
            route.fetches = self._workers.fetches(self._lane_link_of(route), leader.node, isolation)
            route.fetches.add(route.copy, leader.epoch)
        self._attend(route.copy)

    def _move_appends(self, route: Route, leader: Leader | None) -> None:
        if route.target_leader is not None:
            self._workers.forget_appends(route.copy)
            route.copy.interrupted(Trouble(Event.LEADER_MOVED, "the target partition has a new leader"))
            asyncio.get_running_loop().call_later(
                OLD_LEADER_S, self._close_lines_of_old_leader, route, route.target_leader.node
            )
            self._by_share[self._share_of(route)].pop(route.copy.spec.partition, None)
        route.target_leader = leader
        route.line = None
        if leader is not None:
            self._by_share.setdefault(self._share_of(route), {})[route.copy.spec.partition] = route
            route.copy.led_by(self._share_of(route))
        self._attend(route.copy)

    def _share_of(self, route: Route) -> Share:
        assert route.target_leader is not None
        return self._shares.of((id(route.target), route.target_leader.node))

    def _set_apart(self, copy: PartitionCopy) -> None:
        """Its followers are slow: others must not wait behind it."""
        route = self._routes.get(copy.spec.partition)
        if route is not None:
            loop = asyncio.get_running_loop()
            route.slow_until = loop.time() + SLOW_FOR_S
            loop.call_at(route.slow_until, self._attend, copy)  # it may leave that line then

    def _close_lines_of_old_leader(self, route: Route, old_node: int) -> None:
        """A leader that was replaced because it hangs owes its answers for as long as the request timeout."""
        waits = route.copy.phase in {Phase.DRAIN, *OVER} and not route.copy.settled
        if waits and (route.target_leader is None or route.target_leader.node != old_node):
            self._workers.close_lines(self._lane_link_of(route), old_node)

    def _lane_link_of(self, route: Route) -> LaneLink:
        return self._links[route.copy.spec.partition.link]

    async def _keep_routed(self) -> None:
        """Whoever has no leader waits for one: ask again until there is. And look at all now and then: a topic that is
        deleted, or recreated, makes no noise while nothing is copied."""
        await asyncio.sleep(self._uniform(0, ROUTE_INTERVAL_S))  # not always together with other lanes
        looked_at = 0.0
        while True:
            await asyncio.sleep(ROUTE_INTERVAL_S)
            now = asyncio.get_running_loop().time()
            look = now - looked_at >= LOOK_INTERVAL_S
            looked_at = now if look else looked_at
            routes = self._routes if look else self._leaderless
            active = [route for route in routes.values() if not route.copy.over]
            for end in {id(end): end for r in active for end in (r.source, r.target)}.values():
                if id(end) not in self._asked:
                    self._spawn(self._ask_again(end))

    async def _ask_again(self, end: SourcePort | TargetPort) -> None:
        """For itself: one cluster that is away must not keep the others from being looked at."""
        self._asked.add(id(end))
        await quietly(end.refresh)
        self._asked.discard(id(end))

    def _share_turned(self, share: Share) -> None:
        """A target broker's share of the memory is full, or not any more: whom it leads may fetch no more, or again."""
        for route in self._by_share.get(share, {}).values():
            if route.copy.behind:
                self._moved[route.copy] = None
            if route.fetches is not None:
                route.fetches.changed(route.copy)

    # -- what a copy needs next

    def _attend(self, copy: PartitionCopy) -> None:
        """Something happened to this copy: see to what it may do now."""
        self._answer.set()
        route = self._routes.get(copy.spec.partition)
        if route is None or route.copy is not copy:
            return
        if self._draining:
            return
        if copy.phase is Phase.STOPPED:
            if route.fetches is not None:
                route.fetches.discard(copy)
            return
        if route.fetches is not None:
            route.fetches.changed(copy)
        if copy.wants_resync:
            if route.resync is None or route.resync.done():
                route.resync = self._spawn(self._resynchronise(route))
            return
        if copy.awaits_clearance and route.clearing is None:
            loop = asyncio.get_running_loop()
            copy.troubled(_waits(copy.clear_at - loop.time()))
            route.clearing = loop.call_at(copy.clear_at, self._clear, route)
        if copy.awaits_lease and route.telling is None:
            route.telling = asyncio.get_running_loop().call_later(TOLD_AFTER_S, self._tell_of_lease, route)
        if copy.awaits_recoding:
            self._try_again_to_recode(copy)
        self._deletions.attend(route)
        if copy.asks_for_attempt:
            self._attempts.setdefault(copy.spec.partition, -math.inf)
        fill = copy.fill_due()
        if fill is not None:
            self._begin_fill(route, fill)
        else:
            self._offer(route)

    def _begin_fill(self, route: Route, fill: Fill) -> None:
        """Without the lease that it needs it waits: whoever gets one is attended to."""
        lease = self._lane_link_of(route).lease
        held = lease.exclusive if fill.exclusive else lease.alive
        if held and route.target_leader is not None:
            self._fills.begin(route, fill, lambda: lease.exclusive if fill.exclusive else lease.alive)

    def _try_again_to_recode(self, copy: PartitionCopy) -> None:
        """In a moment, all that wait together: memory is free again when answers come."""
        if not self._cramped:
            asyncio.get_running_loop().call_later(RECODE_AGAIN_S, self._recode)
        self._cramped[copy] = None

    def _recode(self) -> None:
        waiting, self._cramped = self._cramped, {}
        for copy in waiting:
            copy.recode()
            self._attend(copy)

    def _tell_of_lease(self, route: Route) -> None:
        """It takes a heartbeat to get a lease; whoever waits longer says so."""
        route.telling = None
        if route.copy.awaits_lease:
            route.copy.troubled(NO_LEASE)

    def _offer(self, route: Route) -> None:
        """To the line it is on; to another one only when no answer is due, or its batches could overtake each other."""
        outgoing = route.copy.peek()
        if outgoing is None or route.target_leader is None:
            return
        slow = asyncio.get_running_loop().time() < route.slow_until
        where = route.copy.spec.partition.target
        followed = route.target.has_followers(where.topic)
        wanted = line_of(where, careful=outgoing.perishable, slow=slow, followed=followed)
        if route.line is None or (wanted != route.line and route.copy.settled):
            self._workers.forget_appends(route.copy)  # the line it leaves may not have come to it yet
            route.line = wanted
        if wanted == route.line or wanted.careful == route.line.careful:
            sender = self._workers.sender(self._lane_link_of(route), route.target_leader.node, route.line)
            sender.offer(route.copy)

    async def _resynchronise(self, route: Route) -> None:
        await self._resynchroniser.run(route)
        self._attend(route.copy)

    # -- tasks

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._failed(problem)


def _waits(seconds: float) -> Trouble:
    return Trouble(
        Event.LEASE_WAIT,
        f"old records, or markers for holes, wait for {max(seconds, 0):.0f} s: the target cannot tell whether an"
        " append of the last holder is still on its way",
    )
