"""Lanes and drivers are killed in each step of a build, and a leader moves while brokers clean: the same records at the
same offsets, and no filler stays (P1 to P4).

Three brokers on either side, so that every replica has to be cleaned; the source is compacted on, and written to,
meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from heliograph.cluster.admin import alter_topic_configs
from heliograph.controller import builds
from heliograph.controller.build_settings import POLICY
from heliograph.lab.cluster import LabCluster
from heliograph.model.partition_status import Aligning
from heliograph.model.states import PartitionState
from tests.support.compacted_scene import (
    CLEAN_SOON,
    assert_same_compacted,
    await_compaction,
    make_compacted,
    write_sparse,
)
from tests.support.fault_scene import is_gone
from tests.support.mirror_process import MirrorProcess, write_config
from tests.support.plain_mirror import settings_for
from tests.support.plain_run import PlainRun, plain_run
from tests.support.quota import set_write_quota
from tests.support.replicas import ReplicaView
from tests.support.topics import own_configs

pytestmark = [pytest.mark.kafka, pytest.mark.faults, pytest.mark.slow]

NODES = (1, 2, 3)
HEAP_MB = 256
COUNT = 1_000_000
FILLED_BYTES_PER_S = 400_000  # by this quota the filling takes long enough for a fault to strike amid it
CLEANED_LATE = {"log.cleaner.backoff.ms": "8000"}  # and so does the cleaning


@pytest.fixture(scope="module")
def source() -> Iterator[str]:
    with LabCluster.start(name="built-sources", brokers=3, properties=CLEAN_SOON, heap_mb=HEAP_MB) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    with LabCluster.start(
        name="built-targets", brokers=3, properties=CLEANED_LATE, heap_mb=HEAP_MB
    ) as cluster:
        yield cluster.bootstrap_servers


def make_source(source: str, topic: str) -> None:
    make_compacted(source, topic, replicas=3)
    write_sparse(source, topic, 0, COUNT, live_every=100, codec="lz4")
    await_compaction(source, topic, 0, COUNT // 50)


def phase(run: PlainRun) -> str | None:
    aligning = run.rows[0].aligning if run.rows else None
    return aligning.phase if aligning is not None else None


def fills(run: PlainRun) -> bool:
    aligning = run.rows[0].aligning if run.rows else None
    return aligning is not None and aligning.phase == "filling" and 0.2 < aligning.done / aligning.total < 0.8


async def test_a_build_is_resumed_by_whoever_comes_next_after_a_driver_is_killed_in_each_of_its_steps(
    source: str, target: str, unique_topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = unique_topic("driver-killed")
    make_source(source, topic)
    settings = settings_for(source, target, [topic])
    steps, real = asyncio.Queue[str](), alter_topic_configs

    async def alter(client: Any, name: str, changes: Any) -> None:
        steps.put_nowait("cleaning" if set(changes) == {POLICY} else "last")
        await asyncio.Event().wait()
        await real(client, name, changes)

    async with plain_run(settings) as run:
        await run.until(fills, limit_s=60.0)
        await run.kill()
    monkeypatch.setattr(builds, "alter_topic_configs", alter)
    async with plain_run(settings) as run:  # killed before the policy is changed
        assert await asyncio.wait_for(steps.get(), 180.0) == "cleaning"
        await run.kill()
    monkeypatch.setattr(builds, "alter_topic_configs", real)
    async with plain_run(settings) as run:  # while brokers clean
        await run.until(
            lambda run: phase(run) == "cleaning" and own_configs(target, topic)[POLICY] == "compact",
            limit_s=180.0,
        )
        await run.kill()
    write_sparse(source, topic, 0, 1000, live_every=10, codec="lz4", seed=2)
    monkeypatch.setattr(builds, "alter_topic_configs", alter)
    async with plain_run(settings) as run:  # and before the last settings
        assert await asyncio.wait_for(steps.get(), 180.0) == "last"
        await run.kill()
    monkeypatch.setattr(builds, "alter_topic_configs", real)
    async with plain_run(settings) as run:
        await run.until(
            lambda run: bool(run.rows) and run.states == {PartitionState.CAUGHT_UP}, limit_s=180.0
        )
    assert_same_on_every_replica(source, target, topic)


@pytest.mark.spark
def test_lanes_killed_in_each_step_and_a_leader_moved_while_cleaning_leave_the_same_records(
    source: str, target: str, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    topic = unique_topic("lane-killed")
    make_source(source, topic)
    config = write_config(tmp_path, source=source, target=target, topics=[topic])
    set_write_quota(target, FILLED_BYTES_PER_S)
    with MirrorProcess(config, runtime=tmp_path) as mirror:
        try:
            mirror.wait_until(lambda: 0.2 < part_filled(mirror) < 0.8, "part that is filled")
            kill_lane(mirror)
            # What the killed lane sent may still arrive: the marker behind all fillers has to wait for that.
            mirror.wait_until(lambda: left_to_fill(mirror) == 1, "marker that is left")
            kill_lane(mirror)
        finally:
            set_write_quota(target, None)
        mirror.wait_until(lambda: aligning(mirror).phase == "cleaning", "cleaning")
        mirror.wait_until(lambda: own_configs(target, topic)[POLICY] == "compact", "policy of the source")
        view = ReplicaView(target, topic)
        leader = view.now()[0].leader
        view.move_leaders(sorted(NODES, key=lambda node: node == leader))
        kill_lane(mirror)
        write_sparse(source, topic, 0, 1000, live_every=10, codec="lz4", seed=2)
        assert aligning(mirror).phase == "cleaning", "it was cleaned before the faults were over"
        mirror.wait_until(lambda: "[topic_built]" in mirror.log, "topic that is built", 180.0)
        kill_lane(mirror)
        mirror.wait_until(
            lambda: [row["state"] for row in rows(mirror)] == ["caught_up"], "all copied", 180.0
        )
        mirror.terminate()
        assert mirror.wait()[0] == 0, mirror.log
        assert "is stopped" not in mirror.log
    assert_same_on_every_replica(source, target, topic)


def rows(mirror: MirrorProcess) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = mirror.live().get("partitions", [])
    return found


def aligning(mirror: MirrorProcess) -> Aligning:
    found = [row["aligning"] for row in rows(mirror) if row.get("aligning")]
    return Aligning._make(found[0]) if found else Aligning("", 0, 0)


def part_filled(mirror: MirrorProcess) -> float:
    now = aligning(mirror)
    return now.done / now.total if now.phase == "filling" else 0.0


def left_to_fill(mirror: MirrorProcess) -> int | None:
    now = aligning(mirror)
    return now.total - now.done if now.phase == "filling" else None


def kill_lane(mirror: MirrorProcess) -> None:
    """One that is up, with kill -9; returns when it is gone."""
    mirror.wait_until(lambda: bool(mirror.lane_pids()), "lane")
    victim = mirror.lane_pids()[0]
    os.kill(victim, signal.SIGKILL)
    mirror.wait_until(lambda: is_gone(victim), "end of the lane")


def assert_same_on_every_replica(source: str, target: str, topic: str) -> None:
    """Each broker is made the leader in turn: consumers read its own copy."""
    view = ReplicaView(target, topic)
    view.wait_whole()
    for node in NODES:
        view.move_leaders([node, *(each for each in NODES if each != node)])
        assert view.now()[0].leader == node
        assert assert_same_compacted(source, target, topic, 0) > COUNT // 100
