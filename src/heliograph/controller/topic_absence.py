"""For how long brokers of a source have not known a topic, by their own word. Pure.

Each broker is counted by itself, from its first answer to its last one; what shows that the topic is there, or may be,
makes all of them begin anew. A broker that said nothing for a while begins anew, too: the topic may have been back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from heliograph.cluster.topic_witnesses import WITNESSES, Witness
from heliograph.wire.error_codes import ErrorCode

APART_S = 15.0  # answers of one broker at most: two looks may fail in between


def is_unknown(witness: Witness, name: str, topic_id: str) -> bool:
    """It knows neither the topic nor another one of its name, and would say so if it did."""
    return (
        witness.by_id.get(topic_id) == ErrorCode.UNKNOWN_TOPIC_ID
        and witness.by_name.get(name) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """`since`, `until`: by broker, its first and its last answer without the topic. `brokers`: the most that there were
    by any answer."""

    since: Mapping[int, float] = field(default_factory=dict)
    until: Mapping[int, float] = field(default_factory=dict)
    brokers: int = 0

    def heard(
        self, witnesses: Iterable[Witness], name: str, topic_id: str, cluster_id: str, now: float
    ) -> Absence:
        """`cluster_id`: of the cluster that is asked; what another one says is no answer."""
        witnesses = list(witnesses)
        if not all(each.cluster_id == cluster_id and is_unknown(each, name, topic_id) for each in witnesses):
            return Absence()
        lasting = {node: at for node, at in self.until.items() if now - at <= APART_S}
        until = lasting | {each.node: now for each in witnesses}
        since = {node: self.since[node] if node in lasting else now for node in until}
        brokers = max([self.brokers, *(each.brokers for each in witnesses)])
        return Absence(since=since, until=until, brokers=brokers)

    @property
    def lasts_s(self) -> float:
        """By the word of two brokers; by that of its only one where a cluster has no more."""
        wanted = min(self.brokers, WITNESSES)
        spans = sorted((self.until[node] - since for node, since in self.since.items()), reverse=True)
        return spans[wanted - 1] if 0 < wanted <= len(spans) else 0.0

    @property
    def longest(self) -> list[int]:
        """The brokers that are asked on: those that have been without it for longest."""
        return sorted(self.since, key=lambda node: (self.since[node], node))[:WITNESSES]
