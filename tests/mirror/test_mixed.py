"""A whole run on real Spark copies whatever producers write, offset for offset (P1, P4, P5)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from heliograph.lab.cluster import LabCluster
from tests.support.java_producer import produce_mixed_with_java
from tests.support.judge import assert_identical
from tests.support.mirror_process import MirrorProcess, write_config
from tests.support.topics import create_topic
from tests.support.workload import produce_mixed

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def _mirror_and_judge(source: str, target: str, topics: list[str], directory: Path) -> None:
    config = write_config(directory, source=source, target=target, topics=topics)
    with MirrorProcess(config, "--until-caught-up", "--json", runtime=directory) as mirror:
        result = mirror.result()
    assert result["caught_up"]
    verdict = assert_identical(source, target, topics)
    assert verdict.records == result["copied_records"] > 0


def test_everything_librdkafka_and_the_java_client_write_arrives_as_it_was(
    source_cluster: LabCluster,
    target_cluster: LabCluster,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topics = [unique_topic(stem) for stem in ("orders", "payments", "clicks")]
    for topic in topics:
        create_topic(source, topic, 6)
    produce_mixed(source, *topics, count=6000, seed=1)
    produce_mixed_with_java(source, *topics, count=1500, seed=2)
    _mirror_and_judge(source, target, topics, tmp_path)


@pytest.mark.slow
def test_a_3_9_source_is_mirrored_to_a_4_3_target(
    target_cluster: LabCluster, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    topic = unique_topic("old")
    with LabCluster.start(name="old", kafka="3.9.1") as old:
        create_topic(old.bootstrap_servers, topic, 3)
        produce_mixed(old.bootstrap_servers, topic, count=2000, seed=3)
        _mirror_and_judge(old.bootstrap_servers, target_cluster.bootstrap_servers, [topic], tmp_path)


@pytest.mark.slow
def test_clusters_of_three_brokers_with_replication_3_are_mirrored(tmp_path: Path) -> None:
    with (
        LabCluster.start(name="source3", brokers=3) as source,
        LabCluster.start(name="target3", brokers=3) as target,
    ):
        create_topic(source.bootstrap_servers, "replicated", 6, replication_factor=3)
        produce_mixed(source.bootstrap_servers, "replicated", count=3000, seed=4)
        _mirror_and_judge(source.bootstrap_servers, target.bootstrap_servers, ["replicated"], tmp_path)
