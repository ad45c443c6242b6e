"""Partitions that a source topic has and its mirror has not: whether the target topic may be given them. Pure.

Partitions are added to a topic that this link mirrors to already, and to no other: if somebody else writes to a topic
by keys, its keys move to other partitions then. A mirror is known by the ledger, or by the last batch of a partition.
"""

from __future__ import annotations

from dataclasses import dataclass

from heliograph.controller.build_settings import phase_of
from heliograph.controller.recorded import Recorded
from heliograph.controller.snapshot import LinkSnapshot, SourceTopic, TargetTopic
from heliograph.controller.topic_config import partitions_line
from heliograph.model.producer_id import producer_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """The target has `there` partitions, fewer than the source. `why` none are added to it now, None: they are; and by
    which `command` an operator does it."""

    there: int
    why: str | None = None
    command: str | None = None


def lacking(snapshot: LinkSnapshot, topic: SourceTopic, recorded: Recorded) -> Lacking | None:
    """None: it has as many, or more, or is not there; or it is not this link's mirror, and is refused."""
    link = snapshot.link
    target = snapshot.targets.get(link.target_topic(topic.name))
    if target is None or target.partitions >= len(topic.partitions):
        return None
    if not is_mirror(snapshot, topic, target, recorded):
        return None
    has = f"the target topic {target.name} has {target.partitions} of {len(topic.partitions)} partitions"
    if not link.create_topics:
        line = partitions_line(snapshot.target_servers, target.name, len(topic.partitions))
        why = f"{has}, and this link adds none (create_topics: false)"
        return Lacking(there=target.partitions, why=why, command=line)
    if phase_of(target.config.own) is not None:
        why = f"{has}, and is being built: they are added when it is like its source"
        return Lacking(there=target.partitions, why=why)
    return Lacking(there=target.partitions)


def is_mirror(snapshot: LinkSnapshot, topic: SourceTopic, target: TargetTopic, recorded: Recorded) -> bool:
    """Whether the target topic is this link's mirror of the source topic, by what shows that."""
    ours = producer_id(snapshot.source_cluster_id, topic.name)
    return recorded.is_topic(target.name, topic.topic_id, target.topic_id) or any(
        sight.last_batch is not None and sight.last_batch.producer_id == ours
        for sight in topic.partitions.values()
    )
