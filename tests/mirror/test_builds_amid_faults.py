"""Drivers and lanes are killed in each step of a build, and a leader moves while brokers clean: the same records at the
same offsets, and no filler stays (P1 to P4).

Three brokers on either side, so that every replica has to be cleaned. The source holds old records, which brokers
compare with nothing, and fresh ones; it is written to meanwhile, and compacted, which is asserted: what a run has read
is gone when the next one looks.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heliograph.cluster.admin import alter_topic_configs
from heliograph.cluster.batch_target import BatchTarget
from heliograph.controller import builds
from heliograph.controller.build_settings import POLICY
from heliograph.lab.cluster import LabCluster
from heliograph.model.partition_status import Aligning
from heliograph.model.settings import Settings
from heliograph.model.states import BuildPhase, PartitionState
from tests.support.compacted_scene import (
    CLEAN_SOON,
    SEGMENT_MS,
    assert_same_compacted,
    await_compaction,
    bounds_of,
    make_compacted,
    records_of,
    write_hot,
    write_sparse,
)
from tests.support.fault_scene import is_gone
from tests.support.mirror_process import MirrorProcess, write_config
from tests.support.plain_mirror import settings_for
from tests.support.plain_run import PlainRun, plain_run
from tests.support.quota import set_write_quota
from tests.support.records import Record
from tests.support.replicas import ReplicaView
from tests.support.steady_producer import SteadyProducer
from tests.support.topics import own_configs
from tests.support.workload import ConfirmedProducer

pytestmark = [pytest.mark.kafka, pytest.mark.faults, pytest.mark.slow]

NODES = (1, 2, 3)
HEAP_MB = 256
EMPTY, SPARSE, DENSE = 1_000_000, 300_000, 2_000  # offsets of the source; the second of them twice
LIVE_EVERY = 20
LIVE = SPARSE // LIVE_EVERY
OLD_MS = 3 * 86_400_000
WRITTEN_PER_S = 60  # so that it takes minutes until all are written again
QUICK = {"request.timeout.ms": "8000"}  # what a run that was killed has sent is waited for that long
QUOTA_BYTES_PER_S = 150_000  # by it aligning and filling take long enough for a fault to strike amid them
CLEANED_LATE = {"log.cleaner.backoff.ms": "6000"}  # and so does the cleaning
STEP_LIMIT_S = 120.0
HEARD_S = 1.0  # until every broker has heard of a new leader


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


# -- the source


class Compacted:
    """A compacted topic: nothing is left of its first offsets, then come old records with holes between them, old ones
    without, and fresh ones with holes. `going_on`: keys of the fresh ones are written again, and compacted."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self.topic = bootstrap, topic
        make_compacted(bootstrap, topic, replicas=3)
        old_ms = int(time.time() * 1000) - OLD_MS
        write_hot(bootstrap, topic, EMPTY)
        write_sparse(bootstrap, topic, 0, SPARSE, live_every=LIVE_EVERY, codec="lz4", timestamp_ms=old_ms)
        producer = ConfirmedProducer(bootstrap, codec="lz4")
        for number in range(DENSE):
            producer.send(topic, 0, Record(key=b"dense %d" % number, value=b"old", timestamp_ms=old_ms))
        producer.confirm()
        write_sparse(bootstrap, topic, 0, SPARSE, live_every=LIVE_EVERY, codec="lz4", seed=1)
        await_compaction(bootstrap, topic, 0, DENSE + 3 * LIVE)
        self._at_first = set(records_of(bootstrap, topic, 0))
        self.first_record = min(self._at_first)
        assert self.first_record > EMPTY - 10_000
        assert bounds_of(bootstrap, topic, 0).start == 0

    def going_on(self) -> SteadyProducer:
        return SteadyProducer(self._bootstrap, self.topic, rate_per_s=WRITTEN_PER_S, make=_live_again)

    def removed(self) -> int:
        """How many of its first records compaction has removed since."""
        return len(self._at_first - records_of(self._bootstrap, self.topic, 0).keys())

    def await_removed(self, above: int) -> int:
        """Until more than so many are gone; how many are."""
        give_up_at = time.monotonic() + STEP_LIMIT_S
        while (now := self.removed()) <= above:
            assert time.monotonic() < give_up_at, "the source is not compacted meanwhile"
            time.sleep(SEGMENT_MS / 1000)
        return now


def _live_again(number: int) -> Record:
    key = b"1 live %d" % (number % LIVE * LIVE_EVERY)
    return Record(key=key, value=b"again %d" % number, timestamp_ms=int(time.time() * 1000))


# -- drivers


def aligning_of(run: PlainRun) -> Aligning:
    found = run.rows[0].aligning if run.rows else None
    return found if found is not None else Aligning("", 0, 0)


