"""Planted bugs, second part: what was mended lately is broken again, by a small patch of the production code."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

from heliograph.cluster import by_leader, metadata
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.fetch_session import FetchSession
from heliograph.cluster.metadata import Leader
from heliograph.controller.placement import Order, Placement
from heliograph.copier import fetcher, resynchroniser, spec
from heliograph.copier.budget import ByteBudget, Share
from heliograph.copier.fetcher import Fetcher
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.resynchroniser import Resynchroniser
from heliograph.copier.route import Route
from heliograph.copier.source_fetches import SourceFetches
from heliograph.copier.source_queue import SourceQueue
from heliograph.copier.vigil import Vigil
from heliograph.engine.lanes import Lanes
from heliograph.model import clock
from heliograph.model.errors import BrokerRefused
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.fetch import FetchReply, FetchWant
from heliograph.wire.fetch_request import FIRST_EPOCH

from .mended_plans import (
    broken_at_the_source,
    broken_at_the_target,
    crammed,
    evicted,
    forgetful,
    frozen,
    killed,
    losing_fetches,
    paused,
    polled_long,
    replaced,
    rivals,
    starving,
    stuttering,
    throttled,
    trickling,
    unaware,
    without_ids,
    without_rights,
)
from .planted_bug import Planted
from .rare_plans import BURSTS, loud, of_kinds
from .switched_off import true


def _awaits(*, clear: bool) -> property:
    """As it was when what waits was held in memory."""
    return property(
        lambda copy: copy._waiting.head is not None and copy._waiting.head.perishable and copy.clear is clear
    )


def _wants_while_left(copy: PartitionCopy) -> bool:
    in_flight = any(each.perishable for each in copy._in_flight)
    return copy._waiting.left_old or copy._waiting.has_old or in_flight


def _one_slot(resynchroniser: Resynchroniser, *_: Any) -> asyncio.Semaphore:
    return resynchroniser._slots.setdefault((0, 0), asyncio.Semaphore(1))


def _filled_bytes(reply: FetchReply) -> int:
    return sum(len(part.records) for part in reply.partitions)


async def _failed_at_nothing_known(worker: Fetcher, *what: Any) -> None:
    worker._delivery._compares_epochs = False
    await _failed(worker, *what)


def _leave_and_join_nothing(fetches: SourceFetches, copy: PartitionCopy, to: Fetcher) -> None:
    fetcher, _ = fetches._fetchers[copy]
    if fetcher is not to:
        fetcher.discard(copy)


def _orders_until_at_rest(placement: Placement, *what: Any) -> list[Order]:
    if placement.__dict__.get("_rested"):
        return []
    orders = _orders(placement, *what)
    placement.__dict__["_rested"] = placement._at_rest
    return orders


async def _never(_: Fetcher) -> None:
    await asyncio.Event().wait()


def _refused_and_gone_on(session: FetchSession, code: int) -> bool:
    """As if the request that got no answer had been heard."""
    unheard = code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    session._epoch = session._epoch + 1 if unheard else FIRST_EPOCH
    return True


def _want_unless_forgotten(session: FetchSession, want: FetchWant) -> None:
    if want[:2] not in session._known or want[:2] in session._wanted:
        _want(session, want)


def _believe_any_time(copy: PartitionCopy, base_offset: int, _append_time: int = -1) -> None:
    _appended(copy, base_offset)


def _leader_whatever_the_error(client: ClusterClient, where: TopicPartition) -> Leader:
    try:
        return _leader_of(client, where)
    except BrokerRefused as refused:
        if refused.code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise
        raise BrokerRefused(f"{where} has no leader", code=ErrorCode.LEADER_NOT_AVAILABLE) from refused


_leader_of = by_leader.leader_of
_failed, _appended, _want = Fetcher._failed, PartitionCopy.appended, FetchSession.want
_orders = Placement.orders

MENDED = (
    Planted(
        rule="memory, old",
        without="old records that may not be sent yet are held in memory",
        patches=lambda: [
            patch.object(SourceQueue, "_would_go", lambda *_: False),
            patch.object(PartitionCopy, "leased", lambda *_, **__: None),
            patch.object(PartitionCopy, "awaits_clearance", _awaits(clear=False)),
            patch.object(PartitionCopy, "awaits_lease", _awaits(clear=True)),
        ],
        change=starving,
    ),
    Planted(
        rule="memory, bound",
        without="a lane fetches whether or not there is room",
        patches=lambda: [
            patch.object(ByteBudget, "_fits", true),
            patch.object(Share, "full", property(lambda _: False)),
        ],
        change=crammed,
    ),
    Planted(
        rule="memory, whole",
        without="of a buffer only what is filled is counted",
        patches=lambda: [patch.object(fetcher, "resident_bytes", _filled_bytes)],
        change=trickling,
    ),
    Planted(
        rule="lease, kept",
        without="a lease is wanted no more while what it came for is being fetched, behind others' long poll",
        patches=lambda: [
            patch.object(PartitionCopy, "wants_exclusion", property(_wants_while_left)),
            patch.object(Fetcher, "run_aside", _never),
            patch.object(SourceFetches, "_move", lambda *_: None),  # else few have others in their poll
        ],
        change=polled_long,
    ),
    Planted(
        rule="session, lost",
        without="a fetch session goes on after a request that got no answer",
        patches=lambda: [
            patch.object(FetchSession, "lost", lambda _: None),
            patch.object(FetchSession, "refused", _refused_and_gone_on),
        ],
        change=losing_fetches,
    ),
    Planted(
        rule="session, forgotten",
        without="a partition that was forgotten in a fetch session is never asked for again",
        patches=lambda: [patch.object(FetchSession, "want", _want_unless_forgotten)],
        change=lambda plan: of_kinds(plan, "fresh", rhythm=BURSTS),
    ),
    Planted(
        rule="session, evicted",
        without="a fetch session that the broker has dropped is asked for again and again",
        patches=lambda: [patch.object(FetchSession, "refused", lambda *_: False)],
        change=evicted,
    ),
    Planted(
        rule="session, busy",
        without="a partition that leaves the session of the calm ones is taken into no other",
        patches=lambda: [patch.object(SourceFetches, "_move", _leave_and_join_nothing)],
        change=lambda plan: plan,
    ),
    Planted(
        rule="placement, rest",
        without="what was all in its place once is never looked at again",
        patches=lambda: [patch.object(Placement, "orders", _orders_until_at_rest)],
        change=killed,
    ),
    Planted(
        rule="aside",
        without="a partition that has resynchronised waits for the end of the others' long poll",
        patches=lambda: [patch.object(Fetcher, "run_aside", _never)],
        change=broken_at_the_target,
    ),
    Planted(
        rule="quota",
        without="a lane that a quota holds up is taken for one that hangs",
        patches=lambda: [patch.object(PartitionCopy, "throttled", lambda *_: None)],
        change=throttled,
    ),
    Planted(
        rule="questions, each",
        without="questions to a broker that hangs hold those to others up",
        patches=lambda: [patch.object(Resynchroniser, "_slot", _one_slot)],
        change=frozen,
    ),
    Planted(
        rule="questions, moved",
        without="an answer is awaited of a broker that does not lead any more",
        patches=lambda: [patch.object(Route, "leader_moved", lambda route: route.moved.set())],
        change=replaced,
    ),
    Planted(
        rule="source line",
        without="a broken connection to the source makes every partition ask the target again",
        patches=lambda: [patch.object(Fetcher, "_failed", _failed_at_nothing_known)],
        change=broken_at_the_source,
    ),
    Planted(
        rule="stamped",
        without="nobody looks whether the target writes its own time into batches",
        patches=lambda: [
            patch.object(PartitionCopy, "appended", _believe_any_time),
            patch.object(Vigil, "_by_target", lambda _: {}),
        ],
        change=lambda plan: loud(plan, "target stamps its time"),
    ),
    Planted(
        rule="rival",
        without="who loses a race over old records goes on",
        patches=lambda: [patch.object(PartitionCopy, "_note_race", lambda *_: None)],
        change=rivals,
    ),
    Planted(
        rule="forgetful",
        without="brokers that forget soon are relied on to compare appends",
        patches=lambda: [patch.object(spec, "is_guarded", true)],
        change=forgetful,
    ),
    Planted(
        rule="8, without ids",
        without="a topic without an id whose epochs begin anew is taken for the same",
        patches=lambda: [patch.object(metadata, "OLDER_LIMIT_S", float("inf"))],
        change=without_ids,
    ),
    Planted(
        rule="pause, lane",
        without="a jump of the time of day ends no lease",
        patches=lambda: [patch.object(clock, "JUMP_S", float("inf"))],
        change=paused,
    ),
    Planted(
        rule="pause, driver",
        without="lanes do not count the time for a driver whose machine is paused",
        patches=lambda: [patch.object(Lanes, "_check_clock", lambda *_: None)],
        change=stuttering,
    ),
    Planted(
        rule="rights",
        without="a topic that we may not see is taken for one without leaders",
        patches=lambda: [patch.object(by_leader, "leader_of", _leader_whatever_the_error)],
        change=without_rights,
    ),
    Planted(
        rule="missing",
        without="a topic is taken for gone because two answers far apart say so",
        patches=lambda: [patch.object(resynchroniser, "_nobody_says", lambda _: None)],
        change=unaware,
    ),
)
