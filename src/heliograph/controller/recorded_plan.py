"""What a plan makes of the ledger: topics that may not be copied by what it says, and partitions that wait. Pure."""

from __future__ import annotations

from heliograph.controller.recorded import Recorded, time_text
from heliograph.controller.snapshot import SourceTopic, TargetTopic
from heliograph.controller.topic_config import FORCED
from heliograph.model.admission import Refused
from heliograph.model.command import Command
from heliograph.model.hints import AFRESH, MADE_AGAIN
from heliograph.model.partition import TopicPartition
from heliograph.model.states import StopReason


def refuse_by_ledger(
    recorded: Recorded, topic: SourceTopic, target_name: str, target: TargetTopic | None
) -> Refused | None:
    """None: nothing that is written down speaks against copying the topic."""
    unreadable = recorded.unreadable(target_name)
    if unreadable is not None:
        return Refused(reason=StopReason.LEDGER, message=unreadable.message, hint=unreadable.hint)
    if target is None:
        return _deleted(recorded, topic, target_name)
    if _made_by_a_mirror(topic, target):
        return None
    was = recorded.target_topic_id(target_name)
    if was and target.topic_id and was != target.topic_id:
        return Refused(
            reason=StopReason.RECREATED,
            message=f"the target topic {target_name} was deleted and created again by somebody else (topic id"
            f" {target.topic_id}, was {was})",
            hint=MADE_AGAIN,
        )
    known = recorded.source_topic_id(target_name)
    # Ids of topics are never used twice. Sources without ids are compared record by record, as far as that goes.
    if known and topic.topic_id and known != topic.topic_id:
        return Refused(
            reason=StopReason.RECREATED,
            message=f"the source topic {topic.name} was deleted and created again (topic id {topic.topic_id}, was"
            f" {known}): the target holds records of the former one",
            hint=f"compare both topics; {AFRESH}",
        )
    return None


def _deleted(recorded: Recorded, topic: SourceTopic, target_name: str) -> Refused | None:
    """That it was deleted under a mirror stops the topic as a whole: to create it for some of its partitions would be
    to create it for all."""
    stops = (recorded.stop(TopicPartition(target_name, number), "") for number in topic.partitions)
    return next((stop.why for stop in stops if stop is not None and stop.code == StopReason.RECREATED), None)


def _made_by_a_mirror(topic: SourceTopic, target: TargetTopic) -> bool:
    """It holds nothing, and is set up as only a mirror does it, or an operator by a mirror's hint: created again by one
    that has ended before it could write so."""
    empty = all(
        sight.target is not None and sight.target.end == 0
        for sight in list(topic.partitions.values())[: target.partitions]
    )
    return empty and FORCED.items() <= target.config.own.items()


def gone_since(recorded: Recorded, target_name: str) -> str | None:
    """What to say of a target topic that is created: it was mirrored to before, and is not there."""
    was = recorded.target_topic_id(target_name)
    if not was:
        return None
    return (
        f"target topic {target_name} (id {was}) was deleted since it was mirrored: it is created again, and copied from"
        " where its mirror began"
    )


def paused_by(recorded: Recorded, where: TopicPartition, topic_id: str) -> str | None:
    """By whose wish it is not copied, in words; None: by nobody's. `topic_id`: of the target topic
    that is there now."""
    if recorded.to_remirror(where.topic):
        return f"topic {where.topic} is being deleted and mirrored anew"
    pause = recorded.pause(where, topic_id)
    return None if pause is None else paused_words(pause)


def paused_words(pause: Command) -> str:
    return f"paused by {pause.author} at {time_text(pause.at)}"
