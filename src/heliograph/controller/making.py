"""What a plan wants to be made on the target before anything is copied there: topics, and partitions of topics.

What fails for now, because a broker is away or has no time, is tried again for a while, and then waits; what the target
refuses is refused, each topic for itself (P7). Many are made at once: each waits for leaders.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from heliograph.cluster.admin import describe_topic_configs
from heliograph.cluster.at_most import at_most
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.grants import Resource, Right, grant_line
from heliograph.controller.act import Made, create, grow
from heliograph.controller.build_settings import phase_of
from heliograph.controller.plan import AddPartitions, CreateTopic, Plan
from heliograph.model.admission import Refused
from heliograph.model.clock import clock_of_waits
from heliograph.model.errors import BrokerRefused, ProtocolError, RequestFailed
from heliograph.model.hints import AFRESH, RESUME_TOPIC, THEN_RESUME_TOPIC
from heliograph.model.states import BuildPhase, StopReason
from heliograph.wire.error_codes import ErrorCode

MADE_AT_ONCE = 16
TRIED_FOR_S = 10.0  # a new controller is elected in less; other topics of the plan wait meanwhile
TRY_AGAIN_S = 0.5
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """It could not be made for now, for this reason."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`created`, `grown`: by us, just now. `not_created`, `not_grown`: by target topic. `warnings`: for operators."""

    created: tuple[CreateTopic, ...] = ()
    grown: tuple[AddPartitions, ...] = ()
    not_created: dict[str, Refused | Waits] = field(default_factory=dict)
    not_grown: dict[str, Refused | Waits] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


async def make(client: ClusterClient, todo: Plan, mirrored: Collection[str]) -> Outcome:
    """`mirrored`: target topics that this run has copied to before. One that is gone was deleted under it, and is not
    made again."""
    creations = [each for each in todo.creations if each.topic not in mirrored]
    created = await at_most(MADE_AT_ONCE, [partial(_created, client, each) for each in creations])
    grown = await at_most(MADE_AT_ONCE, [partial(_grown, client, each) for each in todo.growths])
    made = [
        (each, answer) for each, answer in zip(creations, created, strict=True) if isinstance(answer, Made)
    ]
    failed = {
        each.topic: answer
        for each, answer in zip(creations, created, strict=True)
        if not isinstance(answer, Made)
    }
    failed |= {each.topic: deleted(each.topic) for each in todo.creations if each.topic in mirrored}
    return Outcome(
        created=tuple(each for each, answer in made if answer.new),
        grown=tuple(each for each, answer in zip(todo.growths, grown, strict=True) if answer is True),
        not_created=failed,
        not_grown={
            each.topic: answer
            for each, answer in zip(todo.growths, grown, strict=True)
            if isinstance(answer, Refused | Waits)
        },
        warnings=tuple(warning for _, answer in made for warning in answer.warnings),
    )


async def _created(client: ClusterClient, creation: CreateTopic) -> Made | Refused | Waits:
    try:
        made = await _tried(lambda: create(client, creation))
        if isinstance(made, Waits) or made.new or not creation.builds:
            return made
        return await _not_ours(client, creation) or made
    except (RequestFailed, ProtocolError) as problem:
        return _not_created(creation, problem.message)


async def _grown(client: ClusterClient, growth: AddPartitions) -> bool | Refused | Waits:
    try:
        return await _tried(lambda: grow(client, growth))
    except (RequestFailed, ProtocolError) as problem:
        denied = isinstance(problem, BrokerRefused) and ErrorCode.denies(problem.code)
        grant = grant_line(client.properties, Right.ALTER, Resource.TOPIC, (growth.topic,))
        by_hand = f"add partitions to topic {growth.topic} of the target, {growth.to} in all"
        return Refused(
            reason=StopReason.PARTITIONS, message=problem.message, hint=grant if denied else by_hand
        )


async def _tried(do: Callable[[], Awaitable[T]]) -> T | Waits:
    """What the target refuses for good is raised."""
    give_up_at = clock_of_waits() + TRIED_FOR_S
    while True:
        try:
            return await do()
        except RequestFailed as problem:
            if isinstance(problem, BrokerRefused) and not ErrorCode.passes(problem.code):
                raise
            if clock_of_waits() >= give_up_at:
                return Waits(why=f"{problem.message}; it is tried again")
            await asyncio.sleep(TRY_AGAIN_S)


async def _not_ours(client: ClusterClient, creation: CreateTopic) -> Refused | None:
    """Fillers go only into a topic with the settings by which they are removed again: a driver before us has created
    it with them, or somebody else, a consumer that asked for it, say, without."""
    found = await describe_topic_configs(client, [creation.topic])
    config = found.get(creation.topic)
    if config is not None and phase_of(config.own) is BuildPhase.FILLING:
        return None
    return Refused(
        reason=StopReason.BUILD,
        message=f"the compacted topic {creation.topic} cannot be built: somebody else has created it meanwhile, with"
        " other settings (auto.create.topics.enable?)",
        hint=f"keep clients off; {AFRESH}",
    )


def _not_created(creation: CreateTopic, message: str) -> Refused:
    return Refused(
        reason=StopReason.BUILD if creation.builds else StopReason.REFUSED,
        message=message,
        hint=f"exclude the topic, or create topic {creation.topic} on the target with {creation.shape.partitions}"
        " partitions" + THEN_RESUME_TOPIC,
    )


def deleted(topic: str) -> Refused:
    return Refused(
        reason=StopReason.RECREATED,
        message=f"the target topic {topic} was deleted while it was mirrored",
        hint=f"find out who deleted it; to create it again and copy from where its mirror began: {RESUME_TOPIC}",
    )
