"""Traps that must stop a partition, in one real run while others are copied: loud, before harm, and alone (P6, P7)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heliograph.lab.cluster import LabCluster
from heliograph.model.states import PartitionState, StopReason
from tests.support.fault_scene import LEAST, MOST, SLOWLY, fill
from tests.support.judge import assert_identical
from tests.support.log_reader import read_topic
from tests.support.mirror_process import MirrorProcess, write_config
from tests.support.quota import set_read_quota
from tests.support.records import Record
from tests.support.replicas import set_topic_config
from tests.support.steady_producer import SteadyProducer
from tests.support.topics import create_topic, delete_topic
from tests.support.workload import produce_records

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.faults, pytest.mark.slow]

PARTITIONS = 2
BACKLOG = 12_000
PACE_BYTES_PER_S = 400_000
STOPPED = PartitionState.STOPPED


def _rows(mirror: MirrorProcess, topic: str) -> list[dict[str, Any]]:
    return [row for row in mirror.live().get("partitions", []) if row["key"][1] == topic]


def _is_all(mirror: MirrorProcess, topic: str, state: str) -> bool:
    rows = _rows(mirror, topic)
    return len(rows) == PARTITIONS and all(row["state"] == state for row in rows)


def _write(bootstrap: str, topic: str, *, size_bytes: int, count: int = 1) -> None:
    now_ms = int(time.time() * 1000)
    produce_records(bootstrap, topic, [Record(value=b"x" * size_bytes, timestamp_ms=now_ms)] * count)


def test_three_traps_stop_their_topics_and_a_fourth_topic_is_copied_on(
    source_cluster: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    large, recreated, foreign, fine = topics = [
        unique_topic(stem) for stem in ("large", "recreated", "foreign", "fine")
    ]
    for topic in topics:
        create_topic(source, topic, PARTITIONS)
    config = write_config(tmp_path, source=source, target=target, topics=topics, link=SLOWLY)
    with (
        SteadyProducer(source, fine, rate_per_s=100) as steady,
        SteadyProducer(source, foreign, rate_per_s=100) as beside,
    ):
        mirror = MirrorProcess(config, runtime=tmp_path)
        with mirror:
            mirror.wait_until(lambda: _is_all(mirror, large, "caught_up"), "idle copies")
            set_topic_config(target, large, "max.message.bytes", "20000")
            for size_bytes in (50_000, 10, 10):
                _write(source, large, size_bytes=size_bytes, count=PARTITIONS)
            mirror.wait_until(lambda: any(r["state"] == STOPPED for r in _rows(mirror, large)), "a stop")

            set_read_quota(source, PACE_BYTES_PER_S)
            try:
                fill(source, recreated, BACKLOG, partitions=PARTITIONS)
                mirror.wait_until(lambda: _copied(mirror, recreated) >= 0.25 * BACKLOG, "a start")
                assert LEAST * BACKLOG <= _copied(mirror, recreated) <= MOST * BACKLOG
                delete_topic(target, recreated)
                create_topic(target, recreated, PARTITIONS)
            finally:
                set_read_quota(source, None)
            mirror.wait_until(lambda: _is_all(mirror, recreated, STOPPED), "stops of the recreated topic")
            mirror.terminate()
            assert mirror.wait()[0] == 0, mirror.log
            for reason in (StopReason.TOO_LARGE, StopReason.RECREATED):
                assert str(reason) in mirror.log

        assert (
            read_topic(target, recreated) == [[]] * PARTITIONS
        )  # the next start may fill it: it is new, and empty
        _write(target, foreign, size_bytes=7)
        before = read_topic(target, foreign)
        with MirrorProcess(config, runtime=tmp_path) as again:
            again.wait_until(lambda: any(r["state"] == STOPPED for r in _rows(again, foreign)), "a stop")
            again.wait_until(lambda: len(read_topic(target, fine)[0]) > len(before[0]), "the fine one's copy")
            produced = steady.stop()
            beside.stop()
            again.wait_until(lambda: _copied(again, fine) >= produced, "all of the fine topic")
            again.terminate()
            assert again.wait()[0] == 0, again.log
            assert str(StopReason.FOREIGN) in again.log
    assert all(len(record.value or b"") < 50_000 for log in read_topic(target, large) for record in log)
    held = [log for log in read_topic(target, foreign) if any(r.value == b"x" * 7 for r in log)]
    assert len(held) == 1
    assert held[0][-1].value == b"x" * 7  # nothing was written behind it
    assert_identical(source, target, [fine], records=produced)


def _copied(mirror: MirrorProcess, topic: str) -> int:
    return sum(row["next_offset"] for row in _rows(mirror, topic))
