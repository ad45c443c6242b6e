"""A lane: the copiers of many partitions, on one event loop. Knows neither Spark nor the control line.

    source brokers ──▶ Fetcher (one per broker) ──▶ PartitionCopy (one per partition) ──▶ Sender (one per broker)
                                                        ▲  │                                     │
                                                        │  └── resynchronise (a task) ◀── errors ┘
                                                        └── acknowledgements ◀── target brokers

Owns the routing: which fetcher and which sender a partition is with, by the leaders in the clusters' metadata.
When a leader moves, the partition is resynchronised before anything goes to the new one. A partition that stops
stays here, silent, so that its state can be read; the others go on (P7).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from heliograph.cluster.metadata import Leader
from heliograph.cluster.properties import ClientProperties
from heliograph.copier.budget import ByteBudget, Shares
from heliograph.copier.fetcher import Fetcher, FetchLimits
from heliograph.copier.partition_copy import PartitionCopy, Phase
from heliograph.copier.ports import SourcePort, TargetPort
from heliograph.copier.resynchroniser import Resynchroniser, quietly
from heliograph.copier.route import Route
from heliograph.copier.sender import Sender
from heliograph.copier.spec import CopySpec
from heliograph.model.errors import HeliographError
from heliograph.model.partition import MirrorPartition

ROUTE_INTERVAL_S = 0.5
LOOK_INTERVAL_S = 3.0


@dataclass(slots=True)
class Ends:
    """The clusters' clients a lane copies between, by name, and the consumer's and producer's properties."""

    source: SourcePort
    target: TargetPort
    consumer: ClientProperties
    producer: ClientProperties


@dataclass(slots=True)
class _Workers:
    fetchers: dict[tuple[int, int], Fetcher] = field(default_factory=dict)
    senders: dict[tuple[int, int], Sender] = field(default_factory=dict)
    limits: dict[int, FetchLimits] = field(default_factory=dict)


