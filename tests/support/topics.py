"""Topics of a test: made and ready, cut at the start, and gone again.

Owns the wait between "created" and "every partition has a leader".
Must not know records.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
)

TIMEOUT_S = 30.0
POLL_S = 0.05


def create_topic(
    bootstrap: str,
    name: str,
    partitions: int = 1,
    replication_factor: int = 1,
    configs: Mapping[str, str] | None = None,
) -> None:
    """Returns when all leaders are known."""
    admin = _admin(bootstrap)
    topic = NewTopic(name, partitions, replication_factor, config=dict(configs or {}))
    for created in admin.create_topics([topic], operation_timeout=TIMEOUT_S).values():
        created.result(TIMEOUT_S)
    _wait_for_leaders(admin, name, partitions)


def create_topics(bootstrap: str, names: Sequence[str], partitions: int = 1) -> None:
    """All with one request; they may have no leaders yet."""
    admin = _admin(bootstrap)
    wanted = [NewTopic(name, partitions, 1) for name in names]
    for created in admin.create_topics(wanted, operation_timeout=TIMEOUT_S).values():
        created.result(TIMEOUT_S)


def create_topic_by_line(line: str) -> None:
    """Do what the `kafka-topics.sh --create` line says."""
    words = shlex.split(line)
    assert words[0] == "kafka-topics.sh"
    assert "--create" in words
    value = {word: words[at + 1] for at, word in enumerate(words[:-1])}
    configs = [words[at + 1] for at, word in enumerate(words) if word == "--config"]
    create_topic(
        value["--bootstrap-server"],
        value["--topic"],
        int(value["--partitions"]),
        int(value["--replication-factor"]),
        dict(each.split("=", 1) for each in configs),
    )


def delete_topic(bootstrap: str, name: str) -> None:
    admin = _admin(bootstrap)
    for deleted in admin.delete_topics([name], operation_timeout=TIMEOUT_S).values():
        deleted.result(TIMEOUT_S)


def add_partitions(bootstrap: str, name: str, partitions: int) -> None:
    """So that it has so many in all; returns when all leaders are known."""
    admin = _admin(bootstrap)
    for added in admin.create_partitions(
        [NewPartitions(name, partitions)], operation_timeout=TIMEOUT_S
    ).values():
        added.result(TIMEOUT_S)
    _wait_for_leaders(admin, name, partitions)


def delete_records(bootstrap: str, topic: str, partition: int, *, before_offset: int) -> None:
    """Moves the log's start to `before_offset`."""
    cut = TopicPartition(topic, partition, before_offset)
    admin = _admin(bootstrap)  # kept by name: a client that is collected answers its futures never
    for deleted in admin.delete_records([cut]).values():
        deleted.result(TIMEOUT_S)


def set_config(bootstrap: str, topic: str, key: str, value: str) -> None:
    _alter(bootstrap, topic, ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET))


def unset_config(bootstrap: str, topic: str, key: str) -> None:
    _alter(bootstrap, topic, ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE))


def _alter(bootstrap: str, topic: str, entry: ConfigEntry) -> None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = _admin(bootstrap)  # it must live as long as what it was asked
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(TIMEOUT_S)


def own_configs(bootstrap: str, topic: str) -> dict[str, str]:
    """What was set on the topic itself."""
    admin = _admin(bootstrap)
    (found,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
    entries = found.result(TIMEOUT_S).values()
    return {e.name: e.value for e in entries if e.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value}


def partition_count(bootstrap: str, topic: str) -> int:
    found = _admin(bootstrap).list_topics(timeout=TIMEOUT_S).topics.get(topic)
    if found is None or not found.partitions:
        raise LookupError(f"{bootstrap} has no topic {topic!r}")
    return len(found.partitions)


def _wait_for_leaders(admin: Any, name: str, partitions: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not _has_leaders(admin, name, partitions):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{name!r} has no leader for all {partitions} partitions after {TIMEOUT_S} s")
        time.sleep(POLL_S)


def _has_leaders(admin: Any, name: str, partitions: int) -> bool:
    found = admin.list_topics(timeout=TIMEOUT_S).topics.get(name)
    if found is None or found.error is not None or len(found.partitions) != partitions:
        return False
    return all(each.leader >= 0 and each.error is None for each in found.partitions.values())


def _admin(bootstrap: str) -> Any:
    return AdminClient({"bootstrap.servers": bootstrap})
