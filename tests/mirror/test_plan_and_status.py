"""`plan` and `status` against real clusters, with no mirror running: right from what the clusters show."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heliograph.lab.cluster import LabCluster
from tests.support.judge import assert_identical
from tests.support.mirror_process import write_config
from tests.support.plain_mirror import mirror_plainly, settings_for
from tests.support.records import mixed_records
from tests.support.topics import create_topic, create_topic_by_line, partition_count
from tests.support.workload import produce_records

pytestmark = pytest.mark.kafka


def ask(*arguments: str, code: int = 0) -> Any:
    command = [sys.executable, "-m", "heliograph.interface.cli.main", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_plan_and_status_tell_what_is_and_what_would_be(
    source_cluster: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic = unique_topic("shown")
    create_topic(source, topic, 2, configs={"retention.ms": "7654321"})
    produce_records(source, topic, list(mixed_records(1, 30)))
    config = str(write_config(tmp_path, source=source, target=target, topics=[topic]))

    planned = ask("plan", config, "--check", "--json", code=1)
    assert [link["gaps"]["text"] for link in planned["links"]] == [
        "markers (ALTER granted), some 15,000 offsets/s"
    ]
    assert planned["create"][0]["partitions"] == 2
    assert planned["create"][0]["configs"]["retention.ms"] == "7654321"
    assert [p["backlog"] for p in planned["partitions"]] == [30, 0]
    assert [(each["action"], each["to_do"]) for each in planned["actions"]] == [
        ("create_topic", True),
        ("copy_partition", True),
        ("copy_partition", False),  # it holds nothing
    ]

    before = ask("status", config, "--json")["links"][0]
    assert (before["state"], before["lag_records"]) == ("unknown", 30)
    assert before["lag_ms"] > 0

    mirror_plainly(settings_for(source, target, [topic]))
    produce_records(source, topic, list(mixed_records(2, 5)))
    after = ask("status", config, "--json")
    assert after["schema"] == "heliograph.status/1"
    link = after["links"][0]
    assert link["source_cluster_id"] != link["target_cluster_id"]
    first = link["partitions"][0]
    assert (first["source_start"], first["source_end"], first["next_offset"], first["target_end"]) == (
        0,
        35,
        30,
        30,
    )
    assert (first["lag_records"], first["state"], first["lane"]) == (5, "unknown", None)
    in_step = ask("plan", config, "--check", "--json")
    assert (in_step["to_do"], in_step["create"]) == (False, [])
    assert [(each["action"], each["lag_records"]) for each in in_step["actions"]] == [
        ("copy_partition", 5),
        ("copy_partition", 0),
    ]
    (lagging,) = ask("status", config, "--topic", topic, "--lagging", "--json")["links"][0]["partitions"]
    assert (lagging["partition"], lagging["lag_records"]) == (0, 5)


def test_a_topic_that_is_not_to_be_created_waits_for_the_operator_who_pastes_its_line(
    source_cluster: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic = unique_topic("awaited")
    create_topic(source, topic, 2, configs={"retention.ms": "7654321"})
    produce_records(source, topic, list(mixed_records(1, 30)))
    config = str(
        write_config(tmp_path, source=source, target=target, topics=[topic], link={"create_topics": False})
    )

    planned = ask("plan", config, "--check", "--json", code=1)
    assert planned["create"] == []
    assert [(p["refused"], p["backlog"]) for p in planned["partitions"]] == [(None, 30), (None, 0)]
    (line,) = {p["hint"] for p in planned["partitions"]}
    settings = settings_for(source, target, [topic], create_topics=False)
    assert mirror_plainly(settings)[1] == {}
    with pytest.raises(LookupError):
        partition_count(target, topic)

    create_topic_by_line(line)
    mirror_plainly(settings)
    assert_identical(source, target, [topic], records=30)
    assert ask("plan", config, "--check", "--json")["partitions"][0]["pending"] is None