class Lane:
    """`failed` is called with whatever ends a worker that must not end: the lane is then of no use."""

    def __init__(self, memory_bytes: int, failed: Callable[[BaseException], None]) -> None:
        self._budget = ByteBudget(memory_bytes)
        self._shares = Shares(self._budget, on_free=self._wake_fetchers)
        self._failed = failed
        self._ends: dict[str, Ends] = {}
        self._routes: dict[MirrorPartition, Route] = {}
        self._workers = _Workers()
        self._tasks: set[asyncio.Task[None]] = set()
        self._resynchroniser = Resynchroniser(self._route)
        self._draining = False
        self._answer = asyncio.Event()  # set whenever a copy was given an answer
        self._spawn(self._keep_routed())

    @property
    def copies(self) -> Mapping[MirrorPartition, PartitionCopy]:
        return {key: route.copy for key, route in self._routes.items()}

    def link(self, name: str, ends: Ends) -> None:
        """Make a link's clusters known before its partitions are assigned."""
        self._ends[name] = ends

    def assign(self, spec: CopySpec) -> None:
        if spec.partition in self._routes:
            return
        ends = self._ends[spec.partition.link]
        copy = PartitionCopy(spec, held_limit_bytes=4 * ends.consumer.max_partition_fetch_bytes)
        self._routes[spec.partition] = route = Route(copy, ends.source, ends.target)
        self._route(route)
        self._attend(copy)

    async def revoke(self, key: MirrorPartition) -> None:
        """Stop copying this partition and wait for the answers that are due."""
        route = self._routes.get(key)
        if route is None:
            return
        self._retire(route)
        await self._settled(route)
        del self._routes[key]

    async def drain(self) -> None:
        """Stop fetching and resynchronising; return when no append is in flight."""
        self._draining = True
        for route in self._routes.values():
            self._retire(route)
        for route in list(self._routes.values()):
            await self._settled(route)

    async def aclose(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _retire(self, route: Route) -> None:
        for fetcher in self._workers.fetchers.values():
            fetcher.discard(route.copy)
        for sender in self._workers.senders.values():
            sender.discard(route.copy)
        if route.resync is not None:
            route.resync.cancel()
        route.copy.retire()

    async def _settled(self, route: Route) -> None:
        while not route.copy.settled:
            self._answer.clear()
            await self._answer.wait()

    # -- routing

    def reroute(self) -> None:
        """Leaders may have moved: metadata is new."""
        if not self._draining:
            for route in list(self._routes.values()):
                self._route(route)

    def _route(self, route: Route) -> None:
        copy = route.copy
        if copy.phase in (Phase.STOPPED, Phase.RETIRED):
            return
        recreated = route.recreated()
        if recreated is not None:
            copy.stop(recreated)
            self._attend(copy)
            return
        source_leader = route.source.leader(copy.spec.partition.source)
        target_leader = route.target.leader(copy.spec.partition.target)
        if (source_leader, target_leader) != (route.source_leader, route.target_leader):
            route.moved.set()
        if source_leader != route.source_leader:
            self._move_fetches(route, source_leader)
        if target_leader != route.target_leader:
            self._move_appends(route, target_leader)

    def _move_fetches(self, route: Route, leader: Leader | None) -> None:
        if route.source_leader is not None:
            self._fetcher(route, route.source_leader.node).discard(route.copy)
            route.copy.interrupted(HeliographError("the source partition has a new leader"))
        route.source_leader = leader
        if leader is not None:
            self._fetcher(route, leader.node).add(route.copy)
        self._attend(route.copy)

    def _move_appends(self, route: Route, leader: Leader | None) -> None:
        if route.target_leader is not None:
            self._sender(route, route.target_leader.node).discard(route.copy)
            route.copy.interrupted(HeliographError("the target partition has a new leader"))
        route.target_leader = leader
        if leader is not None:
            route.copy.share = self._shares.of((id(route.target), leader.node))
        self._attend(route.copy)

    def _wake_fetchers(self) -> None:
        for fetcher in self._workers.fetchers.values():
            fetcher.wake()

    def _fetcher(self, route: Route, node: int) -> Fetcher:
        key = (id(route.source), node)
        fetcher = self._workers.fetchers.get(key)
        if fetcher is None:
            fetcher = Fetcher(route.source, node, self._limits(route), self._attend)
            self._workers.fetchers[key] = fetcher
            self._spawn(fetcher.run())
        return fetcher

    def _limits(self, route: Route) -> FetchLimits:
        consumer = self._ends[route.copy.spec.partition.link].consumer
        return self._workers.limits.setdefault(
            id(route.source),
            FetchLimits(
                self._budget,
                self._workers.fetchers,
                consumer.fetch_max_bytes,
                consumer.max_partition_fetch_bytes,
                consumer.fetch_max_wait_ms,
            ),
        )

    def _sender(self, route: Route, node: int) -> Sender:
        key = (id(route.target), node)
        sender = self._workers.senders.get(key)
        if sender is None:
            producer = self._ends[route.copy.spec.partition.link].producer
            sender = self._workers.senders[key] = Sender(
                route.target,
                node,
                request_bytes=producer.max_request_size,
                in_flight=producer.max_in_flight_requests_per_connection,
                on_settled=self._attend,
            )
            self._spawn(sender.run())
        return sender

    async def _keep_routed(self) -> None:
        """Whoever has no leader waits for one: ask again until there is. And look at all now and then: a topic that is
        deleted, or recreated, makes no noise while nothing is copied."""
        looked_at = 0.0
        while True:
            await asyncio.sleep(ROUTE_INTERVAL_S)
            now = asyncio.get_running_loop().time()
            look = now - looked_at >= LOOK_INTERVAL_S
            looked_at = now if look else looked_at
            routes = [r for r in self._routes.values() if look or not (r.source_leader and r.target_leader)]
            active = [r for r in routes if r.copy.phase not in (Phase.STOPPED, Phase.RETIRED)]
            ends = {id(end): end for r in active for end in (r.source, r.target)}
            await asyncio.gather(*(quietly(end.refresh()) for end in ends.values()))
            self.reroute()

    # -- what a copy needs next

    def _attend(self, copy: PartitionCopy) -> None:
        """Something happened to this copy: see to what it may do now."""
        self._answer.set()
        route = self._routes.get(copy.spec.partition)
        if route is None or route.copy is not copy or self._draining:
            return
        if copy.phase is Phase.STOPPED:
            if route.source_leader is not None:
                self._fetcher(route, route.source_leader.node).discard(copy)
            return
        if copy.wants_resync:
            if route.resync is None or route.resync.done():
                route.resync = self._spawn(self._resynchronise(route))
            return
        if copy.peek() is not None and route.target_leader is not None:
            self._sender(route, route.target_leader.node).offer(copy)
        if route.source_leader is not None and copy.fetch_offset() is not None:
            self._fetcher(route, route.source_leader.node).wake()

    async def _resynchronise(self, route: Route) -> None:
        await self._resynchroniser.run(route)
        self._attend(route.copy)

    # -- tasks

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._failed(problem)
