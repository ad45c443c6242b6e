"""Compacted topics with holes are built on the target: the same records at the same offsets, and no filler stays.

Real brokers and whole runs; judged by an independent consumer (tests/support/compacted_scene.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from heliograph.cluster.admin import alter_topic_configs
from heliograph.controller import builds
from heliograph.controller.build_settings import POLICY
from heliograph.lab.cluster import LabCluster
from heliograph.model.states import PartitionState
from tests.support.compacted_scene import (
    CLEAN_SOON,
    TAIL,
    assert_same_compacted,
    await_compaction,
    make_compacted,
    stop_compaction,
    write_sparse,
)
from tests.support.plain_mirror import settings_for
from tests.support.plain_run import PlainRun, plain_run
from tests.support.topics import own_configs

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def source() -> Iterator[str]:
    with LabCluster.start(name="sparse-source", properties=CLEAN_SOON) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    with LabCluster.start(name="sparse-target", properties=CLEAN_SOON) as cluster:
        yield cluster.bootstrap_servers


@pytest.mark.parametrize("codec", ["zstd", "none"])
async def test_a_compacted_topic_is_built_and_then_copied_on(
    source: str, target: str, unique_topic: Callable[[str], str], codec: str
) -> None:
    topic, count = unique_topic(f"sparse-{codec}"), 200_000
    make_compacted(source, topic, partitions=2, configs={"retention.ms": "123456789"})
    for partition in (0, 1):
        write_sparse(source, topic, partition, count, live_every=100, codec=codec)
    for partition in (0, 1):
        await_compaction(source, topic, partition, count // 50)
    stop_compaction(source, topic)
    async with plain_run(settings_for(source, target, [topic])) as run:
        await run.until(
            lambda run: bool(run.rows) and run.states == {PartitionState.CAUGHT_UP}, limit_s=120.0
        )
        write_sparse(source, topic, 0, 50, live_every=1, codec=codec, seed=1)
        ends = {count + TAIL, count + 50 + 2 * TAIL}
        await run.until(lambda run: {row.next_offset for row in run.rows} == ends)
        assert {"topic_filled", "topic_built"} <= set(run.codes)
    for partition in (0, 1):
        assert assert_same_compacted(source, target, topic, partition) > count // 100
    own = own_configs(target, topic)
    assert (own["cleanup.policy"], own["retention.ms"]) == ("compact", "123456789")
    assert float(own["min.cleanable.dirty.ratio"]) == 1  # as at the source


@pytest.fixture(scope="module")
def three_targets() -> Iterator[str]:
    with LabCluster.start(name="sparse-targets", brokers=3, properties=CLEAN_SOON, heap_mb=256) as cluster:
        yield cluster.bootstrap_servers


def phase(run: PlainRun) -> str | None:
    aligning = run.rows[0].aligning if run.rows else None
    return aligning.phase if aligning is not None else None


def fills(run: PlainRun) -> bool:
    aligning = run.rows[0].aligning if run.rows else None
    return aligning is not None and aligning.phase == "filling" and 0.2 < aligning.done / aligning.total < 0.8


@pytest.mark.slow
async def test_a_build_is_resumed_by_whoever_comes_next_after_a_kill_in_each_of_its_steps(
    source: str, three_targets: str, unique_topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compaction goes on at the source meanwhile, and new records come. Every step has three replicas."""
    topic, count = unique_topic("sparse-killed"), 1_000_000
    make_compacted(source, topic)
    write_sparse(source, topic, 0, count, live_every=100, codec="lz4")
    await_compaction(source, topic, 0, count // 50)
    settings = settings_for(source, three_targets, [topic])
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
            lambda run: phase(run) == "cleaning" and own_configs(three_targets, topic)[POLICY] == "compact",
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
    assert assert_same_compacted(source, three_targets, topic, 0) > count // 100
