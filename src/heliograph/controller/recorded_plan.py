"""What a plan makes of the ledger: topics that may not be copied by what it says, and partitions that wait. Pure."""

from __future__ import annotations

from heliograph.controller.recorded import Recorded, time_text
from heliograph.controller.snapshot import SourceTopic, TargetTopic
from heliograph.model.admission import Refused
from heliograph.model.command import Command
from heliograph.model.hints import AFRESH
from heliograph.model.partition import TopicPartition
from heliograph.model.states import StopReason


def refuse_by_ledger(
    recorded: Recorded, topic: SourceTopic, target_name: str, target: TargetTopic | None
) -> Refused | None:
    """None: nothing that is written down speaks against copying the topic."""
    unreadable = recorded.unreadable(target_name)
    if unreadable is not None:
        return Refused(reason=StopReason.LEDGER, message=unreadable.message, hint=unreadable.hint)
    known = recorded.source_topic_id(target_name)
    # Ids of topics are never used twice. Sources without ids are compared record by record, as far as that goes.
    if target is not None and known and topic.topic_id and known != topic.topic_id:
        return Refused(
            reason=StopReason.RECREATED,
            message=f"the source topic {topic.name} was deleted and created again (topic id {topic.topic_id}, was"
            f" {known}): the target holds records of the former one",
            hint=f"compare both topics; {AFRESH}",
        )
    return None


def paused_by(recorded: Recorded, where: TopicPartition, topic_id: str) -> str | None:
    """By whose wish it is not copied, in words; None: by nobody's. `topic_id`: of the target topic
    that is there now."""
    if recorded.to_remirror(where.topic):
        return f"topic {where.topic} is being deleted and mirrored anew"
    pause = recorded.pause(where, topic_id)
    return None if pause is None else paused_words(pause)


def paused_words(pause: Command) -> str:
    return f"paused by {pause.author} at {time_text(pause.at)}"
