"""A request for markers that a broker never answers: a topic was deleted, and others share the request (P7)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from heliograph.cluster.batch_target import BatchTarget
from heliograph.copier.marker_line import MarkerLine, Written
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.phases import Phase
from heliograph.lab.cluster import LabCluster
from heliograph.model.errors import RequestTimedOut
from heliograph.model.partition import TopicPartition
from tests.cluster.test_markers_kafka import always, at, target_on
from tests.support.topics import create_topic, delete_topic

pytestmark = pytest.mark.kafka

FEW_S = 3.0
TRIES = 1000
FILLING = cast(PartitionCopy, SimpleNamespace(phase=Phase.FILL))  # all that a line looks at


async def until_gone(target: BatchTarget, node: int, where: TopicPartition) -> None:
    """The controller knows that a topic is deleted before its leader does."""
    for _ in range(TRIES):
        if where not in await target.log_ends(node, [where]):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{where} is still there")


async def test_a_topic_that_was_deleted_holds_up_the_gaps_of_no_other(
    target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    bootstrap = target_cluster.bootstrap_servers
    kept, gone = (TopicPartition(unique_topic(stem), 0) for stem in ("kept", "gone"))
    for where in (kept, gone):
        await asyncio.to_thread(create_topic, bootstrap, where.topic)
    tasks: list[asyncio.Task[None]] = []

    def spawn(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        tasks.append(asyncio.ensure_future(work))
        return tasks[-1]

    async with target_on(bootstrap, kept.topic, gone.topic) as target:
        leader = target.leader(kept)
        assert leader is not None
        slow: list[PartitionCopy] = []
        line = MarkerLine(target, leader.node, always, spawn=spawn, on_slow=slow.append)
        spawn(line.run())
        for each in (kept, gone):
            assert await line.write(FILLING, [at(each, 0, 1)], 1) == Written(0, 1)
        await asyncio.to_thread(delete_topic, bootstrap, gone.topic)
        await until_gone(target, leader.node, gone)
        async with asyncio.timeout(FEW_S):
            shared = asyncio.gather(
                line.write(FILLING, [at(kept, 1, 1)], 2),
                line.write(FILLING, [at(gone, 5, 1)], 6),  # the last entry of the request
                return_exceptions=True,
            )
            await asyncio.sleep(0.2)
            behind = await line.write(FILLING, [at(kept, 2, 1)], 3)
            written, failed = await shared
        assert (written, behind) == (Written(0, 2), Written(0, 3))
        assert isinstance(failed, RequestTimedOut)
        assert slow == []
        assert (await target.span(kept)).end == 3
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