async def test_a_build_is_resumed_by_whoever_comes_next_after_a_driver_is_killed_in_each_of_its_steps(
    source: str, target: str, unique_topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = await asyncio.to_thread(Compacted, source, unique_topic("driver-killed"))
    topic, settings = there.topic, quick(settings_for(source, target, [there.topic]))
    steps, real = asyncio.Queue[str](), alter_topic_configs

    async def delete_records(*_: Any) -> None:
        steps.put_nowait("aligning")
        await asyncio.Event().wait()

    async def alter(_client: Any, _name: str, changes: Any) -> None:
        steps.put_nowait("policy" if set(changes) == {POLICY} else "last")
        await asyncio.Event().wait()

    async def killed_at(step: str) -> None:
        async with plain_run(settings) as run:
            assert await asyncio.wait_for(steps.get(), STEP_LIMIT_S) == step
            await run.kill()

    async def killed_when(is_so: Callable[[PlainRun], bool]) -> None:
        async with plain_run(settings) as run:
            await run.until(is_so, STEP_LIMIT_S)
            await run.kill()

    with there.going_on():
        with monkeypatch.context() as patched:
            patched.setattr(BatchTarget, "delete_records", delete_records)
            await killed_at("aligning")
        assert 0 < bounds_of(target, topic, 0).stop <= there.first_record
        await asyncio.to_thread(set_write_quota, target, QUOTA_BYTES_PER_S)
        try:
            await killed_when(lambda run: fills(there, aligning_of(run)))
            removed = await asyncio.to_thread(there.await_removed, 0)
        finally:
            await asyncio.to_thread(set_write_quota, target, None)
        await killed_when(lambda run: is_marked_next(there, aligning_of(run)))
        monkeypatch.setattr(builds, "alter_topic_configs", alter)
        await killed_at("policy")
        removed = await asyncio.to_thread(there.await_removed, removed)
        monkeypatch.setattr(builds, "alter_topic_configs", real)
        await killed_when(
            lambda run: (
                aligning_of(run).phase == BuildPhase.CLEANING
                and own_configs(target, topic)[POLICY] == "compact"
            )
        )
        monkeypatch.setattr(builds, "alter_topic_configs", alter)
        await killed_at("last")
        monkeypatch.setattr(builds, "alter_topic_configs", real)
        assert await asyncio.to_thread(there.removed) > removed
    async with plain_run(settings) as run:
        await run.until(lambda run: bool(run.rows) and run.states == {PartitionState.CAUGHT_UP}, STEP_LIMIT_S)
    await asyncio.to_thread(assert_same_on_every_replica, source, target, topic)


def quick(settings: Settings) -> Settings:
    return replace(settings, clusters={name: {**each, **QUICK} for name, each in settings.clusters.items()})


# -- lanes


@pytest.mark.spark
def test_lanes_killed_in_each_step_and_a_leader_moved_while_cleaning_leave_the_same_records(
    source: str, target: str, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """While brokers clean no lane has the topic."""
    there = Compacted(source, unique_topic("lane-killed"))
    topic = there.topic
    config = write_config(tmp_path, source=source, target=target, topics=[topic], properties=QUICK)
    set_write_quota(target, QUOTA_BYTES_PER_S)
    with there.going_on() as writing, MirrorProcess(config, runtime=tmp_path) as mirror:
        try:
            mirror.wait_until(lambda: aligns(there, aligning(mirror)), "part that is aligned")
            kill_holder(mirror)
            mirror.wait_until(lambda: fills(there, aligning(mirror)), "part that is filled")
            kill_holder(mirror)
            removed = there.await_removed(0)
            # What the killed lane sent may still arrive: the marker behind all fillers has to wait for that.
            mirror.wait_until(lambda: is_marked_next(there, aligning(mirror)), "marker that is left")
            kill_holder(mirror)
        finally:
            set_write_quota(target, None)
        mirror.wait_until(lambda: aligning(mirror).phase == BuildPhase.CLEANING, "cleaning")
        mirror.wait_until(lambda: own_configs(target, topic)[POLICY] == "compact", "policy of the source")
        view = ReplicaView(target, topic)
        leader = view.now()[0].leader
        view.move_leaders(sorted(NODES, key=lambda node: node == leader))
        assert aligning(mirror).phase == BuildPhase.CLEANING, "it was cleaned before its leader had moved"
        mirror.wait_until(lambda: "[topic_built]" in mirror.log, "topic that is built", STEP_LIMIT_S)
        assert there.removed() > removed
        kill_holder(mirror)
        writing.stop()
        mirror.wait_until(
            lambda: [row["state"] for row in rows(mirror)] == ["caught_up"], "all copied", STEP_LIMIT_S
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


def kill_holder(mirror: MirrorProcess) -> None:
    """The lane that has the partition, with kill -9; returns when it is gone."""
    found: list[int] = []

    def holds() -> bool:
        live = mirror.live()
        holders = {row["lane"] for row in live.get("partitions", [])}
        found[:] = [lane["pid"] for lane in live.get("lanes", []) if lane["lane"] in holders and lane["pid"]]
        return bool(found)

    mirror.wait_until(holds, "lane that has the partition")
    os.kill(found[0], signal.SIGKILL)
    mirror.wait_until(lambda: is_gone(found[0]), "end of the lane")


# -- how far it is, and what comes of it


def aligns(there: Compacted, now: Aligning) -> bool:
    """Fillers before the first record, of which the last are not there yet."""
    return 0 < now.done < now.total <= there.first_record


def fills(there: Compacted, now: Aligning) -> bool:
    """Behind the first record, and by far not all."""
    done, total = now.done - there.first_record, now.total - there.first_record
    return now.phase == BuildPhase.FILLING and total > 0 and 0.2 < done / total < 0.8


def is_marked_next(there: Compacted, now: Aligning) -> bool:
    return (
        now.phase == BuildPhase.FILLING
        and now.total > there.first_record + SPARSE
        and now.total - now.done == 1
    )


def assert_same_on_every_replica(source: str, target: str, topic: str) -> None:
    """Each broker is made the leader in turn: consumers read its own copy."""
    view = ReplicaView(target, topic)
    view.wait_whole()
    for node in NODES:
        view.move_leaders([node, *(each for each in NODES if each != node)])
        time.sleep(HEARD_S)
        assert view.now()[0].leader == node
        assert assert_same_compacted(source, target, topic, 0) > DENSE + 2 * LIVE
