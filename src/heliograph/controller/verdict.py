"""Whether a partition may be copied, and to where it is aligned first, by what was observed of it. Pure.

The plan asks, and so does the preflight, for the rights that follow. The rules are model/admission.py's; a lane asks
them again at every resynchronisation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum

from heliograph.controller.build_settings import is_compacted, phase_of, with_build
from heliograph.controller.followed_configs import Followed
from heliograph.controller.recorded import Recorded
from heliograph.controller.snapshot import LinkSnapshot, PartitionSight, SourceTopic
from heliograph.controller.topic_config import NEEDED, TargetShape, shape_target
from heliograph.model.admission import Admitted, PartitionFacts, Refused, admit_partition, goal_of
from heliograph.model.hints import AFRESH, THEN_START
from heliograph.model.partition import MirrorPartition, TopicPartition
from heliograph.model.policy import EARLIEST, OnLoss
from heliograph.model.producer_id import producer_id
from heliograph.model.start import LATEST
from heliograph.model.states import BuildPhase, StopReason


def shape_for(snapshot: LinkSnapshot, topic: SourceTopic) -> TargetShape:
    """How its target topic would be created."""
    return shape_target(
        topic=topic.name,
        partitions=len(topic.partitions),
        replication_factor=wanted_replicas(snapshot, topic),
        by_config=snapshot.link.replication_factor is not None,
        own=topic.config.own,
        effective=topic.config.effective,
        target_brokers=snapshot.target_brokers,
        target_defaults=snapshot.target_defaults,
        rules=snapshot.link.topic_configs,
        untold=topic.config.untold,
    )


def wanted_replicas(snapshot: LinkSnapshot, topic: SourceTopic) -> int:
    """Of its target topic, as the config says; the target may have fewer brokers."""
    return snapshot.link.replication_factor or topic.replication_factor


def final_configs(snapshot: LinkSnapshot, topic: SourceTopic, recorded: Recorded) -> dict[str, str]:
    """What its target topic has in the end, when it is built: what somebody had set before it was made anew, too."""
    by_hand = recorded.set_by_hand(snapshot.link.target_topic(topic.name))
    return {**shape_for(snapshot, topic).configs, **by_hand}


def followed_from(
    snapshot: LinkSnapshot, topic: SourceTopic, by_hand: Mapping[str, str] | None = None
) -> Followed:
    """What of its target topic's configs follows the source from when it is created; one that is built gets them by and
    by. `by_hand`: what is somebody else's."""
    made = shape_for(snapshot, topic).configs
    others = NEEDED | (by_hand or {}).keys()
    return Followed(values={name: value for name, value in made.items() if name not in others})


def creation_shape(snapshot: LinkSnapshot, topic: SourceTopic) -> TargetShape:
    """How it is created: one that is compacted is built first (build_settings.py)."""
    shape = shape_for(snapshot, topic)
    return (
        replace(shape, configs=with_build(shape.configs)) if is_compacted(topic.config.effective) else shape
    )


def target_configs(snapshot: LinkSnapshot, topic: SourceTopic) -> Mapping[str, str]:
    """Of its target topic: as it is, or as it would be created."""
    target = snapshot.targets.get(snapshot.link.target_topic(topic.name))
    if target is not None:
        return target.config.effective
    return {**snapshot.target_defaults, **creation_shape(snapshot, topic).configs}


def build_phase(snapshot: LinkSnapshot, topic: SourceTopic) -> BuildPhase | None:
    """How far its target topic is that is built, whatever the source is by now; one that is not there begins with its
    fillers. None: it is not built, or not any more."""
    target = snapshot.targets.get(snapshot.link.target_topic(topic.name))
    if target is not None:
        return phase_of(target.config.own)
    return BuildPhase.FILLING if is_compacted(topic.config.effective) else None


def is_being_built(topic: SourceTopic) -> bool:
    """By another mirror, whose target it is: it holds fillers, and its settings are not those that it will have."""
    return phase_of(topic.config.own) is not None


def refuse_build(snapshot: LinkSnapshot, topic: SourceTopic) -> Refused | None:
    """Why it cannot be copied, or not be built on, as the settings on both sides are now."""
    link = snapshot.link
    if is_being_built(topic):
        return Refused(
            reason=StopReason.BUILD,
            message=f"topic {topic.name} of cluster {link.source!r} is being built by another mirror itself, and holds"
            " fillers",
            hint=f"wait for topic_built of the mirror into {link.source!r}" + THEN_START,
        )
    if build_phase(snapshot, topic) is BuildPhase.FILLING and not is_compacted(topic.config.effective):
        return Refused(
            reason=StopReason.BUILD,
            message=f"topic {topic.name} of cluster {link.source!r} is not compacted any more, and its target is being"
            " built as a compacted topic: brokers would remove records there that the source keeps",
            hint=f"set cleanup.policy=compact on the source topic again{THEN_START}; else, {AFRESH}",
        )
    return None


