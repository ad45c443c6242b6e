"""A source that was cut short, or has a byte turned on its disk: the partition stops, and one command resolves it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from heliograph.lab.cluster import LabCluster
from heliograph.model.command import Outcome, Wish
from heliograph.model.states import PartitionState, StopReason
from tests.support.damaged_log import truncate_log, turn_a_byte
from tests.support.operator import Scene, row_of, stopped
from tests.support.plain_run import plain_run

pytestmark = pytest.mark.kafka


@pytest.fixture
def damageable() -> Iterator[LabCluster]:
    with LabCluster.start(name="damageable") as cluster:
        yield cluster


async def test_truncated_and_corrupt_sources_stop_and_are_mirrored_when_an_operator_says_so(
    damageable: LabCluster, target_cluster: LabCluster
) -> None:
    cut, turned = (Scene(damageable, target_cluster, topic, 1) for topic in ("cut-short", "turned"))
    (broker,) = damageable.brokers
    for scene in (cut, turned):
        scene.write(30)
        scene.write(30, seed=1)
    async with plain_run(cut.settings()) as run:
        await run.caught_up()
    broker.stop()
    truncate_log(broker.directory, cut.topic, 30)
    turn_a_byte(broker.directory, turned.topic, 30)
    broker.start()

    cut.write(10, seed=2)
    async with plain_run(cut.settings()) as run, cut.operator() as operator:
        await run.task
        assert row_of(run).reason is StopReason.TARGET_AHEAD
        command = await operator.command(Wish.REMIRROR, loses={0: (0, 60)})
        async with plain_run(cut.settings()) as again:
            assert (await operator.answer(command)).outcome is Outcome.APPLIED
            await again.caught_up()
    cut.assert_identical(40)

    async with plain_run(turned.settings()) as run, turned.operator() as operator:
        await run.until(stopped)
        assert row_of(run).reason is StopReason.CORRUPT
        assert turned.offsets(turned.target) == [*range(30)]
        broker.stop()
        turn_a_byte(broker.directory, turned.topic, 30)
        broker.start()
        answer = await operator.answer(await operator.command(Wish.RESUME, stop="corrupt"))
        assert answer.outcome is Outcome.APPLIED
        await run.until(
            lambda run: run.states == {PartitionState.CAUGHT_UP} and row_of(run).next_offset == 60
        )
    turned.assert_identical(60)
