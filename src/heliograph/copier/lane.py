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
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from heliograph.cluster.metadata import Leader
from heliograph.cluster.properties import ClientProperties
from heliograph.copier import resync
from heliograph.copier.budget import ByteBudget, Shares
from heliograph.copier.fetcher import Fetcher, FetchLimits
from heliograph.copier.partition_copy import PartitionCopy, Phase
from heliograph.copier.passage import corrupt
from heliograph.copier.ports import SourcePort, TargetPort
from heliograph.copier.recovery import stop_for_read
from heliograph.copier.sender import Sender
from heliograph.copier.spec import CopySpec
from heliograph.model.errors import (
    BrokerRefused,
    CorruptBatch,
    HeliographError,
    PartitionStop,
    ProtocolError,
    RequestFailed,
)
from heliograph.model.partition import MirrorPartition

RESYNCS_AT_ONCE = 32  # questions under way
UNSETTLED_WAIT_S = 0.05
RETRY_FIRST_S = 0.1
RETRY_MAX_S = 5.0
RETRY_FORGOTTEN_S = 30.0
ROUTE_INTERVAL_S = 0.5


@dataclass(slots=True)
class _Route:
    """Where a copy's records come from and go to now."""

    copy: PartitionCopy
    source: SourcePort
    target: TargetPort
    source_leader: Leader | None = None
    target_leader: Leader | None = None
    resync: asyncio.Task[None] | None = None
    resynced_offset: int = -1  # where the copy was at the last resynchronisation,
    resynced_at: float = float("-inf")  # and when that was
    fruitless: int = 0  # how many followed each other with nothing copied in between


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
        self._routes: dict[MirrorPartition, _Route] = {}
        self._workers = _Workers()
        self._tasks: set[asyncio.Task[None]] = set()
        self._resyncs = asyncio.Semaphore(RESYNCS_AT_ONCE)
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
        self._routes[spec.partition] = route = _Route(copy, ends.source, ends.target)
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

    def _retire(self, route: _Route) -> None:
        for fetcher in self._workers.fetchers.values():
            fetcher.discard(route.copy)
        for sender in self._workers.senders.values():
            sender.discard(route.copy)
        if route.resync is not None:
            route.resync.cancel()
        route.copy.retire()

    async def _settled(self, route: _Route) -> None:
        while not route.copy.settled:
            self._answer.clear()
            await self._answer.wait()

    # -- routing

    def reroute(self) -> None:
        """Leaders may have moved: metadata is new."""
        if not self._draining:
            for route in list(self._routes.values()):
                self._route(route)

    def _route(self, route: _Route) -> None:
        copy = route.copy
        if copy.phase in (Phase.STOPPED, Phase.RETIRED):
            return
        source_leader = route.source.leader(copy.spec.partition.source)
        target_leader = route.target.leader(copy.spec.partition.target)
        if source_leader != route.source_leader:
            self._move_fetches(route, source_leader)
        if target_leader != route.target_leader:
            self._move_appends(route, target_leader)

    def _move_fetches(self, route: _Route, leader: Leader | None) -> None:
        if route.source_leader is not None:
            self._fetcher(route, route.source_leader.node).discard(route.copy)
            route.copy.interrupted(HeliographError("the source partition has a new leader"))
        route.source_leader = leader
        if leader is not None:
            self._fetcher(route, leader.node).add(route.copy)
        self._attend(route.copy)

    def _move_appends(self, route: _Route, leader: Leader | None) -> None:
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

    def _fetcher(self, route: _Route, node: int) -> Fetcher:
        key = (id(route.source), node)
        fetcher = self._workers.fetchers.get(key)
        if fetcher is None:
            limits = self._limits(route)
            limits.fetchers += 1
            fetcher = self._workers.fetchers[key] = Fetcher(route.source, node, limits, self._attend)
            self._spawn(fetcher.run())
        return fetcher

    def _limits(self, route: _Route) -> FetchLimits:
        consumer = self._ends[route.copy.spec.partition.link].consumer
        return self._workers.limits.setdefault(
            id(route.source),
            FetchLimits(
                self._budget,
                consumer.fetch_max_bytes,
                consumer.max_partition_fetch_bytes,
                consumer.fetch_max_wait_ms,
            ),
        )

    def _sender(self, route: _Route, node: int) -> Sender:
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
        """Whoever has no leader waits for one: ask again until there is."""
        while True:
            await asyncio.sleep(ROUTE_INTERVAL_S)
            lost = [r for r in self._routes.values() if r.source_leader is None or r.target_leader is None]
            active = [r for r in lost if r.copy.phase not in (Phase.STOPPED, Phase.RETIRED)]
            for end in {id(end): end for r in active for end in (r.source, r.target)}.values():
                await _quietly(end.refresh())
            self.reroute()

    # -- what a copy needs next

    def _attend(self, copy: PartitionCopy) -> None:
        """Something happened to this copy: see to what it may do now."""
        self._answer.set()
        route = self._routes.get(copy.spec.partition)
        if route is None or route.copy is not copy or self._draining:
            return
        if copy.wants_resync:
            if route.resync is None or route.resync.done():
                route.resync = self._spawn(self._resynchronise(route))
            return
        if copy.peek() is not None and route.target_leader is not None:
            self._sender(route, route.target_leader.node).offer(copy)
        if route.source_leader is not None and copy.fetch_offset() is not None:
            self._fetcher(route, route.source_leader.node).wake()

    async def _resynchronise(self, route: _Route) -> None:
        copy = route.copy
        while copy.wants_resync:
            await asyncio.sleep(self._pause_s(route))
            interruptions = copy.interruptions
            try:
                next_offset = await self._ask(route)
            except PartitionStop as stop:
                copy.stop(stop)
            except CorruptBatch as problem:
                copy.stop(corrupt(problem))
            except (RequestFailed, ProtocolError) as problem:
                await self._failed_to_ask(route, problem)
            else:
                if copy.interruptions == interruptions:  # else the answers are out of date
                    copy.synced(next_offset)
        if route.source_leader is not None:
            self._fetcher(route, route.source_leader.node).wake()

    def _pause_s(self, route: _Route) -> float:
        """Nothing at first; then longer and longer, if they follow each other and nothing is copied in between."""
        now = asyncio.get_running_loop().time()
        advanced = (route.copy.next_offset or 0) > route.resynced_offset
        forgotten = now - route.resynced_at > RETRY_FORGOTTEN_S
        route.fruitless = 0 if advanced or forgotten else route.fruitless + 1
        route.resynced_offset, route.resynced_at = route.copy.next_offset or 0, now
        if route.fruitless <= 1:
            return 0.0
        pause_s = min(RETRY_FIRST_S * (1 << min(route.fruitless - 2, 10)), RETRY_MAX_S)
        return pause_s * random.uniform(0.8, 1.2)

    async def _failed_to_ask(self, route: _Route, problem: RequestFailed | ProtocolError) -> None:
        stop = stop_for_read(problem) if isinstance(problem, BrokerRefused) else None
        if stop is not None:
            route.copy.stop(stop)
            return
        route.copy.trouble = problem
        await asyncio.gather(_quietly(route.source.refresh()), _quietly(route.target.refresh()))
        self._route(route)

    async def _ask(self, route: _Route) -> int:
        questions = resync.resynchronise(route.copy.spec)
        answer: resync.Answer = None
        while True:
            try:
                question = questions.send(answer)
            except StopIteration as done:
                return int(done.value)
            if isinstance(question, resync.Unsettled):
                await asyncio.sleep(UNSETTLED_WAIT_S)  # without a slot: others ask meanwhile
                answer = None
            else:
                async with self._resyncs:
                    answer = await self._perform(route, question)

    async def _perform(self, route: _Route, question: resync.Question) -> resync.Answer:
        spec, source, target = route.copy.spec, route.source, route.target
        match question:
            case resync.ReadProducer():
                return await target.producer(spec.partition.target, spec.producer_id)
            case resync.ReadTargetLog():
                return await target.span(spec.partition.target)
            case resync.ReadTargetBatch(offset):
                return await target.batch_at(spec.partition.target, offset)
            case resync.ReadSourceLog():
                return await source.span(spec.partition.source)
            case resync.ReadSourceBatch(offset):
                return await source.batch_at(spec.partition.source, offset)
            case resync.Unsettled():
                return None

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


async def _quietly(refresh: Awaitable[None]) -> None:
    try:
        await refresh
    except (RequestFailed, ProtocolError):
        return  # still unreachable: whoever needs it finds out and waits
