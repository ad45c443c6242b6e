"""Topics of a link that its source has no more, as the ledger knows them, and what metadata shows of them. Pure.

They are found by what is written down, and by nothing that a run remembers: whoever holds the link next finds the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from heliograph.controller.deletion_guards import Facts, Next, decide
from heliograph.controller.recorded import MirroredTopic, Recorded
from heliograph.model.link import Link
from heliograph.model.policy import OnSourceDelete


def gone_topics(
    link: Link,
    recorded: Recorded,
    at_source: Collection[str],
    is_let_go: Callable[[str], bool] = lambda _target_topic: True,
) -> list[MirroredTopic]:
    """By source topic. Of a link that has another name by now, or does not select the topic any more, or calls it
    otherwise, none: that is not what it mirrors. `is_let_go`: whether nothing is copied to this target topic; asked
    first, because there may be thousands to which something is."""
    return sorted(
        (
            topic
            for topic in recorded.mirrored(link.name, is_let_go)
            if topic.source_topic not in at_source
            and link.matches(topic.source_topic)
            and link.target_topic(topic.source_topic) == topic.target_topic
        ),
        key=lambda topic: topic.source_topic,
    )


def is_wanted(link: Link, topic: MirroredTopic) -> bool:
    """By what its link says of it, it is to be deleted with its source topic."""
    return link.policy_of(topic.source_topic).on_source_delete is OnSourceDelete.DELETE


def facts_of(
    link: Link,
    recorded: Recorded,
    topics: Iterable[MirroredTopic],
    target_ids: Mapping[str, str],
    *,
    others: int,
    holds: Callable[[str], bool],
) -> list[Facts]:
    """`target_ids`: of the topics that the target has, by name. `others`: how many topics of the link the source has.
    `holds`: whether a target topic is ours for certain."""
    topics = list(topics)
    names = {topic.target_topic for topic in topics}
    stops, pauses = recorded.stops(names), recorded.pauses(names)
    found = [
        Facts(
            topic=topic,
            source_cluster_id=recorded.source_cluster_id,
            wanted=is_wanted(link, topic),
            target_topic_id=target_ids.get(topic.target_topic, ""),
            unreadable=recorded.unreadable(topic.target_topic) is not None,
            stops={
                where.partition: stop.code
                for where, stop in stops.items()
                if where.topic == topic.target_topic
            },
            paused=frozenset(where.partition for where in pauses if where.topic == topic.target_topic),
            commanded=recorded.to_remirror(topic.target_topic),
            holds=holds(topic.target_topic),
        )
        for topic in topics
    ]
    gone = sum(1 for each in found if each.target_topic_id and decide(each) is Next.ASK_SOURCE)
    return [replace(each, gone=gone, of=others + gone) for each in found]
