"""Compacted topics with holes are built on the target: the same records at the same offsets, and no filler stays.

Real brokers and whole runs; judged by an independent consumer (tests/support/compacted_scene.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from heliograph.lab.cluster import LabCluster
from heliograph.model.states import PartitionState
from tests.support.compacted_scene import (
    CLEAN_SOON,
    TAIL,
    assert_same_compacted,
    await_compaction,
    bounds_of,
    make_compacted,
    stop_compaction,
    write_changelog,
    write_hot,
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


def caught_up(run: PlainRun) -> bool:
    return bool(run.rows) and run.states == {PartitionState.CAUGHT_UP}


@pytest.mark.parametrize("codec", ["zstd", "none"])
async def test_a_compacted_topic_is_built_and_then_copied_on(
    source: str, target: str, unique_topic: Callable[[str], str], codec: str
) -> None:
    """2,000,000 offsets, of which one in a hundred holds a record."""
    topic, count = unique_topic(f"sparse-{codec}"), 1_000_000
    make_compacted(source, topic, partitions=2, configs={"retention.ms": "123456789"})
    for partition in (0, 1):
        write_sparse(source, topic, partition, count, live_every=100, codec=codec)
    for partition in (0, 1):
        await_compaction(source, topic, partition, count // 50)
    stop_compaction(source, topic)
    async with plain_run(settings_for(source, target, [topic])) as run:
        await run.until(caught_up, limit_s=120.0)
        write_sparse(source, topic, 0, 50, live_every=1, codec=codec, seed=1)
        ends = {count + TAIL, count + 50 + 2 * TAIL}
        await run.until(lambda run: {row.next_offset for row in run.rows} == ends)
        assert {"topic_filled", "topic_built"} <= set(run.codes)
    for partition in (0, 1):
        assert assert_same_compacted(source, target, topic, partition) > count // 100
    own = own_configs(target, topic)
    assert (own["cleanup.policy"], own["retention.ms"]) == ("compact", "123456789")
    assert float(own["min.cleanable.dirty.ratio"]) == 1  # as at the source


async def test_what_is_empty_before_the_first_record_is_aligned_and_not_filled(
    source: str, target: str, unique_topic: Callable[[str], str]
) -> None:
    """No record of the first 300,000 offsets is left, and the source's log still starts at 0."""
    topic, empty = unique_topic("late-first"), 300_000
    make_compacted(source, topic)
    write_hot(source, topic, empty)
    write_sparse(source, topic, 0, 50_000, live_every=100, codec="zstd")
    await_compaction(source, topic, 0, 1000)
    stop_compaction(source, topic)
    assert bounds_of(source, topic, 0).start == 0
    async with plain_run(settings_for(source, target, [topic])) as run:
        await run.until(caught_up, limit_s=120.0)
        assert "topic_built" in run.codes
    async with plain_run(
        settings_for(source, target, [topic])
    ) as run:  # by another run it is taken for what it is
        write_sparse(source, topic, 0, 50, live_every=1, codec="zstd", seed=1)
        end = bounds_of(source, topic, 0).stop
        await run.until(lambda run: {row.next_offset for row in run.rows} == {end})
    assert assert_same_compacted(source, target, topic, 0) > 500
    assert bounds_of(target, topic, 0).start > empty - 10_000


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
async def test_the_changelog_of_an_exactly_once_application_is_built(
    source: str, target: str, unique_topic: Callable[[str], str], policy: str
) -> None:
    """Transactions, committed and aborted: what compaction leaves of them, their markers, and what it has not met."""
    topic = unique_topic("changelog")
    make_compacted(source, topic, configs={"cleanup.policy": policy})
    committed = write_changelog(source, topic, transactions=200, records=500)
    await_compaction(source, topic, 0, committed // 10)
    stop_compaction(source, topic)
    write_changelog(source, topic, transactions=20, records=5)
    async with plain_run(settings_for(source, target, [topic])) as run:
        await run.until(caught_up, limit_s=120.0)
        write_changelog(source, topic, transactions=20, records=5)
        end = bounds_of(source, topic, 0).stop
        await run.until(lambda run: {row.next_offset for row in run.rows} == {end})
        assert "topic_built" in run.codes
    assert bounds_of(target, topic, 0).stop == end
    for isolation in ("read_committed", "read_uncommitted"):  # nothing aborted is on the target
        assert assert_same_compacted(source, target, topic, 0, target_isolation=isolation) > 100
    assert own_configs(target, topic)["cleanup.policy"] == policy
