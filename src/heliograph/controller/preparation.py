"""A link is made ready to be mirrored: observed again, planned, its topics created. Who holds them alone does it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial

from heliograph.cluster.admin import describe_topic_configs
from heliograph.cluster.at_most import at_most
from heliograph.cluster.client import ClusterClient
from heliograph.controller.act import create
from heliograph.controller.build_changes import try_changes
from heliograph.controller.build_settings import KEEP_OFF, phase_of
from heliograph.controller.clusters import Clusters
from heliograph.controller.plan import CreateTopic, HeldBy, Plan, RefusePartition, plan
from heliograph.controller.recorded import NOTHING_RECORDED, Recorded
from heliograph.controller.recorded_plan import gone_since
from heliograph.controller.snapshot import LinkSnapshot
from heliograph.controller.verdict import final_configs
from heliograph.model.admission import Refused
from heliograph.model.clock import time_of_day
from heliograph.model.errors import ProtocolError, RequestFailed
from heliograph.model.events import Event
from heliograph.model.hints import AFRESH, RESUME_TOPIC, THEN_RESUME_TOPIC
from heliograph.model.occurrence import Occurrence
from heliograph.model.outbox import Outbox
from heliograph.model.states import BuildPhase, StopReason

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

    What was observed, and the plan of one link with its topics made; those that could not be, or cannot be built, are
    refused, and those that somebody else has made meanwhile are no creations of ours. Other links are not looked at:
    they were compared with each other when the run began, and one that is away must not hold this one up (P7)."""
    snapshot = await clusters.observe_link(link, only)
    findings = await clusters.preflight([snapshot], {link: recorded})
    todo = plan([snapshot], findings, held_by, lambda _snapshot: recorded)
    failed: dict[str, Refused] = {}
    created: list[CreateTopic] = []
    for creation in todo.creations:
        if creation.topic in mirrored:
            failed[creation.topic] = _deleted(creation.topic)
            continue
        try:
            made = await create(clusters.target(creation.link), creation)
        except (RequestFailed, ProtocolError) as problem:
            failed[creation.topic] = _not_created(creation, problem.message)
            continue
        for warning in made.warnings:
            outbox.tell(Event.PLAN_WARNING, warning, link=link)
        if made.new:
            created.append(creation)
            outbox.put(_created(creation, gone_since(recorded, creation.topic)))
        elif creation.builds and (why := await _not_ours(clusters.target(link), creation)) is not None:
            failed[creation.topic] = why
    failed |= await _not_to_be_built(clusters.target(link), snapshot, recorded, _without(todo, failed))
    failed |= {
        each.partition.target_topic: _deleted(each.partition.target_topic)
        for each in todo.awaited
        if each.partition.target_topic in mirrored
    }
    return snapshot, replace(_without(todo, failed), creations=tuple(created))


async def _not_ours(client: ClusterClient, creation: CreateTopic) -> Refused | None:
    """Fillers go only into a topic with the settings by which they are removed again: a driver before us has created
    it with them, or somebody else, a consumer that asked for it, say, without."""
    try:
        found = await describe_topic_configs(client, [creation.topic])
    except (RequestFailed, ProtocolError) as problem:
        return _not_created(creation, problem.message)
    config = found.get(creation.topic)
    if config is not None and phase_of(config.own) is BuildPhase.FILLING:
        return None
    return Refused(
        reason=StopReason.BUILD,
        message=f"the compacted topic {creation.topic} cannot be built: somebody else has created it meanwhile, with"
        " other settings (auto.create.topics.enable?)",
        hint=f"keep clients off; {AFRESH}",
    )


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


def _not_created(creation: CreateTopic, message: str) -> Refused:
    return Refused(
        reason=StopReason.BUILD if creation.builds else StopReason.REFUSED,
        message=message,
        hint=f"exclude the topic, or create topic {creation.topic} on the target with {creation.shape.partitions}"
        " partitions" + THEN_RESUME_TOPIC,
    )


def _deleted(topic: str) -> Refused:
    return Refused(
        reason=StopReason.RECREATED,
        message=f"the target topic {topic} was deleted while it was mirrored",
        hint=f"find out who deleted it; to create it again and copy from where its mirror began: {RESUME_TOPIC}",
    )


def _without(todo: Plan, failed: dict[str, Refused]) -> Plan:
    """The plan less the topics that could not be made; their partitions are refused."""
    concerned = (*(copy.spec.partition for copy in todo.copies), *(each.partition for each in todo.awaited))
    refusals = [
        RefusePartition(partition=partition, why=failed[partition.target_topic])
        for partition in concerned
        if partition.target_topic in failed
    ]
    return replace(
        todo,
        copies=tuple(c for c in todo.copies if c.spec.partition.target_topic not in failed),
        awaited=tuple(each for each in todo.awaited if each.partition.target_topic not in failed),
        refusals=(*todo.refusals, *refusals),
    )
