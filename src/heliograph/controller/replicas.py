"""Target topics that have fewer replicas than their link wants them to have. Pure.

A topic is created with as many as the target has brokers, at the most. That it lacks some is said as long as it does:
replicas are an operator's to add, with kafka-reassign-partitions.sh.
"""

from __future__ import annotations

from heliograph.controller.finding import listed
from heliograph.controller.snapshot import LinkSnapshot
from heliograph.controller.verdict import wanted_replicas


def few_replicas(snapshot: LinkSnapshot) -> str | None:
    """One sentence for all topics of the link."""
    link = snapshot.link
    lacking = [
        (target, wanted)
        for topic in snapshot.sources
        if (target := snapshot.targets.get(link.target_topic(topic.name))) is not None
        and 0 < target.replication_factor < (wanted := wanted_replicas(snapshot, topic))
    ]
    if not lacking:
        return None
    fewest = min(target.replication_factor for target, _ in lacking)
    topics = [f"{target.name} ({target.replication_factor} of {wanted})" for target, wanted in lacking]
    return (
        f"link {link.name}: cluster {link.target!r} holds target topics with fewer replicas than wanted:"
        f" {listed(topics)} (hint: add some with kafka-reassign-partitions.sh; if so few are meant:"
        f" links.{link.name}.replication_factor: {fewest})"
    )
