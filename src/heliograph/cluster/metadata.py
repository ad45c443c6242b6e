"""What a cluster says about itself: brokers, topics, leaders. Frozen values; no I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kafka.protocol.metadata import MetadataRequest

from heliograph.cluster.messages import unpacking
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

NO_ID = "without id, remade "
INTERNAL = frozenset({"__consumer_offsets", "__transaction_state"})  # version 0 does not say so


class Broker(NamedTuple):
    node: int
    host: str
    port: int
    rack: str | None = None


class Leader(NamedTuple):
    node: int
    epoch: int


# How long a topic without an id may show older leader epochs than before. A broker that lags has heard of the present
# ones by then: what is seen is another topic of the same name.
OLDER_LIMIT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """`topic_id`: empty before Kafka 2.8. `remade`: how often a topic without one was seen to begin anew."""

    name: str
    topic_id: str
    internal: bool
    error: int
    leaders: Mapping[int, Leader | None]
    replication_factor: int
    remade: int = 0
    epochs: Mapping[int, int] = field(
        default_factory=dict
    )  # without ids: the highest leader epochs that were seen
    older_since: float | None = None  # since when only older leader epochs than the known ones are seen

    @property
    def identity(self) -> str:
        """The same for as long as it is the same topic: its id, or where there are none how often it was remade."""
        return self.topic_id or f"{NO_ID}{self.remade}"

    @property
    def partitions(self) -> int:
        return len(self.leaders)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    cluster_id: str
    controller: int
    brokers: Mapping[int, Broker]
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)

    def topic_id(self, topic: str) -> str:
        """Empty where it is not known: a topic that is not there, or a broker before Kafka 2.8."""
        found = self.topics.get(topic)
        return found.topic_id if found else ""

    def identity(self, topic: str) -> str:
        """Empty where the topic is not there."""
        found = self.topics.get(topic)
        return found.identity if found and found.leaders else ""

    def leader(self, where: TopicPartition) -> Leader | None:
        topic = self.topics.get(where.topic)
        leader = topic.leaders.get(where.partition) if topic else None
        return leader if leader is not None and leader.node in self.brokers else None

    def only(self, topics: Iterable[str]) -> ClusterMetadata:
        """Of these topics, as if they had been asked for by name."""
        found = {name: self.topics.get(name) or _unknown(name) for name in topics}
        return replace(self, topics=found)

    def existing(self, topics: Collection[str]) -> ClusterMetadata:
        """Of those of these topics that are there."""
        return replace(self, topics={name: each for name, each in self.topics.items() if name in topics})

    def changed_since(self, before: ClusterMetadata) -> list[str]:
        """The topics that are not what they were, or led by others. When brokers come or go, that may be any."""
        topics = list({**before.topics, **self.topics})
        if self.brokers.keys() != before.brokers.keys():
            return topics
        return [name for name in topics if before.topics.get(name) != self.topics.get(name)]

    def updated(self, newer: ClusterMetadata, now: float) -> ClusterMetadata:
        """What a later answer says, unless it comes from a broker that lags: an older leader epoch is no news."""
        topics = {
            name: _updated_topic(self.topics.get(name), topic, now) for name, topic in newer.topics.items()
        }
        return replace(newer, topics=topics)


def _updated_topic(known: TopicMetadata | None, newer: TopicMetadata, now: float) -> TopicMetadata:
    if known is None or known.topic_id != newer.topic_id:
        return newer
    if known.topic_id:
        return _with_newest_leaders(known, newer)
    epochs = {**known.epochs, **{number: led.epoch for number, led in known.leaders.items() if led}}
    older = any(
        led is not None and led.epoch < epochs.get(number, -1) for number, led in newer.leaders.items()
    )
    since = (known.older_since if known.older_since is not None else now) if older else None
    was_gone = bool(epochs) and not known.leaders  # and is back with older epochs: no broker lags like that
    if since is not None and (was_gone or now - since >= OLDER_LIMIT_S):
        return replace(newer, remade=known.remade + 1)
    newest = _with_newest_leaders(known, newer)
    return replace(newest, remade=known.remade, older_since=since, epochs=epochs)


def _with_newest_leaders(known: TopicMetadata, newer: TopicMetadata) -> TopicMetadata:
    if known.leaders == newer.leaders:  # nearly always
        return newer
    leaders = {
        number: known.leaders[number] if _is_older(leader, known.leaders.get(number)) else leader
        for number, leader in newer.leaders.items()
    }
    return replace(newer, leaders=leaders)


def _is_older(leader: Leader | None, known: Leader | None) -> bool:
    return leader is not None and known is not None and leader.epoch < known.epoch


def _unknown(name: str) -> TopicMetadata:
    return TopicMetadata(
        name=name,
        topic_id="",
        internal=False,
        error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        leaders={},
        replication_factor=0,
    )


def request_for(topics: Iterable[str] | None) -> Any:
    """kafka-python's MetadataRequest; None: all topics."""
    asked = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=each) for each in topics]
    return MetadataRequest(topics=asked, allow_auto_topic_creation=False)


def from_response(response: Any) -> ClusterMetadata:
    """kafka-python's MetadataResponse as our value. Before version 2 it has no cluster id, before 1 no controller."""
    with unpacking("metadata"):
        return ClusterMetadata(
            cluster_id=response.cluster_id or "",
            controller=response.controller_id,
            brokers={b.node_id: Broker(b.node_id, b.host or "", b.port, b.rack) for b in response.brokers},
            topics={t.name: _topic(t) for t in response.topics if t.name},
        )


def _topic(topic: Any) -> TopicMetadata:
    leaders = {
        p.partition_index: Leader(p.leader_id, p.leader_epoch) if p.leader_id >= 0 else None
        for p in topic.partitions
    }
    return TopicMetadata(
        name=topic.name,
        topic_id=str(topic.topic_id) if topic.topic_id and topic.topic_id.int else "",
        internal=bool(topic.is_internal) or topic.name in INTERNAL,
        error=topic.error_code,
        leaders=leaders,
        replication_factor=max((len(p.replica_nodes) for p in topic.partitions), default=0),
    )
