"""How long a compacted topic takes from nothing to a clean copy: `heliograph run` as its users start it, with Spark.

The source is written by an independent client and compacted by its own broker: one record in a hundred stays. Target
brokers look for work as often as they do by default (`log.cleaner.backoff.ms`, 15 s).
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from bench.clusters import QUIET, BenchCluster, ClusterPair
from bench.fill import SETTINGS, send
from bench.heliograph_run import MASTER

LIVE_EVERY = 100
TAIL = 10  # records behind what is compacted: brokers leave the segment alone that is written
SEGMENT_MS = 1000
EAGER = {"cleanup.policy": "compact", "segment.ms": str(SEGMENT_MS), "min.cleanable.dirty.ratio": "0.01"}
CALM = {"segment.ms": "604800000", "min.cleanable.dirty.ratio": "0.5"}
LIMIT_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildTime:
    """From the start of the command to its end: the topic is clean on every replica, and its last record is there."""

    offsets: int
    live: int
    seconds: float


def measure_build(pair: ClusterPair, *, offsets: int) -> BuildTime:
    topic = f"compacted-{offsets}"
    _make_compacted(pair.source, topic, offsets)
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "heliograph.yaml"
        config.write_text(yaml.safe_dump(_config(pair, topic)))
        began = time.monotonic()
        _run(config)
        seconds = time.monotonic() - began
    live = _offsets_of(pair.source, topic)
    assert _offsets_of(pair.target, topic) == live, "the copy does not hold the source's records alone"
    return BuildTime(offsets=offsets, live=len(live), seconds=seconds)


def _run(config: Path) -> None:
    heliograph = str(Path(sys.executable).with_name("heliograph"))
    command = [heliograph, "run", "--config", str(config), "--until-caught-up"]
    subprocess.run(command, check=True, timeout=LIMIT_S, stdout=subprocess.DEVNULL)


def _config(pair: ClusterPair, topic: str) -> dict[str, object]:
    servers = {"source": pair.source.bootstrap_servers, "target": pair.target.bootstrap_servers}
    return {
        "version": 1,
        "clusters": {name: {"bootstrap.servers": each} for name, each in servers.items()},
        "links": {"bench": {"source": "source", "target": "target", "topics": [re.escape(topic)]}},
        "spark": {"master": MASTER},
    }


def _make_compacted(source: BenchCluster, topic: str, offsets: int) -> None:
    for made in source.admin.create_topics([NewTopic(topic, 1, source.replication, config=EAGER)]).values():
        made.result()
    producer = Producer(
        {**SETTINGS, "bootstrap.servers": source.bootstrap_servers, "compression.type": "zstd"}
    )
    for number in range(offsets - TAIL):
        key = f"live {number}" if number % LIVE_EVERY == 0 else "hot"
        send(producer, topic, key=key, value=b"value %d" % number, partition=0)
    assert producer.flush(LIMIT_S) == 0, "records could not be produced"
    time.sleep(2 * SEGMENT_MS / 1000)  # by the records' times what follows begins another segment
    for number in range(TAIL):
        send(producer, topic, key=f"tail {number}", value=b"tail", partition=0)
    assert producer.flush(LIMIT_S) == 0, "records could not be produced"
    give_up_at, most = time.monotonic() + LIMIT_S, offsets // LIVE_EVERY + TAIL + 1
    while len(_offsets_of(source, topic)) > most:
        assert time.monotonic() < give_up_at, "the source is not compacted"
        time.sleep(2.0)
    _set(source, topic, CALM)


def _set(cluster: BenchCluster, topic: str, configs: dict[str, str]) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    for done in cluster.admin.incremental_alter_configs([resource]).values():
        done.result()


def _offsets_of(cluster: BenchCluster, topic: str) -> set[int]:
    """Of all records that a consumer reads."""
    consumer: Any = Consumer(
        {
            **QUIET,
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: set[int] = set()
    try:
        while True:
            some = consumer.consume(50_000, timeout=5.0)
            found.update(each.offset() for each in some if each.error() is None)
            if any(each.error() is not None for each in some):
                return found
    finally:
        consumer.close()
