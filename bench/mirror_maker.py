"""MirrorMaker 2 of Kafka's own release as a contender: dedicated mode, one process, tuned for what is measured.

Owns its properties. Everything that costs it time and is not copying is off (heartbeats, checkpoints, group and
ACL sync, offset syncs); the JVM's options are those of Kafka's own start script.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.clusters import ClusterPair
from bench.contender import CopyJob
from heliograph.lab.jars import DEFAULT_KAFKA, resolve
from heliograph.lab.java import find_java

TARGET = "target"
TASKS = 4
REPLICATION = (
    "replication.factor",
    "checkpoints.topic.replication.factor",
    "heartbeats.topic.replication.factor",
    "offset.storage.replication.factor",
    "status.storage.replication.factor",
    "config.storage.replication.factor",
)
# With offset syncs off it refuses to start if any other property of theirs is set, the replication factor included.
OFF = (
    "emit.heartbeats.enabled",
    "emit.checkpoints.enabled",
    "emit.offset-syncs.enabled",
    "sync.group.offsets.enabled",
    "sync.topic.acls.enabled",
)
CONSUMER = {
    "fetch.max.bytes": 50_000_000,
    "max.partition.fetch.bytes": 4_000_000,
    "max.poll.records": 10_000,
    "receive.buffer.bytes": 2_000_000,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",  # as Heliograph's links read by default
}
PRODUCER = {
    "batch.size": 500_000,
    "buffer.memory": 128 * 1024 * 1024,
    "max.request.size": 4_000_000,
    "acks": "all",
}
LINGER_COPY_MS = 10
LINGER_TAIL_MS = 0  # a linger helps throughput and would be held against it in latency
JVM = (
    "-Xms256M",
    "-Xmx2G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorMaker:
    name: str = f"MirrorMaker 2 ({DEFAULT_KAFKA})"
    code: str = "mm2"
    lane_mark: str | None = None
    ends_itself: bool = False
    tails: bool = True
    reads_committed: bool = True
    keeps_offsets: bool = False

    def prepare(self, job: CopyJob, pair: ClusterPair, directory: Path) -> Sequence[str]:
        settings = properties(
            job,
            source=pair.source.mirror_properties,
            target=pair.target.mirror_properties,
            replication=pair.target.replication,
        )
        path = directory / "mm2.properties"
        path.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
        libs = resolve("org.apache.kafka", "connect-mirror", DEFAULT_KAFKA)
        java = str(find_java() / "bin" / "java")
        return [java, *JVM, "-cp", f"{libs}/*", "org.apache.kafka.connect.mirror.MirrorMaker", str(path)]


def properties(
    job: CopyJob, *, source: Mapping[str, str], target: Mapping[str, str], replication: int = 1
) -> dict[str, str]:
    """The source's alias is the job's label: so are the target topic's prefix and the fresh internal topics.

    `source`, `target`: client properties. What is set for a cluster holds for all clients of it: producers, consumers,
    admin clients and the worker's own.
    """
    alias = job.label
    linger_ms = LINGER_TAIL_MS if job.endless else LINGER_COPY_MS
    settings: dict[str, object] = {
        "clusters": f"{alias}, {TARGET}",
        **{f"{alias}.{key}": value for key, value in source.items()},
        **{f"{TARGET}.{key}": value for key, value in target.items()},
        f"{alias}->{TARGET}.enabled": "true",
        f"{TARGET}->{alias}.enabled": "false",
        f"{alias}->{TARGET}.topics": ",".join(re.escape(topic) for topic in job.topics).replace("\\", "\\\\"),
        "tasks.max": TASKS,
        "refresh.topics.interval.seconds": 5,
    }
    settings |= dict.fromkeys(REPLICATION, replication)
    settings |= dict.fromkeys(OFF, "false")
    settings |= {f"{alias}.consumer.{key}": value for key, value in CONSUMER.items()}
    settings |= {f"{TARGET}.producer.{key}": value for key, value in PRODUCER.items()}
    settings[f"{TARGET}.producer.compression.type"] = job.codec
    settings[f"{TARGET}.producer.linger.ms"] = linger_ms
    return {key: str(value) for key, value in settings.items()}
