"""The two lab clusters of a run, and what the harness asks of them through an independent client.

Owns making, deleting and watching topics. Must not know contenders. Brokers delete files at once and the disk is
settled between rounds, so that one round's data does not slow the next.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import psutil
from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from bench.tls import TlsFiles, tls_files
from heliograph.lab.cluster import LabCluster

HEAP_MB = 1024  # of a cluster's only broker; several share it
DELETE_DELAY_MS = 500
SETTLE_S = 1.5
ANSWER_TIMEOUT_S = 10.0
QUIET = {"log_level": 2}  # brokers that end at the end of a part are no news
BROKER_PROPERTIES = {"log.segment.delete.delay.ms": str(DELETE_DELAY_MS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchCluster:
    """A running cluster and the client the harness watches it with. Topics are on all of its brokers.

    `mirror_properties`: how a mirror comes in, by Kafka's own names; the harness comes in plain text.
    """

    lab: LabCluster
    admin: Any
    mirror_properties: Mapping[str, str]

    @property
    def replication(self) -> int:
        return len(self.lab.brokers)

    @property
    def bootstrap_servers(self) -> str:
        return self.lab.bootstrap_servers

    @property
    def cluster_id(self) -> str:
        return str(self.admin.list_topics(timeout=ANSWER_TIMEOUT_S).cluster_id)

    def topics(self) -> dict[str, int]:
        """Partitions with a leader of each topic that is not Kafka's own."""
        found = self.admin.list_topics(timeout=ANSWER_TIMEOUT_S).topics
        return {
            name: sum(partition.leader >= 0 for partition in topic.partitions.values())
            for name, topic in found.items()
            if not name.startswith("__")
        }

    def create(self, *topics: str, partitions: int) -> None:
        new = [NewTopic(topic, partitions, self.replication) for topic in topics]
        for made in self.admin.create_topics(new).values():
            made.result()
        while not self.has(*topics, partitions=partitions):
            time.sleep(0.02)

    def has(self, *topics: str, partitions: int) -> bool:
        """All of them exist, and every partition has a leader."""
        found = self.topics()
        return all(found.get(topic) == partitions for topic in topics)

    def leaders(self, topic: str) -> dict[Leader, list[int]]:
        """The partitions of a topic by the broker that leads them."""
        found = self.admin.list_topics(topic, timeout=ANSWER_TIMEOUT_S)
        led: dict[Leader, list[int]] = {}
        for number, partition in sorted(found.topics[topic].partitions.items()):
            broker = found.brokers[partition.leader]
            led.setdefault(Leader(host=broker.host, port=broker.port), []).append(number)
        return led

    def delete_all_but(self, *kept: str) -> None:
        doomed = [name for name in self.topics() if name not in kept]
        if doomed:
            for gone in self.admin.delete_topics(doomed).values():
                gone.result()

    def cpu_s(self) -> float:
        times = [psutil.Process(broker.pid).cpu_times() for broker in self.lab.brokers]
        return sum(one.user + one.system for one in times)

    def size_bytes(self, topic: str) -> int:
        """What a topic takes on disk: its batches as they travel."""
        logs = self.lab.directory.glob(f"node-*/data/{topic}-*/*.log")
        return sum(log.stat().st_size for log in logs) // self.replication


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPair:
    source: BenchCluster
    target: BenchCluster

    def cpu_s(self) -> float:
        return self.source.cpu_s() + self.target.cpu_s()

    def clear(self, *kept: str) -> None:
        """Deletes what a round left on both clusters and waits until the disk is quiet."""
        self.target.delete_all_but()
        self.source.delete_all_but(*kept)
        time.sleep(SETTLE_S)
        os.sync()


@contextmanager
def cluster_pair(replication: int, *, tls: bool = False) -> Iterator[ClusterPair]:
    """Each of so many brokers; all but one of the replicas have to confirm. `tls`: for mirrors."""
    properties = {**BROKER_PROPERTIES, "min.insync.replicas": str(max(replication - 1, 1))}
    heap_mb = HEAP_MB // replication
    with tls_files() if tls else nullcontext() as files:
        start = partial(
            LabCluster.start,
            brokers=replication,
            heap_mb=heap_mb,
            properties=properties,
            listeners=[files.listener] if files else [],
        )
        with start(name="bench-source") as source, start(name="bench-target") as target:
            yield ClusterPair(source=_watched(source, files), target=_watched(target, files))


def _watched(lab: LabCluster, files: TlsFiles | None) -> BenchCluster:
    plain = {"bootstrap.servers": lab.bootstrap_servers}
    return BenchCluster(
        lab=lab,
        admin=AdminClient({**plain, **QUIET}),
        mirror_properties=files.client_properties(lab) if files else plain,
    )


class TopicEnds:
    """How many offsets of a topic that may not exist yet consumers can see: the sum of its high watermarks.

    `committed`: of its last stable offsets, before which all transactions are over.
    """

    def __init__(
        self, cluster: BenchCluster, topic: str, partitions: int, *, committed: bool = False
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partitions = partitions
        self._exists = False
        self._isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

    def read(self) -> int:
        self._exists = self._exists or self._cluster.has(self._topic, partitions=self._partitions)
        if not self._exists:
            return 0
        asked = {TopicPartition(self._topic, p): OffsetSpec.latest() for p in range(self._partitions)}
        answers = self._cluster.admin.list_offsets(
            asked, request_timeout=ANSWER_TIMEOUT_S, isolation_level=self._isolation
        )
        return sum(_offset(answer) for answer in answers.values())


def _offset(answer: Any) -> int:
    try:
        return max(int(answer.result().offset), 0)
    except KafkaException:  # a partition without a leader yet: nothing is visible there
        return 0
