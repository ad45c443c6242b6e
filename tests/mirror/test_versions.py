"""Real brokers of old releases as sources, and the oldest targets: every record at its offset, judged by an independent
consumer. What each can do is compared with the tables of docs/VERSIONS.md, cell by cell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from heliograph.cluster.admin import delete_topic
from heliograph.cluster.client import CONTROL, ClusterClient
from heliograph.cluster.log_reads import read_batch, read_span
from heliograph.cluster.properties import parse_properties
from heliograph.lab.cluster import LabCluster
from heliograph.model.errors import ClusterUnreachable, ConfigError
from heliograph.model.partition import TopicPartition
from heliograph.model.states import PartitionState
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.fetch import FETCH_FLEXIBLE_FROM
from tests.support.judge import assert_identical
from tests.support.old_kafka import (
    NO_CREATE_TOPICS,
    NO_TRANSACTIONS,
    codecs_of,
    create_by_asking,
    heliograph_properties,
    librdkafka_settings,
    number_of,
    produce_as,
)
from tests.support.plain_mirror import settings_for
from tests.support.plain_run import plain_run
from tests.support.records import mixed_records
from tests.support.topics import create_topic, delete_records, own_configs
from tests.support.workload import produce_transaction

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SOURCES = ["0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "1.1.1", "2.4.1", "2.8.2", "3.3.2"]
TARGETS = [("2.8.2", 2), ("3.3.2", 1)]
PARTITIONS = 2
RECORDS = 300  # of each codec, the largest of 900 KB
LIMIT_S = 150.0  # records without a time are old ones: a lane waits until nothing of another can arrive
RETENTION_MS = "1234567890"
DOCUMENT = Path(__file__).parents[2] / "docs" / "VERSIONS.md"
PRODUCE_BY_ID_FROM = 13


def documented(first_column: str) -> dict[str, dict[str, str]]:
    """The rows of the table whose first column is called that, by release, as column -> cell."""
    rows: dict[str, dict[str, str]] = {}
    columns: list[str] = []
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if cells and cells[0] == first_column:
            columns = cells
        elif not cells:
            columns = []
        elif columns and not re.fullmatch(r"-+", cells[0]):
            rows[cells[0]] = dict(zip(columns[1:], cells[1:], strict=True))
    return rows


async def mirror_all(source: LabCluster, target: LabCluster, topics: list[str]) -> list[str]:
    """A whole run, until all is copied; what it warned of."""
    settings = settings_for(source.bootstrap_servers, target.bootstrap_servers, topics)
    properties = {**settings.clusters["src"], **heliograph_properties(source.kafka)}
    settings = replace(settings, clusters={**settings.clusters, "src": properties})
    async with plain_run(settings) as run:
        await run.until(lambda seen: bool(seen.rows) and seen.states == {PartitionState.CAUGHT_UP}, LIMIT_S)
        return [each.message for each in run.mirror.outbox.last]


def judge(source: LabCluster, target: LabCluster, topics: list[str]) -> int:
    verdict = assert_identical(
        source.bootstrap_servers,
        target.bootstrap_servers,
        topics,
        source_settings=librdkafka_settings(source.kafka),
    )
    return verdict.records


async def connected(cluster: LabCluster, properties: Mapping[str, str], topic: str) -> ClusterClient:
    client = ClusterClient(
        "seen", parse_properties({"bootstrap.servers": cluster.bootstrap_servers, **properties})
    )
    client.follow([topic])
    await client.connect()
    return client


async def needs(cluster: LabCluster, topic: str) -> str:
    """What must be set to reach it at all."""
    try:
        await (await connected(cluster, {}, topic)).aclose()
    except ClusterUnreachable:
        with pytest.raises(ConfigError, match=r"cluster\.id"):
            await connected(cluster, {"broker.version.fallback": cluster.kafka}, topic)
        return "`broker.version.fallback`, `cluster.id`"
    return "none"


async def seen_of_source(cluster: LabCluster, topic: str, *, configs_copied: bool) -> dict[str, str]:
    """As the table has it."""
    client = await connected(cluster, heliograph_properties(cluster.kafka), topic)
    try:
        where = TopicPartition(topic, 0)
        leader = client.leader(where)
        assert leader is not None
        first = await read_batch(client, where, (await read_span(client, where)).start)
        assert first is not None
        versions = (await client.connection(leader.node, CONTROL)).versions
        by_id = bool(client.metadata.topic_id(topic))
        return {
            "needs": await needs(cluster, topic),
            "message format": str(first[0].magic),
            "identical offsets": "yes",  # what the judge has said
            "transactions": "yes" if number_of(cluster.kafka) >= NO_TRANSACTIONS else "has none",
            "configs copied": "yes" if configs_copied else "no",
            "`start` by time": "by record" if versions[ApiKey.LIST_OFFSETS][1] >= 1 else "by segment",
            "lag in ms": "yes" if first[0].magic else "no",
            "truncation seen": "at once"
            if versions[ApiKey.FETCH][1] >= FETCH_FLEXIBLE_FROM
            else "by the logs",
            "recreation seen": "by id" if by_id else "by epochs" if leader.epoch >= 0 else "by the logs",
        }
    finally:
        await client.aclose()


def prepare(cluster: LabCluster, topic: str) -> None:
    if number_of(cluster.kafka) < NO_CREATE_TOPICS:
        create_by_asking(cluster.kafka, cluster.bootstrap_servers, topic, PARTITIONS)
    else:
        create_topic(cluster.bootstrap_servers, topic, PARTITIONS, configs={"retention.ms": RETENTION_MS})


def write(cluster: LabCluster, topic: str, seed: int) -> None:
    for nth, codec in enumerate(codecs_of(cluster.kafka)):
        produce_as(cluster.kafka, cluster.bootstrap_servers, topic, mixed_records(seed + nth, RECORDS), codec)
    if number_of(cluster.kafka) >= NO_TRANSACTIONS:
        for commit in (True, False, True):
            produce_transaction(cluster.bootstrap_servers, topic, mixed_records(seed, 20), commit=commit)


@pytest.mark.parametrize("kafka", SOURCES)
async def test_a_source_of_any_release_is_mirrored_as_the_table_says(
    kafka: str, target_cluster: LabCluster
) -> None:
    topic = f"from-{kafka}"
    made_by_brokers = {"auto.create.topics.enable": "true", "num.partitions": str(PARTITIONS)}
    with LabCluster.start(name=f"source-{kafka}", kafka=kafka, properties=made_by_brokers) as source:
        prepare(source, topic)
        write(source, topic, seed=1)
        await mirror_all(source, target_cluster, [topic])
        first = judge(source, target_cluster, [topic])
        write(source, topic, seed=100)
        await mirror_all(source, target_cluster, [topic])  # goes on inside of what was made of old formats
        assert judge(source, target_cluster, [topic]) > first > RECORDS
        copied = own_configs(target_cluster.bootstrap_servers, topic).get("retention.ms") == RETENTION_MS
        seen = await seen_of_source(source, topic, configs_copied=copied)
    assert seen == documented("source")[kafka]


@pytest.mark.parametrize(("kafka", "brokers"), TARGETS)
async def test_a_target_of_any_supported_release_holds_a_mirror_as_the_table_says(
    kafka: str, brokers: int, source_cluster: LabCluster
) -> None:
    """With ZooKeeper and two brokers every other request would go to one that is not the controller."""
    plain, moved = f"to-{kafka}", f"moved-to-{kafka}"
    topics = [plain, moved]
    for topic in topics:
        create_topic(source_cluster.bootstrap_servers, topic, PARTITIONS)
        write(source_cluster, topic, seed=1)
    delete_records(source_cluster.bootstrap_servers, moved, 0, before_offset=111)
    with LabCluster.start(name=f"target-{kafka}", kafka=kafka, brokers=brokers) as target:
        told = await mirror_all(source_cluster, target, topics)
        assert not [message for message in told if "NOT_CONTROLLER" in message]
        judge(source_cluster, target, topics)
        client = await connected(target, {}, plain)
        versions = (await client.connection(1, CONTROL)).versions
        topic_id = client.metadata.topic_id(plain)
        seen = {
            "identical offsets": "yes",
            "transactions": "yes",
            "log start above 0": "yes",
            "`topics remirror`": "yes" if topic_id else "no",
            "appends by topic id": "yes" if versions[ApiKey.PRODUCE][1] >= PRODUCE_BY_ID_FROM else "no",
        }
        await delete_topic(client, topic_id)
        await client.aclose()
        await mirror_all(source_cluster, target, topics)
        judge(source_cluster, target, topics)
    assert seen == documented("target")[kafka]
