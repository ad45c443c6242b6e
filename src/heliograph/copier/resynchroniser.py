"""Drives resynchronisations: asks the questions of copier/resync.py, with pauses and a bound on how many at once.

The bound is each broker's own: a broker that hangs holds up those that ask it, and nobody else (P7).

A resynchronisation has no side effects, so whatever fails is begun again: after a pause that grows for as long as
nothing is copied in between, and with fresh metadata. Answers that a moved leader made out of date are thrown away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from heliograph.cluster.empty_transactions import FillProducer
from heliograph.copier import questions
from heliograph.copier.passage import corrupt
from heliograph.copier.recovery import NEVER_BEGUN, stop_for_read
from heliograph.copier.resync import Synced, resynchronise
from heliograph.copier.route import Route
from heliograph.copier.surroundings import Surroundings
from heliograph.model.errors import (
    BrokerRefused,
    CorruptBatch,
    PartitionStop,
    ProtocolError,
    RequestFailed,
)
from heliograph.model.events import Event, Trouble
from heliograph.model.fill_way import FillWay
from heliograph.model.hints import THEN_RESUME_TOPIC
from heliograph.model.states import StopReason
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.kernels import loading

QUESTIONS_AT_ONCE = 32  # to one broker
NOBODY = -1
COORDINATION = frozenset(  # what a coordinator of transactions answers that passes by itself
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
UNSETTLED_WAIT_S = 0.05
UNSETTLED_TOLD_AFTER = 40  # rounds: two seconds
TOLD_AFTER = 3  # tries: what the next one mends, a leader that is not known yet, say, is no trouble
RETRY_FIRST_S = 0.1
RETRY_MAX_S = 5.0
RETRY_FORGOTTEN_S = 30.0
MISSING_LIMIT_S = 15.0
KERNELS_LOOK_S = 0.05
TIME_LOOK_S = 1.0


class Resynchroniser:
    """`on_refreshed(route)` is called when metadata was read again."""

    def __init__(self, on_refreshed: Callable[[Route], None], surroundings: Surroundings) -> None:
        self._on_refreshed = on_refreshed
        self._uniform = surroundings.uniform  # for the pauses
        self._wall_ms = surroundings.wall_ms
        self._slots: dict[tuple[int, int], asyncio.Semaphore] = {}  # by port and node

    async def run(self, route: Route) -> None:
        """Until the copy knows where it stands, or has stopped."""
        copy = route.copy
        while copy.wants_resync:
            await _pause(route, self._uniform)
            if copy.stale or copy.unsure:
                await self._refresh(route)
            if not copy.wants_resync:  # stopped meanwhile: the topic is another one, say
                return
            interruptions = copy.interruptions
            try:
                found = await self._ask_until_moved(route)
            except PartitionStop as stop:
                if copy.interruptions == interruptions:  # else the answers were of two leaders
                    await self._doubt(route, stop)
            except CorruptBatch as problem:
                copy.stop(corrupt(problem))
            except (RequestFailed, ProtocolError) as problem:
                await self._failed(route, problem)
            else:
                route.missing_since = None
                if (
                    found is not None and copy.interruptions == interruptions
                ):  # else the answers are out of date
                    route.doubted = False
                    copy.synced(found, self._wall_ms())

    async def _ask_until_moved(self, route: Route) -> Synced | None:
        """None: a leader has moved meanwhile, and whoever was asked need not be waited for."""
        route.asking = asyncio.get_running_loop().create_task(self._ask(route))
        try:
            return await route.asking
        except asyncio.CancelledError:
            us = asyncio.current_task()
            if us is not None and us.cancelling():
                raise
            route.fruitless = 0  # the new leader is asked at once
            return None
        finally:
            route.asking = None

    async def _ask(self, route: Route) -> Synced:
        copy = route.copy
        search = copy.searches.of(route.source_leader)
        asking = resynchronise(copy.spec, gaps_filled=copy.gaps_filled, search=search)
        answer: questions.Answer = None
        unsettled = 0
        while True:
            try:
                question = asking.send(answer)
            except StopIteration as done:
                found: Synced = done.value
                return found
            if isinstance(question, questions.Unsettled):
                unsettled += 1
                await _wait_to_settle(route, unsettled)
                answer = None
            elif isinstance(question, questions.LoadKernels):
                await _kernels()  # not in a slot that others wait for
                answer = None
            elif isinstance(question, questions.AwaitTime):
                answer = await _await_time(route, question, self._wall_ms())
            elif isinstance(question, questions.FenceFills):
                # In no slot of the partition's leader: a coordinator that hangs holds up those that need it (P7).
                answer = await _fence(route)
            else:
                async with self._slot(route, question):
                    answer = await _perform(route, question, self._wall_ms)
                if search.progress is not None:
                    copy.searched()

    def _slot(self, route: Route, question: questions.Question) -> asyncio.Semaphore:
        of_source = isinstance(question, questions.OF_SOURCE)
        port, leader = (
            (route.source, route.source_leader) if of_source else (route.target, route.target_leader)
        )
        key = (id(port), leader.node if leader is not None else NOBODY)
        return self._slots.setdefault(key, asyncio.Semaphore(QUESTIONS_AT_ONCE))

    async def _failed(self, route: Route, problem: RequestFailed | ProtocolError) -> None:
        stop = _stop_for(route, problem)
        if stop is not None:
            route.copy.stop(stop)
            return
        if route.fruitless >= TOLD_AFTER:
            route.copy.troubled(Trouble(_event_of(problem), problem.message))
        await self._refresh(route)

    async def _doubt(self, route: Route, stop: PartitionStop) -> None:
        """A broker that was the leader a moment ago may have told its old sequence: ask who leads now, once."""
        if stop.reason != StopReason.SEQUENCE or route.doubted:
            route.copy.stop(stop)
            return
        route.doubted = True
        await self._refresh(route)

    async def _refresh(self, route: Route) -> None:
        route.copy.refreshed()
        heard = await asyncio.gather(quietly(route.source.refresh), quietly(route.target.refresh))
        if not all(heard):
            _nobody_says(route)  # what is known may be the last answer still, again and again
        else:
            route.copy.sure_of_metadata()
        self._on_refreshed(route)


async def _pause(route: Route, uniform: Callable[[float, float], float]) -> None:
    """Nothing at first; then longer and longer, if they follow each other and nothing is copied in between."""
    now = asyncio.get_running_loop().time()
    advanced = (route.copy.next_offset or 0) > route.resynced_offset
    forgotten = now - route.resynced_at > RETRY_FORGOTTEN_S
    route.fruitless = 0 if advanced or forgotten else route.fruitless + 1
    route.resynced_offset, route.resynced_at = route.copy.next_offset or 0, now
    if route.fruitless <= 1:
        return
    pause_s = min(RETRY_FIRST_S * (1 << min(route.fruitless - 2, 10)), RETRY_MAX_S)
    route.moved.clear()
    try:
        async with asyncio.timeout(pause_s * uniform(0.8, 1.2)):
            await route.moved.wait()
    except TimeoutError:
        return


async def _wait_to_settle(route: Route, rounds: int) -> None:
    """Without a slot, so that others ask meanwhile; and not mute for ever."""
    if rounds >= UNSETTLED_TOLD_AFTER:
        words = "the last records are not on all in-sync replicas yet, or somebody else is writing"
        route.copy.troubled(Trouble(Event.UNSETTLED, words))
    await asyncio.sleep(UNSETTLED_WAIT_S)


async def _await_time(route: Route, question: questions.AwaitTime, now_ms: int) -> bool:
    """Without a slot, and not mute."""
    record = question.record
    if record.time_ms > now_ms + question.most_ahead_ms:
        return False
    words = (
        f"all is filled but the last offset, which waits: the record at offset {record.offset} of the target is dated"
        f" {datetime.fromtimestamp(record.time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC, and brokers begin a new segment"
        " some seconds after that"
    )
    route.copy.troubled(Trouble(Event.TIME_WAIT, words, record.offset))
    await asyncio.sleep(TIME_LOOK_S)
    return True


async def _perform(
    route: Route, question: questions.Question, wall_ms: Callable[[], int]
) -> questions.Answer:
    spec, source, target = route.copy.spec, route.source, route.target
    match question:
        case questions.ReadProducers():
            return await target.producers(spec.partition.target)
        case questions.ReadTargetLog():
            return await target.span(spec.partition.target)
        case questions.ReadTargetBatches(first_offset, next_offset):
            return await target.batches_in(spec.partition.target, first_offset, next_offset)
        case questions.ReadTargetSince(age_ms):
            return await target.first_since(spec.partition.target, wall_ms() - age_ms)
        case questions.ReadTargetSegmentEnd(offset):
            return await target.segment_end(spec.partition.target, offset)
        case questions.ReadSourceLog():
            return await source.span(spec.partition.source)
        case questions.ReadSourceBatch(offset):
            return await source.batch_at(spec.partition.source, offset)
        case questions.ReadSourceBatches(first_offset, next_offset):
            return await source.batches_in(spec.partition.source, first_offset, next_offset)
        case questions.ReadSourceGap(first_offset, next_offset, committed):
            return await source.batches_in(
                spec.partition.source, first_offset, next_offset, committed=committed
            )
        case questions.FenceFills() | questions.LoadKernels() | questions.Unsettled() | questions.AwaitTime():
            raise AssertionError("no question to a partition's leader")


async def _fence(route: Route) -> FillProducer | None:
    """What the coordinator gave us before, if nothing is unknown of what was done with it."""
    copy = route.copy
    if copy.fill_producer is not None:
        return copy.fill_producer
    try:
        producer = await route.target.fence_fills(copy.spec.transactional_id)
    except BrokerRefused as refused:
        # Who fills gaps in another way only wants to know which markers are ours.
        if copy.spec.fill_way is FillWay.TRANSACTIONS or refused.code not in NEVER_BEGUN:
            raise
        return None
    copy.fenced(producer)
    return producer


def _event_of(problem: RequestFailed | ProtocolError) -> Event:
    if not isinstance(problem, BrokerRefused):
        return Event.BROKER_AWAY
    return Event.GAP_UNFILLED if problem.code in COORDINATION else Event.LEADER_MOVED


async def _kernels() -> None:
    """What compares records must be loaded. That takes seconds where they are compiled first."""
    loading.start()
    while loading.loaded() is None:
        failure = loading.failure()
        if failure is not None:
            raise PartitionStop(
                StopReason.KERNELS,
                "the target's last batches have other borders than the source's, and this machine cannot compare them:"
                f" {failure}",
                hint="python -m heliograph.wire.kernels  # on the lane's machine: says what the compiled kernels lack",
            )
        await asyncio.sleep(KERNELS_LOOK_S)


def _nobody_says(route: Route) -> None:
    """A cluster does not answer: that a topic was missing all the time is not known."""
    route.missing_since = None


def _stop_for(route: Route, problem: RequestFailed | ProtocolError) -> PartitionStop | None:
    """What no further try can mend: missing rights, a broker that is too old, a topic that is gone for good."""
    if not isinstance(problem, BrokerRefused):
        _nobody_says(route)
        return None
    if problem.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        route.missing_since = None
        return stop_for_read(problem)
    now = asyncio.get_running_loop().time()
    if route.missing_since is None or route.missing != problem.message:  # the other cluster's is another one
        route.missing_since, route.missing = now, problem.message
    if now - route.missing_since < MISSING_LIMIT_S:
        return None  # a new topic is not known to all brokers at once
    return PartitionStop(
        StopReason.RECREATED,
        f"the topic is gone: {problem.message}",
        hint="if it was deleted on purpose, exclude it; else find out who deleted it, create it again if it is the"
        " source's (the mirror creates a target topic)" + THEN_RESUME_TOPIC,
    )


async def quietly(refresh: Callable[[], Awaitable[None]]) -> bool:
    """Whether it was answered."""
    try:
        await refresh()
    except (RequestFailed, ProtocolError):
        return False  # still unreachable: whoever needs it finds out and waits
    return True
