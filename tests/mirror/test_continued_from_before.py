"""A target that the version before has written in part is continued by this one: nothing is refused, nothing is copied
again, no topic is made again, and the end is identical (P2, P3, P4).

The version before knows no gaps and no log starts above 0: the topics here have neither.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from heliograph.lab.cluster import LabCluster
from tests.support.fault_scene import LEAST, MOST, fill
from tests.support.judge import assert_identical
from tests.support.log_reader import Deadline, LogReader
from tests.support.mirror_process import MirrorProcess, write_config
from tests.support.quota import set_read_quota
from tests.support.steady_producer import SteadyProducer
from tests.support.topics import TIMEOUT_S, create_topic
from tests.support.workload import produce_mixed

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.faults, pytest.mark.slow]

PARTITIONS = 2
SMALL, MIXED, OLD = 20_000, 2_000, 1_000  # records of each kind
DAYS_MS = 3 * 86_400_000  # records so old that the target forgets who wrote them
# What the version before may read: it takes half a minute, and can be ended amid it.
HELD_BACK_BYTES_PER_S = 300_000
GONE_LIMIT_S = 40.0
CONTINUE_S = 180.0  # old records wait until nothing of the killed run can arrive any more

Where = tuple[str, int]


class Target:
    """What the target holds of these topics; whatever else is there does not matter."""

    def __init__(self, cluster: LabCluster, topics: list[str]) -> None:
        self._cluster, self._topics = cluster, topics
        self._wheres = [(topic, partition) for topic in topics for partition in range(PARTITIONS)]

    def ids(self) -> dict[str, str]:
        admin: Any = AdminClient({"bootstrap.servers": self._cluster.bootstrap_servers})
        described = admin.describe_topics(TopicCollection(self._topics))
        return {topic: str(found.result(TIMEOUT_S).topic_id) for topic, found in described.items()}

    def ends(self) -> dict[Where, int]:
        with LogReader(self._cluster.bootstrap_servers, Deadline.after(TIMEOUT_S)) as reader:
            return {where: reader.bounds(*where).stop for where in self._wheres}

    def logs(self) -> dict[Where, bytes]:
        """Every byte of them, as the broker has them on disk; each is one segment."""
        (broker,) = self._cluster.brokers
        return {(t, p): _only_segment(broker.directory / "data" / f"{t}-{p}") for t, p in self._wheres}


def _only_segment(log: Path) -> bytes:
    (segment,) = log.glob("*.log")
    assert segment.stem == "0" * 20
    return segment.read_bytes()


def _stop(before: MirrorProcess) -> None:
    before.terminate()
    assert before.wait()[0] == 0, before.log


def _kill(before: MirrorProcess) -> None:
    family = before.family()
    os.kill(before.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(family, timeout=GONE_LIMIT_S)
    assert not alive, f"left behind by the killed driver: {alive}"


@pytest.mark.parametrize("end", [_stop, _kill], ids=["stopped", "killed"])
def test_what_the_version_before_has_begun_is_continued(
    end: Callable[[MirrorProcess], None],
    code_before: Path,
    source_cluster: LabCluster,
    target_cluster: LabCluster,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    small, mixed, old = topics = [unique_topic(stem) for stem in ("small", "mixed", "old")]
    for topic in topics:
        create_topic(source, topic, PARTITIONS)
    fill(source, small, SMALL, partitions=PARTITIONS)
    fill(source, old, OLD, partitions=PARTITIONS, age_ms=DAYS_MS)
    backlog = SMALL + OLD + produce_mixed(source, mixed, count=MIXED)
    config = write_config(tmp_path, source=source, target=target, topics=topics)
    held = Target(target_cluster, topics)

    with SteadyProducer(source, small, rate_per_s=100) as producer:
        set_read_quota(source, HELD_BACK_BYTES_PER_S)
        try:
            with MirrorProcess(config, runtime=tmp_path, code=code_before) as before:
                there = backlog + producer.count
                before.wait_until(lambda: before.copied() >= (LEAST + 0.1) * there, "a third of all copied")
                end(before)
        finally:
            set_read_quota(source, None)
        ids, ends, logs = held.ids(), held.ends(), held.logs()
        there = backlog + producer.count
        assert LEAST * there <= sum(ends.values()) <= MOST * there, f"{ends} of {there} copied"
        producer.wait_for(producer.count + 100)  # the source goes on while nobody mirrors it

        with MirrorProcess(config, runtime=tmp_path) as mirror:
            mirror.wait_until(lambda: mirror.copied() > sum(ends.values()), "more than before", CONTINUE_S)
            produced = backlog + producer.stop()
            mirror.wait_until(lambda: mirror.copied() >= produced, "everything copied", CONTINUE_S)
            rows = mirror.live()["partitions"]
            mirror.terminate()
            assert mirror.wait()[0] == 0, mirror.log

    assert "is stopped" not in mirror.log
    assert held.ids() == ids
    copied = {(row["key"][2], row["key"][3]): row["records"] for row in rows}
    assert copied == {where: stop - ends[where] for where, stop in held.ends().items()}
    assert [where for where, log in held.logs().items() if not log.startswith(logs[where])] == []
    assert_identical(source, target, topics, records=produced)