def can_align(configs: Mapping[str, str]) -> bool:
    """Fillers are deleted again, which brokers refuse for a compacted topic."""
    return configs.get("cleanup.policy", "delete") == "delete"


def judge(
    sight: PartitionSight,
    own_id: int,
    *,
    aligns: bool,
    begin_at: int | None = None,
    accepted_loss: tuple[int, int] | None = None,
    on_loss: OnLoss = OnLoss.STOP,
) -> Admitted | Refused | None:
    """None: it could not be seen, or not well enough. It is given to its lane all the same, which waits for it and
    judges then: a lane reads what is before markers, knows whether sequences may lag behind offsets, and whether
    fillers are the source's own. `begin_at`, `accepted_loss`, `on_loss`: as in `PartitionFacts`."""
    if sight.source is None or sight.unreadable is not None:
        return None
    target = sight.target
    if target and sight.ends_in_filler and target.end > goal_of(begin_at, sight.source.start):
        return None
    verdict = admit_partition(
        PartitionFacts(
            source_start=sight.source.start,
            source_end=sight.source.end,
            target_start=target.start if target else 0,
            target_end=target.end if target else 0,
            producer_id=own_id,
            last_batch=None if sight.ends_in_gap else sight.last_batch,
            last_sequence=sight.producer.last_sequence if sight.producer and not sight.ends_in_gap else None,
            last_is_filler=sight.ends_in_filler,
            aligns=aligns,
            begin_at=begin_at,
            accepted_loss=accepted_loss,
            on_loss=on_loss,
        )
    )
    if sight.ends_in_gap:  # that records are gone is certain all the same
        return verdict if isinstance(verdict, Refused) and verdict.reason is StopReason.LOST else None
    left_to_lane = isinstance(verdict, Refused) and verdict.reason is StopReason.SEQUENCE
    return None if left_to_lane else verdict


class Aligned(StrEnum):
    """Whether fillers must be deleted from a target topic. `MAYBE`: where its mirror begins is a time that nobody has
    resolved to an offset yet."""

    NO = "no"
    MAYBE = "maybe"
    YES = "yes"


def aligned_targets(snapshot: LinkSnapshot, recorded: Recorded) -> dict[str, Aligned]:
    """Target topics of which a partition will be aligned, or is being aligned; others are left out."""
    found: dict[str, Aligned] = {}
    for topic in snapshot.sources:
        target_name = snapshot.link.target_topic(topic.name)
        aligns = can_align(target_configs(snapshot, topic))
        each = [
            _aligned(snapshot, topic, number, sight, recorded, aligns=aligns)
            for number, sight in topic.partitions.items()
        ]
        for answer in (Aligned.YES, Aligned.MAYBE):
            if answer in each:
                found[target_name] = answer
                break
    return found


def _aligned(
    snapshot: LinkSnapshot,
    topic: SourceTopic,
    number: int,
    sight: PartitionSight,
    recorded: Recorded,
    *,
    aligns: bool,
) -> Aligned:
    """While somebody writes fillers nothing can be judged, but they are seen."""
    where = TopicPartition(snapshot.link.target_topic(topic.name), number)
    start = snapshot.link.policy_of(topic.name).start
    begin_at = recorded.begin(where, topic.topic_id, start)
    own_id = producer_id(snapshot.source_cluster_id, topic.name)
    verdict = judge(sight, own_id, aligns=aligns, begin_at=begin_at)
    if sight.ends_in_filler or (isinstance(verdict, Admitted) and verdict.align_to is not None):
        return Aligned.YES
    new = isinstance(verdict, Admitted) and verdict.position.target == 0
    partition = MirrorPartition(snapshot.link.name, topic.name, where.topic, number)
    if not new or not sight.source_end or begin_at is not None or not chooses(partition, start, recorded):
        return Aligned.NO
    return Aligned.YES if start == LATEST else Aligned.MAYBE


def chooses(partition: MirrorPartition, start: str, recorded: Recorded) -> bool:
    """Whether its link says where it begins, if it is new: it was there when the link first ran, or runs first now."""
    if start == EARLIEST:
        return False
    at_first = recorded.topics_at_first(partition.link)
    return at_first is None or partition.partition < at_first.get(partition.source_topic, 0)
