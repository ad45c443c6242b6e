"""A cluster in a world: its brokers, which go down, freeze and come back, and its topics. What a broker answers is the
model's (model_broker.py); when it hears of things is decided here and by the logs (source_log.py, target_log.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

from heliograph.cluster.metadata import Broker, ClusterMetadata, Leader, TopicMetadata
from heliograph.cluster.record_log import LogRecord
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode
from tests.support.model_sessions import ModelSessions

from .answers import Led
from .model_broker import ModelPartition
from .model_topic import ModelTopic
from .raw_batch import Sizes
from .schedule import Do

if TYPE_CHECKING:
    from .sim_driver import SimDriver
    from .world import World

STALE_METADATA = 0.1
_IDS = UUID(int=0x48)
MakeLog = Callable[[Callable[[str], ModelPartition]], ModelTopic]


class SimTopic:
    """All partitions of a topic: they come and go together, with one id. `sizes`: what each topic takes now."""

    def __init__(self, name: str, logs: Sequence[ModelTopic], sizes: Mapping[str, Sizes]) -> None:
        self.name = name
        self.logs = logs
        self._sizes = sizes
        self.permitted = True  # to those who copy
        self.settings: dict[str, str] = {}  # where they tell how far it is built, or that it is compacted

    @property
    def refusal(self) -> int:
        return ErrorCode.NONE if self.permitted else ErrorCode.TOPIC_AUTHORIZATION_FAILED

    @property
    def exists(self) -> bool:
        return self.logs[0].partition is not None

    @property
    def topic_id(self) -> str:
        partition = self.logs[0].partition
        return partition.topic_id if partition is not None else ""

    @property
    def configs(self) -> dict[str, str]:
        """What it takes, and whatever else is not the default, which is what a mirror needs."""
        sizes = self._sizes[self.name]
        configs = {
            "max.message.bytes": str(sizes.max_message_bytes),
            "segment.bytes": str(sizes.segment_bytes),
        }
        partition = self.logs[0].partition
        stamps = partition is not None and partition.rules.log_append_time
        configs |= {key: value for key, value in self.settings.items() if key not in configs}
        return configs | ({"message.timestamp.type": "LogAppendTime"} if stamps else {})

    def alter(self, changes: Mapping[str, str | None]) -> None:
        for key, value in changes.items():
            self.settings.pop(key, None)
            if value is not None:
                self.settings[key] = value
        policy = self.settings.get("cleanup.policy", "delete")
        for log in self.logs:
            if log.partition is not None:
                log.partition.rules = replace(
                    log.partition.rules, deletes="delete" in policy, compacts="compact" in policy
                )

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.settings.get("cleanup.policy", "")

    def delete(self) -> None:
        for log in self.logs:
            log.delete()

    def create(self) -> None:
        for log in self.logs:
            log.create()


class SimCluster:
    """`nodes`: all brokers. `down` is shared with the model's partitions."""

    def __init__(self, world: World, name: str, nodes: Sequence[int]) -> None:
        self.world = world
        self.name = name
        self.cluster_id = f"{name}-id"
        self.nodes = tuple(nodes)
        self.down: set[int] = set()
        self.unaware_until = 0.0  # a broker that has just begun knows no topic, and says so
        self.topics: dict[str, SimTopic] = {}
        self.sessions = {node: ModelSessions() for node in nodes}
        self.takes_markers = True  # from those who copy
        self.own_logs: dict[str, list[LogRecord]] = {}  # of Heliograph's own topics
        self._frozen: dict[int, list[tuple[Do, tuple[object, ...]]]] = {}

    # -- brokers

    def freeze(self, node: int) -> None:
        self._frozen.setdefault(node, [])

    def thaw(self, node: int) -> None:
        for do, what in self._frozen.pop(node, ()):
            do(*what)

    def thaw_all(self) -> None:
        for node in list(self._frozen):
            self.thaw(node)

    def is_frozen(self, node: int) -> bool:
        return node in self._frozen

    def when_thawed(self, node: int, do: Do, *what: object) -> None:
        self._frozen[node].append((do, what))

    @property
    def absent(self) -> bool:
        """Whether some broker is."""
        return bool(self.down or self._frozen)

    @property
    def answering(self) -> list[int]:
        return [node for node in self.nodes if node not in self.down and node not in self._frozen]

    # -- topics

    def add_topic(
        self, name: str, makers: Sequence[tuple[MakeLog, Callable[[str], ModelPartition]]]
    ) -> SimTopic:
        """For each partition: what makes its log, and what makes the model of one that bears an id."""

        def model_of(make: Callable[[str], ModelPartition]) -> Callable[[str], ModelPartition]:
            def made(number: str) -> ModelPartition:
                partition = make(str(uuid5(_IDS, f"{self.name} {name} {number}")))
                partition.down = self.down
                return partition

            return made

        self.topics[name] = SimTopic(
            name, [make_log(model_of(make)) for make_log, make in makers], self.world.sizes
        )
        return self.topics[name]

    def log(self, where: TopicPartition) -> ModelTopic:
        return self.topics[where.topic].logs[where.partition]

    def partition(self, where: TopicPartition) -> ModelPartition | None:
        return self.log(where).partition

    @property
    def logs(self) -> Iterator[ModelTopic]:
        for topic in self.topics.values():
            yield from topic.logs

    def append_own(
        self, topic: str, key: bytes | None, value: bytes | None, by: SimDriver | None = None
    ) -> None:
        """To a topic of Heliograph's own."""
        log = self.own_logs.setdefault(topic, [])
        log.append(LogRecord(len(log), key, value))
        self.world.eye.see(topic, log[-1], by)

    # -- metadata

    def metadata(self, topics: Sequence[str]) -> ClusterMetadata:
        """As one of the brokers tells it, which may lag."""
        brokers = {n: Broker(n, self.name, n) for n in self.nodes if n not in self.down}
        told = {name: self._topic(self.topics[name]) for name in topics}
        return ClusterMetadata(cluster_id=self.cluster_id, controller=1, brokers=brokers, topics=told)

    def _topic(self, topic: SimTopic) -> TopicMetadata:
        partitions = [log.partition for log in topic.logs]
        there = [partition for partition in partitions if partition is not None]
        if self.world.now < self.unaware_until or not topic.permitted:
            there = []
        return TopicMetadata(
            name=topic.name,
            topic_id=topic.topic_id if self.world.plan.conditions.has_ids and there else "",
            internal=False,
            error=ErrorCode.NONE if there else topic.refusal or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            leaders={number: self._led(partition) for number, partition in enumerate(there)},
            replication_factor=len(there[0].replicas) if there else 0,
        )

    def _led(self, partition: ModelPartition) -> Leader | None:
        led: Led = partition.truth
        if not self.world.mended and self.world.chance.random() < STALE_METADATA:
            heard = [each for node, each in partition.heard.items() if node not in self.down]
            led = self.world.chance.choice(heard) if heard else led
        return None if led.leader in self.down else Leader(*led)
