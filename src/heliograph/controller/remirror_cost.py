"""What it costs to delete a target topic and mirror it anew. Pure.

Operators are shown it (operations/remirroring.py), and the driver compares it with what they were shown before it
deletes anything (remirror.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heliograph.cluster.log_reads import LogSpan
from heliograph.controller.build_settings import is_build_setting, phase_of
from heliograph.controller.recorded import Recorded
from heliograph.controller.snapshot import LinkSnapshot, SourceTopic, TargetTopic
from heliograph.controller.topic_config import FORCED
from heliograph.controller.verdict import shape_for
from heliograph.model.command import Ranges
from heliograph.model.partition import TopicPartition
from heliograph.model.policy import EARLIEST
from heliograph.model.states import OTHER_RECORDS

Lost = Mapping[int, Sequence[tuple[int, int]]]  # by partition


NO_IDS = (
    "the target's brokers give topics no ids (Kafka before 2.8, or an older inter.broker.protocol.version): without one"
    " it is not certain which topic would be deleted"
)


def lost_of(target: LogSpan | None, source: LogSpan | None) -> list[tuple[int, int]]:
    """What only the target holds, half-open ranges, by where both logs start and end. `source` None: it has no such
    partition, or nobody knows what it holds."""
    if target is None:
        return []
    if source is None:
        ranges = [(target.start, target.end)]
    else:
        below = (target.start, min(target.end, source.start))
        above = (max(target.start, source.end, below[1]), target.end)
        ranges = [below, above]
    return [(first, next_offset) for first, next_offset in ranges if first < next_offset]


def holds_others(recorded: Recorded, source: SourceTopic, target: TargetTopic, number: int) -> bool:
    """Whether offsets say nothing: one of the topics was made again, the source was cut short, or somebody else wrote.
    Then all that the target holds counts as lost."""
    known = (recorded.source_topic_id(target.name), recorded.target_topic_id(target.name))
    now = (source.topic_id, target.topic_id)
    if any(was and is_now and was != is_now for was, is_now in zip(known, now, strict=True)):
        return True
    stop = recorded.stop(TopicPartition(target.name, number), target.topic_id)
    return stop is not None and stop.code in OTHER_RECORDS


def lost_in(recorded: Recorded, source: SourceTopic, target: TargetTopic) -> dict[int, list[tuple[int, int]]]:
    """What is lost of each partition that the source has, where anything is."""
    found = {
        number: lost_of(
            sight.target, None if holds_others(recorded, source, target, number) else sight.source
        )
        for number, sight in source.partitions.items()
    }
    return {number: ranges for number, ranges in found.items() if ranges}


def begin_again(
    recorded: Recorded, source: SourceTopic, target: TargetTopic, start: str
) -> dict[int, int] | None:
    """Where each partition is to begin when it is mirrored anew; None: where the source's log starts (`earliest`).

    As it began before, whatever the config says by now, and never behind where the target's log starts: a changed
    `start`, or a ledger that was lost, must not cost records. A source topic that was made again begins at its first
    record."""
    if start == EARLIEST:
        return None
    known = recorded.source_topic_id(target.name)
    if known and source.topic_id and known != source.topic_id:
        return dict.fromkeys(source.partitions, 0)
    goals: dict[int, int] = {}
    for number, sight in source.partitions.items():
        began = recorded.began(TopicPartition(target.name, number), source.topic_id)
        held = sight.target
        if held is not None and (began is None or held.start < began < held.end):
            goals[number] = held.start
        elif began is not None:  # also while it is aligned to there: below that it holds fillers only
            goals[number] = began
    return goals


def hulls(lost: Lost) -> Ranges:
    """One range for each partition, as a command has it; where two are lost, from the first to the end of the last."""
    return {number: (ranges[0][0], ranges[-1][1]) for number, ranges in lost.items() if ranges}


def kept_between(lost: Lost) -> Ranges:
    """What is not lost of such a range: the source holds it, and is cut at both ends."""
    return {number: (ranges[0][1], ranges[1][0]) for number, ranges in lost.items() if len(ranges) == 2}


def set_by_hand(
    snapshot: LinkSnapshot, recorded: Recorded, source: SourceTopic, target: TargetTopic
) -> dict[str, str]:
    """The target topic's own configs that it would not be created with, and is given again. What a mirror needs is not
    among them, nor what the mirror itself has set and the source has changed since; nor is what a topic that is being
    built has for that, in whose place it was to get what is recorded."""
    own = dict(target.config.own)
    if phase_of(own) is not None:
        own = {key: value for key, value in own.items() if not is_build_setting(key)}
        awaited = recorded.set_by_hand(target.name)
        own |= {key: value for key, value in awaited.items() if is_build_setting(key)}
    made, followed = shape_for(snapshot, source).configs, recorded.followed(target.name)
    return {
        key: value
        for key, value in own.items()
        if made.get(key) != value and key not in FORCED and not followed.is_ours(key, value)
    }
