"""One run, without Kafka and Spark: it ends when it is told to, wherever it is, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from heliograph.controller import mirror as mirror_module
from heliograph.controller.clusters import Clusters
from heliograph.controller.mirror import NO_SLOT_HINT, Mirror
from heliograph.controller.snapshot import LinkSnapshot
from heliograph.engine.lanes import LaneEvent, LaneGone, LaneProgress, Lanes, LaneUp, SparkLost
from heliograph.model.errors import ClusterUnreachable, EngineLost
from heliograph.model.settings import Settings, SparkSettings
from heliograph.model.states import PartitionState

from .observed import (
    LINK,
    NYC_ID,
    SF_ID,
    mirrored_sight,
    partition,
    progress,
    snapshot,
    source_topic,
    target_topic,
)

SETTINGS = Settings(clusters={}, links=(LINK,), lanes=8, spark=SparkSettings(master="local[2]"))
SOON_S = 5.0


def observed(partitions: int = 1) -> LinkSnapshot:
    sights = [mirrored_sight(source_end=5, target_end=5)] * partitions
    return snapshot(source_topic(sights=sights), targets=[target_topic(partitions=partitions)])


class FakeClusters:
    """`looks`: what each observation gives, the last one for ever. `hangs`: the step that never ends."""

    def __init__(self, *looks: LinkSnapshot | ClusterUnreachable, hangs: str = "") -> None:
        self.looks, self.hangs = list(looks), hangs
        self.closed = False

    async def connect(self) -> None:
        await self._step("connect")

    async def observe(self) -> list[LinkSnapshot]:
        await self._step("observe")
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(look, ClusterUnreachable):
            raise look
        return [look]

    async def _step(self, name: str) -> None:
        if name == self.hangs:
            await asyncio.Event().wait()

    def ends(self) -> list[Any]:
        return []

    async def aclose(self) -> None:
        self.closed = True


class FakeLanes:
    """Lanes that come up and end as they are told, on a Spark that takes `start_s`."""

    def __init__(self, *, start_s: float = 0.0, come_up: bool = True, local_slots: int | None = 2) -> None:
        self.start_s, self.come_up, self.local_slots = start_s, come_up, local_slots
        self.slots = local_slots or 2
        self.session = SimpleNamespace(lost=False, ui_address=None)
        self.started = 0
        self.closed = threading.Event()
        self.sent: list[tuple[int, str]] = []
        self.on_event: Callable[[LaneEvent], None] = lambda _: None

    def make(self, _spark: Any, _memory_bytes: int, on_event: Callable[[LaneEvent], None]) -> Lanes:
        time.sleep(self.start_s)
        self.on_event = on_event
        return cast(Lanes, self)

    def start(self, count: int) -> None:
        self.started = count
        for lane in range(count if self.come_up else 0):
            self.on_event(LaneUp(lane, 100 + lane, "here"))

    def send(self, lane: int, messages: Iterable[dict[str, Any]]) -> None:
        for message in messages:
            self.sent.append((lane, message["type"]))
            if message["type"] == "stop":
                self.on_event(LaneGone(lane))

    def ask_to_stop(self, count: int) -> None:
        for lane in range(count):
            self.send(lane, [{"type": "stop"}])

    def close(self, _timeout_s: float) -> None:
        self.closed.set()


def mirror_of(
    clusters: FakeClusters, lanes: FakeLanes | None = None, settings: Settings = SETTINGS, **options: Any
) -> Mirror:
    make = (lanes or FakeLanes()).make
    return Mirror(settings, clusters=cast(Clusters, clusters), make_lanes=make, **options)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON_S):
        while not condition():  # noqa: ASYNC110 - the conditions are not events
            await asyncio.sleep(0.01)


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(2 * SOON_S):
            await story()

    asyncio.run(bounded())


# -- the end


@pytest.mark.parametrize("hangs", ["connect", "observe"])
def test_a_run_that_is_stopped_before_spark_is_up_ends_at_once(hangs: str) -> None:
    clusters, lanes = FakeClusters(observed(), hangs=hangs), FakeLanes()

    async def story() -> None:
        mirror = mirror_of(clusters, lanes, until_caught_up=True)
        asyncio.get_running_loop().call_later(0.05, mirror.stop)
        begun = time.monotonic()
        board = await mirror.run()
        assert time.monotonic() - begun < 1.0
        assert not board.finished  # nothing was planned: nothing may be called caught up

    run(story)
    assert clusters.closed
    assert not lanes.started


def test_a_spark_that_is_starting_when_the_run_is_stopped_is_ended_when_it_is_there() -> None:
    lanes = FakeLanes(start_s=0.3)

    async def story() -> None:
        mirror = mirror_of(FakeClusters(observed()), lanes)
        asyncio.get_running_loop().call_later(0.1, mirror.stop)
        await mirror.run()

    run(story)
    assert lanes.closed.is_set()
    assert lanes.started == 0


def test_a_spark_that_does_not_come_up_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_module, "GIVE_UP_LIMIT_S", 0.1)
    lanes = FakeLanes(start_s=1.0)
    begun = time.monotonic()

    async def story() -> None:
        mirror = mirror_of(FakeClusters(observed()), lanes)
        asyncio.get_running_loop().call_later(0.1, mirror.stop)
        await mirror.run()

    run(story)
    assert time.monotonic() - begun < 0.8
    assert lanes.closed.wait(SOON_S)  # and it is ended all the same


def test_a_spark_that_cannot_start_is_told_and_everything_is_closed() -> None:
    clusters = FakeClusters(observed())

    def make(*_: Any) -> Lanes:
        raise EngineLost("Spark did not start")

    mirror = Mirror(SETTINGS, clusters=cast(Clusters, clusters), make_lanes=make)
    with pytest.raises(EngineLost, match="did not start"):
        asyncio.run(mirror.run())
    assert clusters.closed


def test_a_display_that_fails_leaves_nothing_running() -> None:
    clusters, lanes = FakeClusters(observed()), FakeLanes()

    def show(mirror: Mirror) -> None:
        if mirror.phase in ("copying", "stopping"):
            raise BrokenPipeError("the terminal is gone")

    with pytest.raises(BrokenPipeError):
        asyncio.run(mirror_of(clusters, lanes, on_tick=show).run())
    assert lanes.closed.is_set()
    assert clusters.closed


def test_a_lane_that_comes_up_while_the_run_ends_is_told_to_stop() -> None:
    lanes = FakeLanes()

    async def story() -> None:
        mirror = mirror_of(FakeClusters(observed(2)), lanes)
        running = asyncio.create_task(mirror.run())
        await until(lambda: all(lane.pid for lane in mirror.lanes) and bool(mirror.lanes))
        lanes.on_event(LaneGone(1))
        await until(lambda: mirror.lanes[1].pid is None)
        mirror.stop()
        lanes.on_event(LaneUp(1, 201, "here"))
        await running

    run(story)
    assert (1, "stop") in lanes.sent
    assert lanes.closed.is_set()


def test_a_spark_that_is_lost_ends_the_run_with_its_reason() -> None:
    lanes = FakeLanes()

    async def story() -> None:
        mirror = mirror_of(FakeClusters(observed()), lanes)
        running = asyncio.create_task(mirror.run())
        await until(lambda: mirror.phase == "copying")
        lanes.on_event(SparkLost("Spark has stopped its context", "look at its master"))
        with pytest.raises(EngineLost, match="stopped its context") as lost:
            await running
        assert lost.value.exit_code == 4
        assert "look at its master" in lost.value.hint

    run(story)


# -- waiting for a topic


def test_a_cluster_that_cannot_be_read_while_a_topic_is_waited_for_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mirror_module, "DISCOVERY_S", 0.05)
    clusters = FakeClusters(snapshot(), ClusterUnreachable("sf is away"), observed())

    async def story() -> None:
        mirror = mirror_of(clusters)
        running = asyncio.create_task(mirror.run())
        await until(lambda: mirror.phase == "copying")
        mirror.stop()
        await running

    run(story)
    assert "sf is away; trying again" in caplog.text


def test_a_cluster_that_cannot_be_read_at_the_start_ends_the_run() -> None:
    clusters = FakeClusters(ClusterUnreachable("sf is away"))
    with pytest.raises(ClusterUnreachable):
        asyncio.run(mirror_of(clusters).run())
    assert clusters.closed


# -- lanes without a slot


@pytest.mark.parametrize(("local_slots", "started"), [(2, 2), (None, 5)])
def test_a_local_master_gets_no_more_lanes_than_it_has_slots(
    local_slots: int | None, started: int, caplog: pytest.LogCaptureFixture
) -> None:
    lanes = FakeLanes(local_slots=local_slots)

    async def story() -> None:
        mirror = mirror_of(FakeClusters(observed(5)), lanes)
        running = asyncio.create_task(mirror.run())
        await until(lambda: mirror.phase == "copying")
        mirror.stop()
        await running

    run(story)
    assert lanes.started == started
    assert ("lanes: 5 wanted, local[2] has 2 slot" in caplog.text) == (local_slots is not None)


def test_a_lane_without_a_slot_is_said_once_and_shown_until_it_comes_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mirror_module, "HELLO_LIMIT_S", 0.1)
    monkeypatch.setattr(mirror_module, "RENEW_S", 0.05)
    caplog.set_level(logging.WARNING)
    lanes = FakeLanes(come_up=False)

    async def story() -> None:
        mirror = mirror_of(FakeClusters(observed(1)), lanes)
        running = asyncio.create_task(mirror.run())
        await until(lambda: any(row.trouble for row in mirror.board.rows.values()))
        await asyncio.sleep(0.3)
        row = mirror.board.rows[partition()]
        assert row.trouble is not None
        assert "lane 0 has no Spark slot yet" in row.trouble
        assert row.hint == NO_SLOT_HINT
        lanes.on_event(LaneUp(0, 100, "here"))
        await until(lambda: mirror.board.rows[partition()].trouble is None)
        lanes.on_event(LaneProgress(0, (progress(partition(), 5, state=PartitionState.CAUGHT_UP),)))
        mirror.stop()
        await running

    run(story)
    assert caplog.text.count("has no Spark slot yet") == 1


def test_a_run_knows_which_clusters_its_links_join() -> None:
    mirror = mirror_of(FakeClusters(snapshot()), until_caught_up=True)
    asyncio.run(mirror.run())
    assert mirror.cluster_ids == {"sf-to-nyc": (SF_ID, NYC_ID)}
