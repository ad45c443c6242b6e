"""One question about many partitions: to each leader, in portions, and to all brokers at once.

Every question goes to the leader of current metadata with its epoch, so that a broker that is no longer the leader
refuses (FENCED_LEADER_EPOCH, NOT_LEADER) rather than answer from an old log. What is refused, or has no answer, is
said of the partitions that it is about, and of no others (P7). Must not know what is asked.
"""

from __future__ import annotations

import contextlib
from asyncio import gather
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TypeVar

from heliograph.cluster.at_most import at_most
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.metadata import Leader
from heliograph.model.errors import BrokerRefused, Disconnected, ProtocolError, RequestFailed
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

# Partitions in one request: to make and read one takes 2 ms, for which nothing else runs on the event loop.
PORTION = 500
# Requests to one broker that wait for their answers: it works on one, the next is there when that is done.
PORTIONS_AT_ONCE = 2

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
Problem = RequestFailed | ProtocolError
Epochs = Mapping[TopicPartition, int]  # of the leader that is asked
Ask = Callable[[int, Epochs], Awaitable[Mapping[TopicPartition, T | Problem]]]
Look = Callable[[Collection[TopicPartition]], Awaitable[Mapping[TopicPartition, T | Problem]]]


def leader_of(client: ClusterClient, where: TopicPartition) -> Leader:
    leader = client.leader(where)
    topic = client.metadata.topics.get(where.topic)
    if topic is not None and topic.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise BrokerRefused(f"cluster {client.name!r} has no topic {where.topic}", code=topic.error)
    if topic is not None and topic.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        raise BrokerRefused(
            f"cluster {client.name!r} does not let us see topic {where.topic}:"
            f" {ErrorCode.name_of(topic.error)}",
            code=topic.error,
        )
    if leader is None:
        raise BrokerRefused(
            f"{where} of cluster {client.name!r} has no leader", code=ErrorCode.LEADER_NOT_AVAILABLE
        )
    return leader


async def ask_leaders(
    client: ClusterClient, wheres: Iterable[TopicPartition], ask: Ask[T], *, most: int = PORTION
) -> dict[TopicPartition, T | Problem]:
    """`ask(node, epochs)` asks one broker about at most so many partitions that it leads, each with its leader's epoch,
    and has an answer for each of them."""
    found: dict[TopicPartition, T | Problem] = {}
    led: defaultdict[int, list[tuple[TopicPartition, int]]] = defaultdict(list)
    for where in wheres:
        try:
            leader = leader_of(client, where)
        except BrokerRefused as refused:
            found[where] = refused
        else:
            led[leader.node].append((where, leader.epoch))
    for answers in await gather(*(_ask_broker(node, asked, ask, most) for node, asked in led.items())):
        found |= answers
    return found


async def _ask_broker(
    node: int, asked: list[tuple[TopicPartition, int]], ask: Ask[T], most: int
) -> dict[TopicPartition, T | Problem]:
    """A broker that is away, or hangs, is not waited for once more for each portion."""
    away: RequestFailed | None = None

    async def answers(portion: dict[TopicPartition, int]) -> Mapping[TopicPartition, T | Problem]:
        nonlocal away
        if away is not None:
            return dict.fromkeys(portion, away)
        try:
            return await ask(node, portion)
        except (RequestFailed, ProtocolError) as problem:
            if isinstance(problem, RequestFailed) and not isinstance(problem, BrokerRefused):
                away = problem
            return dict.fromkeys(portion, problem)

    portions = [dict(asked[first : first + most]) for first in range(0, len(asked), most)]
    found: dict[TopicPartition, T | Problem] = {}
    for each in await at_most(PORTIONS_AT_ONCE, [partial(answers, portion) for portion in portions]):
        found |= each
    return found


def led_together(client: ClusterClient, wheres: Iterable[TopicPartition]) -> list[list[TopicPartition]]:
    """Those of one leader, and those without."""
    groups: defaultdict[int | None, list[TopicPartition]] = defaultdict(list)
    for where in wheres:
        leader = client.leader(where)
        groups[leader.node if leader is not None else None].append(where)
    return list(groups.values())


async def look_twice(
    client: ClusterClient, wheres: Collection[TopicPartition], look: Look[T]
) -> dict[TopicPartition, T | Problem]:
    """What may pass is looked at once more from the beginning, when metadata was read again: leaders move."""
    found = dict(await look(wheres))
    stale = [where for where, answer in found.items() if _may_pass(answer)]
    if stale:
        with contextlib.suppress(RequestFailed, ProtocolError):
            await client.refresh()
        found |= await look(stale)
    return found


def _may_pass(answer: object) -> bool:
    """Of a broker that does not answer in time nothing is expected: to wait once more would take as long."""
    if isinstance(answer, BrokerRefused):
        return ErrorCode.passes(answer.code)
    return isinstance(answer, Disconnected)


def answered(found: Mapping[K, V | Problem]) -> dict[K, V]:
    """Those with an answer."""
    return {key: each for key, each in found.items() if not isinstance(each, (RequestFailed, ProtocolError))}


def unanswered(found: Mapping[K, V | Problem]) -> dict[K, Problem]:
    """Those without, and why."""
    return {key: each for key, each in found.items() if isinstance(each, (RequestFailed, ProtocolError))}


def answer_about(where: TopicPartition, found: Mapping[TopicPartition, T | Problem]) -> T:
    """The answer, or what is in the way of one is raised."""
    answer = found[where]
    if isinstance(answer, (RequestFailed, ProtocolError)):
        raise answer
    return answer
