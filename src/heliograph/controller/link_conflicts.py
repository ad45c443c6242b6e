"""Links that cannot go together: two that write one topic, or topics that would go round in a circle. Pure.

A wrong config is what that is: it ends a run at its start. A link that comes later stays out alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from heliograph.model.errors import ConfigError
from heliograph.model.link import Link
from heliograph.model.producer_id import cluster_code


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTopics:
    """Between which clusters a link leads, and which topics of its source it copies."""

    link: Link
    source_cluster_id: str
    target_cluster_id: str
    topics: tuple[str, ...]


def check_links(links: Sequence[LinkTopics]) -> None:
    """Raises ConfigError with all that is wrong with them."""
    problems = [*_shared_targets(links), *_circles(links), *_shared_codes(links)]
    if problems:
        raise ConfigError(problems, hint="use `exclude` or `naming` so that each target topic has one source")


def _shared_targets(links: Iterable[LinkTopics]) -> list[str]:
    writers: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in links:
        for topic in each.topics:
            key = (each.target_cluster_id, each.link.target_topic(topic))
            writers[key].append(f"{each.link.name} ({topic})")
    return [
        f"links: topic {name} of one target cluster would be written by {' and '.join(found)}"
        for (_, name), found in sorted(writers.items())
        if len(found) > 1
    ]


def _circles(links: Iterable[LinkTopics]) -> list[str]:
    """Topics that come back to where they began: records would go round for ever."""
    onward: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for each in links:
        for topic in each.topics:
            onward[each.source_cluster_id, topic].append(
                (each.target_cluster_id, each.link.target_topic(topic))
            )
    topics = [
        start[1]
        for start in sorted(onward)
        if _reaches(onward, start) and start[0] not in {end[0] for end in onward[start]}
    ]
    # Once, and not for each cluster of the circle.
    return [f"links: topic {topic} would be mirrored in a circle" for topic in dict.fromkeys(topics)]


def _reaches(onward: dict[tuple[str, str], list[tuple[str, str]]], start: tuple[str, str]) -> bool:
    seen: set[tuple[str, str]] = set()
    ahead = list(onward[start])
    while ahead:
        node = ahead.pop()
        if node == start:
            return True
        if node not in seen:
            seen.add(node)
            ahead.extend(onward.get(node, ()))
    return False


def _shared_codes(links: Iterable[LinkTopics]) -> list[str]:
    clusters: dict[int, set[str]] = defaultdict(set)
    for each in links:
        for cluster_id in (each.source_cluster_id, each.target_cluster_id):
            clusters[cluster_code(cluster_id)].add(cluster_id)
    return [
        f"clusters: the cluster ids {' and '.join(sorted(ids))} share one code and cannot be told apart"
        for ids in clusters.values()
        if len(ids) > 1
    ]
