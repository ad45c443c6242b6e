"""A run of a link that creates no topics: what is there is copied, the rest waits for an operator (P7)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from heliograph.lab.cluster import LabCluster
from tests.support.judge import assert_identical
from tests.support.mirror_process import MirrorProcess, write_config
from tests.support.records import mixed_records
from tests.support.topics import create_topic, create_topic_by_line
from tests.support.workload import produce_records

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def test_a_missing_topic_is_pending_and_copied_by_the_next_start_that_finds_it(
    source_cluster: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    there, missing = unique_topic("there"), unique_topic("missing")
    for topic in (there, missing):
        create_topic(source, topic)
        produce_records(source, topic, list(mixed_records(1, 30)))
    create_topic(target, there)
    config = write_config(
        tmp_path, source=source, target=target, topics=[there, missing], link={"create_topics": False}
    )
    with MirrorProcess(config, "--until-caught-up", "--json", runtime=tmp_path) as run:
        code, out = run.wait()
    assert code == 1, run.log
    result = json.loads(out)
    rows = {row["source_topic"]: row for row in result["partitions"]}
    assert not result["caught_up"]
    assert (rows[there]["state"], rows[there]["error"]) == ("caught_up", None)
    assert rows[missing]["state"] == "pending"
    assert "[topic_missing]" in run.log
    assert_identical(source, target, [there], records=30)

    create_topic_by_line(rows[missing]["hint"])
    with MirrorProcess(config, "--until-caught-up", "--json", runtime=tmp_path) as run:
        assert run.result()["caught_up"]
    assert_identical(source, target, [there, missing], records=60)
