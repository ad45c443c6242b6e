"""Which consumer groups have commits on compacted topics that are being built: they would go on amid fillers.

For `plan`; reads only. A topic that is not there yet has no commits: brokers drop them with a topic.
"""

from __future__ import annotations

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.group_reads import TopicGroups, read_topic_groups
from heliograph.controller.build_settings import KEEP_OFF
from heliograph.controller.finding import listed
from heliograph.controller.snapshot import LinkSnapshot
from heliograph.controller.verdict import build_phase


async def warn_of_groups(target: ClusterClient, snapshot: LinkSnapshot) -> list[str]:
    """A sentence for each topic that has some, and one if they could not all be asked."""
    building = [
        name
        for topic in snapshot.sources
        if (name := snapshot.link.target_topic(topic.name)) in snapshot.targets
        and build_phase(snapshot, topic) is not None
    ]
    if not building:
        return []
    found = await read_topic_groups(target, building)
    return words_of(snapshot.link.name, found)


def words_of(link: str, found: dict[str, TopicGroups]) -> list[str]:
    warnings = [
        f"link {link}: topic {topic} is being built: {KEEP_OFF}; groups with commits there:"
        f" {listed(each.partitions)}"
        for topic, each in found.items()
        if each.partitions
    ]
    problems = {each.problem for each in found.values() if each.problem is not None}
    warnings += [
        f"link {link}: which groups have commits on topics that are being built cannot be listed: {problem}"
        for problem in sorted(problems)
    ]
    return warnings
