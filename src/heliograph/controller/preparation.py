"""A link is made ready to be mirrored: observed again, planned, its topics created. Who holds them alone does it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial

from heliograph.cluster.at_most import at_most
from heliograph.cluster.client import ClusterClient
from heliograph.controller.build_changes import try_changes
from heliograph.controller.build_settings import KEEP_OFF
from heliograph.controller.clusters import Clusters
from heliograph.controller.half_built import warn_of_half_built
from heliograph.controller.making import Outcome, Waits, deleted, make
from heliograph.controller.plan import (
    AddPartitions,
    AwaitPartition,
    CreateTopic,
    HeldBy,
    Plan,
    RefusePartition,
    plan,
)
from heliograph.controller.recorded import NOTHING_RECORDED, Recorded
from heliograph.controller.recorded_plan import gone_since
from heliograph.controller.snapshot import LinkSnapshot
from heliograph.controller.verdict import final_configs
from heliograph.model.admission import Refused
from heliograph.model.clock import time_of_day
from heliograph.model.events import Event
from heliograph.model.occurrence import Occurrence
from heliograph.model.outbox import Outbox
from heliograph.model.partition import MirrorPartition

TRIED_AT_ONCE = 16


async def prepare(
    clusters: Clusters,
    link: str,
    outbox: Outbox,
    mirrored: Collection[str] = (),
    held_by: HeldBy = lambda _link, _topic: None,
    *,
    recorded: Recorded = NOTHING_RECORDED,
    only: Collection[str] | None = None,
) -> tuple[LinkSnapshot, Plan]:
    """`mirrored`: target topics that this run has copied to before. One that is gone was deleted under it, and is not
    made again. `held_by`: which other run holds a topic; it is left to that one. `recorded`: what the ledger says.
    `only`: these source topics.

    What was observed, and the plan of one link with its topics made; those that could not be are refused, or wait,
    those that cannot be built are refused, and those that somebody else has made meanwhile are no creations of ours.
    Other links are not looked at: they were compared with each other when the run began, and one that is away must not
    hold this one up (P7)."""
    snapshot = await clusters.observe_link(link, only)
    findings = await clusters.preflight([snapshot], {link: recorded})
    todo = plan([snapshot], findings, held_by, lambda _snapshot: recorded)
    client = clusters.target(link)
    outcome = await make(client, todo, mirrored)
    for warning in outcome.warnings:
        outbox.tell(Event.PLAN_WARNING, warning, link=link)
    if only is not None:  # of the link's other topics the run's first plan has told it
        for warning in (each for creation in outcome.created for each in creation.shape.warnings):
            outbox.tell(Event.PLAN_WARNING, warning, link=link)
    for creation in outcome.created:
        outbox.put(_created(creation, gone_since(recorded, creation.topic)))
    for growth in outcome.grown:
        outbox.put(_grown(growth))
    if only is None:
        for warning in await warn_of_half_built(client, snapshot, recorded):
            outbox.tell(Event.PLAN_WARNING, warning, link=link)
    todo = _less(todo, outcome)
    failed = await _not_to_be_built(client, snapshot, recorded, todo)
    failed |= {
        each.partition.target_topic: deleted(each.partition.target_topic)
        for each in todo.awaited
        if each.partition.target_topic in mirrored and each.partition.target_topic not in snapshot.targets
    }
    return snapshot, replace(_without(todo, failed, lambda _key: True), creations=outcome.created)


async def _not_to_be_built(
    client: ClusterClient, snapshot: LinkSnapshot, recorded: Recorded, todo: Plan
) -> dict[str, Refused]:
    """Topics whose settings the target will not let us change when they are filled, and why."""
    built = {copy.spec.partition.source_topic for copy in todo.copies if copy.spec.builds}
    finals = {
        snapshot.link.target_topic(topic.name): final_configs(snapshot, topic, recorded)
        for topic in snapshot.sources
        if topic.name in built
    }
    answers = await at_most(
        TRIED_AT_ONCE, [partial(try_changes, client, name, final) for name, final in finals.items()]
    )
    return {name: why for name, why in zip(finals, answers, strict=True) if why is not None}


def _created(creation: CreateTopic, gone: str | None) -> Occurrence:
    """`gone`: what to say of one that was there before."""
    words = f"created topic {creation.topic} ({creation.shape.partitions} partitions)"
    if creation.builds:
        words += f", which is compacted and is filled first: {KEEP_OFF}"
    return Occurrence(
        at=time_of_day(),
        code=Event.TOPIC_CREATED,
        message=f"{words}; {gone}" if gone else words,
        link=creation.link,
        target_topic=creation.topic,
    )


def _grown(growth: AddPartitions) -> Occurrence:
    return Occurrence(
        at=time_of_day(),
        code=Event.PARTITIONS_ADDED,
        message=f"topic {growth.topic} has {growth.to} partitions now, as its source",
        link=growth.link,
        target_topic=growth.topic,
    )


def _less(todo: Plan, outcome: Outcome) -> Plan:
    """The plan less what could not be made: topics as a whole, or their new partitions alone."""
    there = {each.topic: each.there for each in todo.growths}
    todo = _without(todo, outcome.not_created, lambda _key: True)
    return _without(todo, outcome.not_grown, lambda key: key.partition >= there[key.target_topic])


def _without(
    todo: Plan, failed: Mapping[str, Refused | Waits], concerns: Callable[[MirrorPartition], bool]
) -> Plan:
    """`failed`: by target topic; `concerns`: which partitions of it. They are refused, or wait."""

    def why(key: MirrorPartition) -> Refused | Waits | None:
        found = failed.get(key.target_topic)
        return found if found is not None and concerns(key) else None

    copies = [(copy, why(copy.spec.partition)) for copy in todo.copies]
    awaited = [(each, why(each.partition)) for each in todo.awaited]
    concerned = [*((copy.spec.partition, found) for copy, found in copies)]
    concerned += [(each.partition, found) for each, found in awaited]
    refusals = [RefusePartition(partition=key, why=no) for key, no in concerned if isinstance(no, Refused)]
    waiting = [
        AwaitPartition(partition=copy.spec.partition, goal=copy.goal, align_to=copy.align_to, why=found.why)
        for copy, found in copies
        if isinstance(found, Waits)
    ]
    return replace(
        todo,
        copies=tuple(copy for copy, found in copies if found is None),
        awaited=(*(each for each, found in awaited if not isinstance(found, Refused)), *waiting),
        refusals=(*todo.refusals, *refusals),
    )
