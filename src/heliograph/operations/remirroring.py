"""Whether target topics may be deleted and made again, and what goes with them. Pure.

What is lost by it: what the target holds and the source does not hold any more, or not yet again. Kafka deletes the
commits of consumer groups with a topic. Configs that were set by hand are set again by the mirror that does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from heliograph.cluster.group_reads import TopicGroups
from heliograph.cluster.log_reads import LogSpan
from heliograph.controller.recorded import Recorded
from heliograph.controller.remirror_cost import (
    NO_IDS,
    Lost,
    begin_again,
    holds_others,
    hulls,
    kept_between,
    lost_in,
    lost_of,
    set_by_hand,
)
from heliograph.controller.snapshot import LinkSnapshot, SourceTopic, TargetTopic
from heliograph.model.command import Wish
from heliograph.model.hints import topics_line
from heliograph.model.ledger import OWN_TOPICS, WHOLE_TOPIC
from heliograph.model.partition import MirrorPartition, TopicPartition
from heliograph.operations.decision import Decided, Draft, Refusal, offsets
from heliograph.operations.views import TopicTrace

GROUPS_SHOWN = 20
PARTITIONS_SHOWN = 50


def decide_remirrors(
    snapshot: LinkSnapshot,
    topics: Iterable[str],
    traces: Mapping[str, TopicTrace],
    unread: Mapping[str, str],
    recorded: Recorded,
) -> list[Decided]:
    """`traces`, `unread` (rows of a version that is not known here): by target topic."""
    sources = {topic.name: topic for topic in snapshot.sources}
    outcomes: list[Decided] = []
    for name in topics:
        target_name = snapshot.link.target_topic(name)
        source, target = sources.get(name), snapshot.targets.get(target_name)
        if target_name in OWN_TOPICS:
            message = f"{target_name} is a topic of Heliograph's own: it is never deleted"
            outcomes.append(
                Refusal(subject=name, message=message, hint=f"see links.{snapshot.link.name}.naming")
            )
        elif target_name in unread:
            outcomes.append(Refusal(subject=name, message=unread[target_name]))
        elif source is None:
            message = f"cluster {snapshot.link.source!r} has no topic {name}: it cannot be mirrored again"
            outcomes.append(
                Refusal(subject=name, message=message, hint="what the target holds of it is left as it is")
            )
        elif target is None:
            message = (
                f"cluster {snapshot.link.target!r} has no topic {target_name}: there is nothing to delete"
            )
            stopped = any(recorded.stop(TopicPartition(target_name, n), "") for n in source.partitions)
            resume = topics_line("resume", snapshot.link.name, name)
            hint = f"to create it again: {resume}" if stopped else "`heliograph plan` says how it is created"
            outcomes.append(Refusal(subject=name, message=message, hint=hint))
        elif not target.topic_id:
            outcomes.append(Refusal(subject=name, message=NO_IDS, hint="raise inter.broker.protocol.version"))
        else:
            outcomes.append(
                _remirror(snapshot, source, target, traces.get(target_name, TopicTrace()), recorded)
            )
    return outcomes


def _remirror(
    snapshot: LinkSnapshot, source: SourceTopic, target: TargetTopic, trace: TopicTrace, recorded: Recorded
) -> Decided:
    unseen = [
        f"{source.name}:{number}: {sight.unreadable or 'its offsets are not known'}"
        for number, sight in source.partitions.items()
        if sight.source is None or (sight.target is None and number < target.partitions)
    ]
    if unseen:
        message = f"what would be lost cannot be said now: {unseen[0]}"
        return Refusal(subject=source.name, message=message, hint="try again")
    held = {n: sight.target for n, sight in source.partitions.items() if sight.target is not None}
    lost = lost_in(recorded, source, target)
    lost |= {n: lost_of(span, None) for n, span in trace.beyond.items()}
    held |= trace.beyond
    lost = {number: ranges for number, ranges in lost.items() if ranges}
    restored = set_by_hand(snapshot, recorded, source, target)
    shown = _shown(snapshot, recorded, source, target, held, lost, trace.groups, restored)
    link = snapshot.link
    return Draft(
        where=MirrorPartition(link.name, source.name, target.name, WHOLE_TOPIC),
        target_topic_id=target.topic_id,
        wish=Wish.REMIRROR,
        loses=hulls(lost),
        keeps=kept_between(lost),
        shown=tuple(shown),
        destroys=True,
        details={
            "held": {str(n): [span.start, span.end] for n, span in sorted(held.items())},
            "lost": {str(n): [list(each) for each in ranges] for n, ranges in sorted(lost.items())},
            "groups": {name: list(numbers) for name, numbers in sorted(trace.groups.partitions.items())},
            "groups_unread": trace.groups.problem,
            "restored": dict(sorted(restored.items())),
        },
    )


def _shown(
    snapshot: LinkSnapshot,
    recorded: Recorded,
    source: SourceTopic,
    target: TargetTopic,
    held: Mapping[int, LogSpan],
    lost: Lost,
    groups: TopicGroups,
    restored: Mapping[str, str],
) -> Iterator[str]:
    cluster = repr(snapshot.link.target)
    yield f"topic {target.name} of cluster {cluster} is deleted, made again and copied from {source.name}"
    begin_at = begin_again(recorded, source, target, snapshot.link.policy_of(source.name).start) or {}
    for number, span in sorted(held.items())[:PARTITIONS_SHOWN]:
        unlike = number in source.partitions and holds_others(recorded, source, target, number)
        why = "may differ from the source's: counted as lost" if unlike else "only here: lost"
        words = "; ".join(f"{offsets(*each)} {why}" for each in lost.get(number, ()))
        begin = f"; it begins at {begin_at[number]:,} again" if begin_at.get(number) else ""
        said = words or "the source holds them all"
        yield f"  partition {number} holds {span.end - span.start:,} offsets; {said}{begin}"
    if len(held) > PARTITIONS_SHOWN:
        rest = sum(1 for number in sorted(held)[PARTITIONS_SHOWN:] if number in lost)
        yield f"  {len(held) - PARTITIONS_SHOWN} more partitions; {rest} of them lose offsets (--json has all)"
    yield from _groups_shown(groups)
    for key, value in sorted(restored.items()):
        yield f"  {key}={value} was set by hand: restored"


def _groups_shown(groups: TopicGroups) -> Iterator[str]:
    names = sorted(groups.partitions)
    if names:
        more = f" and {len(names) - GROUPS_SHOWN} more" if len(names) > GROUPS_SHOWN else ""
        listed = ", ".join(names[:GROUPS_SHOWN])
        yield f"  Kafka deletes the commits of {len(names)} consumer group(s) with it: {listed}{more}"
    if groups.problem:
        yield f"  which other consumer groups have commits on it could not be read: {groups.problem}"
