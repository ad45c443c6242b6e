"""Which brokers hold and lead a topic's partitions: asked for, waited for, chosen and moved.

Owns no broker process; must not know the mirror. What is said here is what the cluster's own metadata says to an
independent client.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from kafka import TopicPartition as KafkaPartition
from kafka.admin import KafkaAdminClient

TIMEOUT_S = 30.0
ASK_S = 1.0
POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """Of one partition. `leader` None: nobody leads it now."""

    leader: int | None
    all: frozenset[int]
    in_sync: frozenset[int]

    @property
    def whole(self) -> bool:
        return self.leader is not None and self.in_sync == self.all


class ReplicaView:
    """One topic of one cluster."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._admin: Any = AdminClient({"bootstrap.servers": bootstrap})

    def now(self) -> dict[int, Replicas]:
        """By partition; empty while no broker answers."""
        try:
            found = self._admin.list_topics(timeout=ASK_S).topics.get(self._topic)
        except KafkaException:
            return {}
        if found is None:
            return {}
        return {
            number: Replicas(
                leader=each.leader if each.leader >= 0 else None,
                all=frozenset(each.replicas),
                in_sync=frozenset(each.isrs),
            )
            for number, each in found.partitions.items()
        }

    def led_by(self, node: int) -> list[int]:
        return [number for number, each in self.now().items() if each.leader == node]

    def wait(
        self, condition: Callable[[dict[int, Replicas]], bool], what: str, timeout_s: float = TIMEOUT_S
    ) -> None:
        deadline = time.monotonic() + timeout_s
        while not ((seen := self.now()) and condition(seen)):
            assert time.monotonic() < deadline, f"{self._topic}: no {what} in {timeout_s:g} s: {seen}"
            time.sleep(POLL_S)

    def wait_whole(self, timeout_s: float = TIMEOUT_S) -> None:
        """Until every replica of every partition is in sync."""
        self.wait(lambda seen: all(each.whole for each in seen.values()), "full in-sync sets", timeout_s)

    def wait_led_elsewhere(self, partitions: Sequence[int], node: int) -> None:
        def elsewhere(seen: dict[int, Replicas]) -> bool:
            return all(seen[number].leader not in (None, node) for number in partitions)

        self.wait(elsewhere, f"new leaders of {partitions}")

    def move_leaders(self, order: Sequence[int]) -> None:
        """Make the first of these the leader of every partition: the same replicas in this order, and an election."""
        partitions = sorted(self.now())
        admin = KafkaAdminClient(bootstrap_servers=self._bootstrap)
        try:
            admin.alter_partition_reassignments(
                {KafkaPartition(self._topic, number): list(order) for number in partitions},
                timeout_ms=int(TIMEOUT_S * 1000),
            )
        finally:
            admin.close()
        wanted = [TopicPartition(self._topic, number) for number in partitions]
        self._admin.elect_leaders(ElectionType.PREFERRED, wanted).result(TIMEOUT_S)
        self.wait(
            lambda seen: all(each.leader == order[0] for each in seen.values()), f"leadership of {order[0]}"
        )


def create_assigned(
    bootstrap: str, topic: str, replicas: Sequence[Sequence[int]], configs: Mapping[str, str] | None = None
) -> None:
    """A topic whose partitions lie on these brokers, the first of each being its preferred leader."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    assignment = [list(nodes) for nodes in replicas]
    new = NewTopic(topic, len(assignment), replica_assignment=assignment, config=dict(configs or {}))
    for created in admin.create_topics([new], operation_timeout=TIMEOUT_S).values():
        created.result(TIMEOUT_S)
    ReplicaView(bootstrap, topic).wait(lambda seen: len(seen) == len(assignment), "partitions")
    ReplicaView(bootstrap, topic).wait_whole()


def set_topic_config(bootstrap: str, topic: str, name: str, value: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(TIMEOUT_S)
