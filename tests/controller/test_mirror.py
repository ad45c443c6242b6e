"""One run, without Kafka and Spark: it ends when it is told to, wherever it is, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from heliograph.controller import half_built, lane_keeper, making
from heliograph.controller import mirror as mirror_module
from heliograph.controller.act import Made
from heliograph.controller.drivership import Seeking, Standby
from heliograph.controller.lane_keeper import NO_SLOT_HINT
from heliograph.controller.mirror import Mirror
from heliograph.controller.plan import CreateTopic
from heliograph.controller.snapshot import LinkSnapshot
from heliograph.controller.start_times import Step
from heliograph.copier.lease import ALIVE_S
from heliograph.engine.lanes import LaneGone, LaneProgress, Lanes, LaneTold, LaneUp, SparkLost
from heliograph.model.errors import (
    ClusterUnreachable,
    ConfigError,
    EngineLost,
    HeliographError,
    PartitionStop,
)
from heliograph.model.events import Event, Trouble
from heliograph.model.ledger import LEDGER_TOPIC, WHOLE_TOPIC, Row, RowKind, RowName, encode_row
from heliograph.model.link import Link
from heliograph.model.occurrence import of_stop, of_trouble
from heliograph.model.partition import MirrorPartition
from heliograph.model.policy import DEFAULT_POLICY, OnSourceDelete
from heliograph.model.settings import Caution, Settings, SparkSettings
from heliograph.model.states import PartitionState, StopReason

from .observed import (
    LINK,
    NYC_ID,
    SF_ID,
    mirrored_sight,
    no_configs,
    partition,
    progress,
    snapshot,
    source_topic,
    target_topic,
)
from .played import (
    REQUEST_TIMEOUT_S,
    FakeClusters,
    FakeDrivership,
    FakeLanes,
    elected,
    observed,
    order,
)

SETTINGS = Settings(clusters={}, links=(LINK,), lanes=8, spark=SparkSettings(master="local[2]"))
SOON_S = 5.0
OTHERS_S = ALIVE_S + REQUEST_TIMEOUT_S  # how long lanes of another driver, and what they sent, may go on


SHORTLY = replace(SETTINGS, discovery_interval_s=0.05)


def mirror_of(
    clusters: FakeClusters,
    lanes: FakeLanes | None = None,
    drivership: FakeDrivership | None = None,
    settings: Settings = SETTINGS,
    **options: Any,
) -> Mirror:
    return Mirror(
        settings,
        clusters=clusters.made,
        make_lanes=(lanes or FakeLanes()).make,
        make_drivership=(drivership or FakeDrivership()).make,
        **options,
    )


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON_S):
        while not condition():  # noqa: ASYNC110 - the conditions are not events
            await asyncio.sleep(0.01)


# -- the end


@pytest.mark.parametrize("hangs", ["connect", "observe"])
async def test_a_run_that_is_stopped_before_spark_is_up_ends_at_once(hangs: str) -> None:
    clusters, lanes = FakeClusters(observed(), hangs=hangs), FakeLanes()

    mirror = mirror_of(clusters, lanes, until_caught_up=True)
    asyncio.get_running_loop().call_later(0.05, mirror.stop)
    begun = time.monotonic()
    board = await mirror.run()
    assert time.monotonic() - begun < 1.0
    assert not board.finished  # nothing was planned: nothing may be called caught up

    assert clusters.closed
    assert not lanes.started


async def test_a_spark_that_is_starting_when_the_run_is_stopped_is_ended_when_it_is_there() -> None:
    lanes = FakeLanes(start_s=0.3)

    mirror = mirror_of(FakeClusters(observed()), lanes)
    asyncio.get_running_loop().call_later(0.1, mirror.stop)
    await mirror.run()

    assert lanes.closed.is_set()
    assert lanes.started == 0


async def test_a_run_that_is_stopped_while_sparks_slots_are_counted_ends_at_once() -> None:
    lanes, drivership = FakeLanes(slots_s=0.3), FakeDrivership()

    mirror = mirror_of(FakeClusters(observed()), lanes, drivership, replace(SETTINGS, lanes=None))
    asyncio.get_running_loop().call_later(0.1, mirror.stop)
    await mirror.run()

    assert lanes.closed.is_set()
    assert lanes.started == 0
    assert drivership.closed == [True]


async def test_a_spark_that_does_not_come_up_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_module, "GIVE_UP_LIMIT_S", 0.1)
    lanes = FakeLanes(start_s=1.0)
    begun = time.monotonic()

    mirror = mirror_of(FakeClusters(observed()), lanes)
    asyncio.get_running_loop().call_later(0.1, mirror.stop)
    await mirror.run()

    assert time.monotonic() - begun < 0.8
    assert lanes.closed.wait(SOON_S)  # and it is ended all the same


def test_a_spark_that_cannot_start_is_told_and_everything_is_closed() -> None:
    clusters = FakeClusters(observed())

    def make(*_: Any) -> Lanes:
        raise EngineLost("Spark did not start")

    drivership = FakeDrivership()
    mirror = Mirror(SHORTLY, clusters=clusters.made, make_lanes=make, make_drivership=drivership.make)
    with pytest.raises(EngineLost, match="did not start"):
        asyncio.run(mirror.run())
    assert clusters.closed
    assert drivership.closed == [True]


@pytest.mark.parametrize("fails", ["plan", "Spark"])
def test_a_run_that_fails_before_it_has_lanes_does_not_say_that_it_stops(fails: str) -> None:
    def make(*_: Any) -> Lanes:
        raise EngineLost("Spark did not start")

    clusters = FakeClusters(ClusterUnreachable("sf is away") if fails == "plan" else observed())
    phases: list[str] = []
    mirror = Mirror(
        SETTINGS,
        clusters=clusters.made,
        make_lanes=make,
        make_drivership=FakeDrivership().make,
        on_tick=lambda mirror: phases.append(mirror.phase),
    )
    with pytest.raises(HeliographError):
        asyncio.run(mirror.run())
    assert phases == ["planning", "starting Spark"][: len(phases)]
    assert phases


async def test_a_run_that_is_told_to_stop_says_that_it_does() -> None:
    phases: list[str] = []
    mirror = mirror_of(FakeClusters(observed()), on_tick=lambda mirror: phases.append(mirror.phase))
    asyncio.get_running_loop().call_later(0.1, mirror.stop)
    await mirror.run()
    assert phases[-1] == "stopping"


def test_a_display_that_fails_leaves_nothing_running() -> None:
    clusters, lanes = FakeClusters(observed()), FakeLanes()

    def show(mirror: Mirror) -> None:
        if mirror.phase in ("copying", "stopping"):
            raise BrokenPipeError("the terminal is gone")

    with pytest.raises(BrokenPipeError):
        asyncio.run(mirror_of(clusters, lanes, on_tick=show).run())
    assert lanes.closed.is_set()
    assert clusters.closed


async def test_a_lane_that_comes_up_while_the_run_ends_is_told_to_stop() -> None:
    lanes = FakeLanes()

    mirror = mirror_of(FakeClusters(observed(2)), lanes)
    running = asyncio.create_task(mirror.run())
    await until(lambda: all(lane.pid for lane in mirror.lanes) and bool(mirror.lanes))
    lanes.on_event(LaneGone(1))
    await until(lambda: mirror.lanes[1].pid is None)
    mirror.stop()
    lanes.on_event(LaneUp(1, 201, "here"))
    await running

    assert (1, "stop") in lanes.sent
    assert lanes.closed.is_set()


async def test_a_spark_that_is_lost_ends_the_run_with_its_reason() -> None:
    lanes = FakeLanes()

    mirror = mirror_of(FakeClusters(observed()), lanes)
    running = asyncio.create_task(mirror.run())
    await until(lambda: mirror.phase == "copying")
    lanes.on_event(SparkLost("Spark has stopped its context", "look at its master"))
    with pytest.raises(EngineLost, match="stopped its context") as lost:
        await running
    assert lost.value.exit_code == 4
    assert "look at its master" in lost.value.hint


# -- Spark starts while the run plans


async def test_spark_starts_while_the_run_still_plans() -> None:
    lanes = FakeLanes()

    mirror = mirror_of(FakeClusters(observed(), hangs="observe"), lanes)
    running = asyncio.create_task(mirror.run())
    await until(lambda: lanes.is_made)
    mirror.stop()
    await running

    assert lanes.closed.is_set()


def test_a_plan_that_fails_gives_spark_up() -> None:
    lanes = FakeLanes(start_s=0.2)
    with pytest.raises(ConfigError, match="a circle"):
        asyncio.run(mirror_of(FakeClusters(ConfigError(["a circle"])), lanes).run())
    assert lanes.closed.is_set()
    assert lanes.started == 0


async def test_what_the_config_protects_too_little_is_told_before_a_cluster_is_reached() -> None:
    caution = Caution(code=Event.INSECURE, message="hosts are not checked", hint="check them")
    run = mirror_of(
        FakeClusters(snapshot(), hangs="connect"), settings=replace(SETTINGS, cautions=(caution,))
    )
    running = asyncio.create_task(run.run())
    await until(lambda: bool(run.outbox.last))
    run.stop()
    await running
    (told,) = run.outbox.last
    assert (told.code, told.message, told.hint) == (caution.code, caution.message, caution.hint)


async def test_a_run_with_nothing_to_copy_gives_spark_up() -> None:
    lanes = FakeLanes(start_s=0.2)
    board = await mirror_of(FakeClusters(snapshot()), lanes, until_caught_up=True).run()
    assert board.finished
    assert lanes.closed.is_set()
    assert lanes.started == 0


async def test_a_spark_that_cannot_start_is_told_while_a_topic_is_waited_for() -> None:

    def make(*_: Any) -> Lanes:
        raise EngineLost("Spark did not start")

    clusters = FakeClusters(snapshot())
    mirror = Mirror(SHORTLY, clusters=clusters.made, make_lanes=make, make_drivership=FakeDrivership().make)
    with pytest.raises(EngineLost, match="did not start"):
        await asyncio.wait_for(mirror.run(), SOON_S)


async def test_the_steps_of_the_start_are_told_once_with_the_age_of_the_process(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "heliograph")
    lanes = FakeLanes()

    mirror = mirror_of(FakeClusters(observed()), lanes, age_s=100.0)
    running = asyncio.create_task(mirror.run())
    await until(lambda: mirror.phase == "copying")
    for records in (0, 3, 4):
        lanes.on_event(LaneProgress(0, (progress(partition(0), 5 + records, records=records),)))
    await until(lambda: mirror.board.copied_records == 4)
    mirror.stop()
    await running

    told = [record.message for record in caplog.records if record.message.startswith("start: ")]
    assert [line.count("after 10") for line in told] == [4, 1]
    places = ["".join(told).index(step) for step in Step]
    assert places == sorted(places)


# -- waiting for a topic


async def test_a_cluster_that_cannot_be_read_while_a_topic_is_waited_for_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clusters = FakeClusters(snapshot(), ClusterUnreachable("sf is away"), observed())

    mirror = mirror_of(clusters, settings=SHORTLY)
    running = asyncio.create_task(mirror.run())
    await until(lambda: mirror.phase == "copying")
    mirror.stop()
    await running

    (record,) = [r for r in caplog.records if "sf is away; trying again" in r.getMessage()]
    assert getattr(record, "event", None) == "cluster_away"


# -- topics that an operator creates

ORDERS = source_topic("orders", [mirrored_sight(source_end=5, target_end=5)])
PAYMENTS = source_topic("payments")
WAITING = replace(LINK, create_topics=False)


async def test_a_run_whose_topics_are_all_missing_waits_for_them_and_tells_it_once() -> None:
    missing = snapshot(source_topic(), link=WAITING)
    clusters = FakeClusters(missing, missing, missing, observed())
    mirror = mirror_of(clusters, settings=SHORTLY)
    running = asyncio.create_task(mirror.run())
    await until(lambda: mirror.phase == "waiting for target topics")
    (row,) = mirror.board.awaiting_topics
    assert row.state is PartitionState.PENDING
    await until(lambda: mirror.phase == "copying")
    assert mirror.board.awaiting_topics == []
    assert mirror.outbox.counts[Event.TOPIC_MISSING] == 1
    mirror.stop()
    await running


async def test_a_topic_that_is_missing_neither_holds_up_others_nor_the_end_of_a_run() -> None:
    clusters = FakeClusters(snapshot(ORDERS, PAYMENTS, link=WAITING, targets=[target_topic("orders")]))
    lanes = FakeLanes()
    mirror = mirror_of(clusters, lanes, until_caught_up=True)
    running = asyncio.create_task(mirror.run())
    await until(lambda: mirror.phase == "copying")
    lanes.on_event(LaneProgress(0, (progress(partition(0), 5, state=PartitionState.CAUGHT_UP),)))
    board = await asyncio.wait_for(running, SOON_S)
    assert board.finished
    assert [row.partition.source_topic for row in board.awaiting_topics] == ["payments"]
    (told,) = [each for each in mirror.outbox.last if each.code is Event.TOPIC_MISSING]
    assert told.target_topic == "payments"
    assert told.hint is not None
    assert told.hint.startswith("kafka-topics.sh --bootstrap-server nyc:9092 --create --topic payments ")


async def test_a_run_that_has_nothing_but_a_topic_to_delete_is_elected_for_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(half_built, "describe_topic_configs", no_configs)
    deleting = replace(LINK, policy=replace(DEFAULT_POLICY, on_source_delete=OnSourceDelete.DELETE))
    gone = replace(snapshot(link=deleting), target_topic_ids={"orders": "id of orders"})
    clusters = FakeClusters(gone)
    name = RowName(source_cluster_id=SF_ID, target_topic="orders", partition=WHOLE_TOPIC, kind=RowKind.TOPIC)
    ids = {"source_topic_id": "source id", "target_topic_id": "id of orders"}
    fields = {"link": LINK.name, "source_topic": "orders", **ids, "created": True}
    await (await clusters.logs.open(LEDGER_TOPIC)).append([encode_row(Row(name=name, term=1, fields=fields))])
    mirror = mirror_of(clusters, settings=SHORTLY)
    running = asyncio.create_task(mirror.run())
    await until(lambda: mirror.phase == "copying")
    assert mirror._active.keys() == {LINK.name}
    mirror.stop()
    await running


def test_a_cluster_that_cannot_be_read_at_the_start_ends_the_run() -> None:
    clusters = FakeClusters(ClusterUnreachable("sf is away"))
    with pytest.raises(ClusterUnreachable):
        asyncio.run(mirror_of(clusters).run())
    assert clusters.closed


# -- lanes without a slot


@pytest.mark.parametrize(("local_slots", "started"), [(3, 2), (None, 5)])
async def test_a_local_master_gets_no_more_lanes_than_it_has_slots(
    local_slots: int | None, started: int, caplog: pytest.LogCaptureFixture
) -> None:
    lanes = FakeLanes(local_slots=local_slots)

    mirror = mirror_of(FakeClusters(observed(5)), lanes)
    running = asyncio.create_task(mirror.run())
    await until(lambda: mirror.phase == "copying")
    mirror.stop()
    await running

    assert lanes.started == started
    told = [r for r in caplog.records if "lanes: 5 wanted, local[2] has 2 slot" in r.getMessage()]
    assert [getattr(r, "event", None) for r in told] == ["few_lanes"] * (local_slots is not None)


async def test_a_lane_without_a_slot_is_said_once_and_shown_until_it_comes_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lane_keeper, "HELLO_LIMIT_S", 0.1)
    monkeypatch.setattr(mirror_module, "WATCH_S", 0.05)
    caplog.set_level(logging.WARNING)
    lanes = FakeLanes(come_up=False)

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

    assert caplog.text.count("has no Spark slot yet") == 1


def test_a_run_knows_which_clusters_its_links_join() -> None:
    mirror = mirror_of(FakeClusters(snapshot()), until_caught_up=True)
    asyncio.run(mirror.run())
    assert mirror.cluster_ids == {"sf-to-nyc": (SF_ID, NYC_ID)}


# -- which links are ours


class TwoLinks(FakeClusters):
    def __init__(self, *links: LinkSnapshot) -> None:
        super().__init__(links[0])
        self.snapshots = {snapshot.link.name: snapshot for snapshot in links}
        self.link_names = list(self.snapshots)

    async def observe(self) -> list[LinkSnapshot]:
        return [self.snapshots[link.name] for link in self.links]

    async def observe_link(self, name: str, only: Collection[str] | None = None) -> LinkSnapshot:  # noqa: ARG002
        self.observed.append(name)
        return self.snapshots[name]


async def running(mirror: Mirror) -> asyncio.Task[Any]:
    task = asyncio.create_task(mirror.run())
    await until(lambda: mirror.phase in ("copying", "standing by", "electing") or task.done())
    return task


def compare_all(mirror: Mirror, lanes: FakeLanes) -> None:
    """Lanes have found that what they hold is at its goal."""
    for key, lane in lanes.held.items():
        lanes.on_event(LaneProgress(lane, (progress(key, mirror.board.rows[key].goal),)))


async def end(mirror: Mirror, task: asyncio.Task[Any]) -> None:
    mirror.stop()
    await task


async def test_a_run_that_stands_by_keeps_its_lanes_idle_and_takes_over_when_it_is_elected() -> None:
    lanes, drivership = FakeLanes(), FakeDrivership(Standby(active="another run"))

    mirror = mirror_of(FakeClusters(observed(2)), lanes, drivership)
    task = await running(mirror)
    await until(lambda: all(lane.pid for lane in mirror.lanes) and mirror.phase == "standing by")
    await asyncio.sleep(0.3)
    assert lanes.sent == []
    assert mirror.roles == {"sf-to-nyc": Standby(active="another run")}
    drivership.tell("sf-to-nyc", elected(7))
    await until(lambda: len(lanes.held) == 2 and mirror.phase == "copying")
    await end(mirror, task)

    assert all(OTHERS_S - SOON_S < clear_in_s <= OTHERS_S for _, clear_in_s, _ in lanes.assigned())


async def test_only_for_topics_that_a_driver_creates_itself_it_waits_for_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether a group was ever elected before cannot be known: groups are forgotten."""

    async def create(_target: Any, creation: CreateTopic) -> Made:
        return Made(new=creation.topic == "payments")

    monkeypatch.setattr(making, "create", create)
    look = snapshot(source_topic("orders"), source_topic("payments"))
    lanes = FakeLanes()

    mirror = mirror_of(FakeClusters(look), lanes)
    task = await running(mirror)
    await until(lambda: len(lanes.held) == 2)
    await end(mirror, task)

    waits = {part.target_topic: clear_in_s for _, clear_in_s, parts in lanes.assigned() for part in parts}
    assert waits["payments"] == 0.0
    assert OTHERS_S - SOON_S < waits["orders"] <= OTHERS_S


async def test_a_topic_that_another_run_holds_is_pending_and_named_until_it_is_ours() -> None:
    sights = {name: mirrored_sight(source_end=5, target_end=5, topic=name) for name in ("orders", "pay")}
    look = snapshot(
        *(source_topic(name, [sight]) for name, sight in sights.items()), targets=map(target_topic, sights)
    )
    lanes, drivership = FakeLanes(), FakeDrivership(elected(1, claims=order("b")))

    mirror = mirror_of(FakeClusters(look), lanes, drivership, until_caught_up=True)
    task = await running(mirror)
    await until(lambda: set(lanes.held) == {partition(topic="pay")} and mirror.phase == "copying")
    row = mirror.board.rows[partition(topic="orders")]
    assert (row.state, row.lane, row.held_by) == (PartitionState.PENDING, None, "b (pid 7), link theirs")
    await asyncio.sleep(0.3)
    assert not task.done()  # not all that its links select is this run's
    drivership.tell("sf-to-nyc", elected(2, claims=order()))
    await until(lambda: len(lanes.held) == 2)
    compare_all(mirror, lanes)
    await task
    assert {row.held_by for row in mirror.board.rows.values()} == {None}


async def test_a_run_that_holds_no_topic_stands_by_and_says_who_does() -> None:
    lanes, drivership = FakeLanes(), FakeDrivership(elected(1, claims=order("b")))

    mirror = mirror_of(FakeClusters(observed(2)), lanes, drivership)
    task = await running(mirror)
    await until(lambda: mirror.phase == "standing by")
    assert mirror.roles == {"sf-to-nyc": Standby(active="b (pid 7), link theirs")}
    assert {row.held_by for row in mirror.board.rows.values()} == {"b (pid 7), link theirs"}
    await asyncio.sleep(0.2)
    assert not lanes.held
    await end(mirror, task)


async def test_a_run_that_another_one_replaced_takes_its_partitions_back() -> None:
    lanes, drivership = FakeLanes(), FakeDrivership()

    mirror = mirror_of(FakeClusters(observed(2)), lanes, drivership)
    task = await running(mirror)
    await until(lambda: len(lanes.held) == 2)
    lanes.on_event(LaneProgress(0, (progress(partition(0), 5, state=PartitionState.CAUGHT_UP),)))
    drivership.tell("sf-to-nyc", Standby(active="another run"))
    await until(lambda: not lanes.held)
    await until(lambda: mirror.phase == "standing by")
    assert {row.held_by for row in mirror.board.rows.values()} == {"another run"}
    states = {row.state for row in mirror.board.rows.values()}
    assert states == {PartitionState.PENDING}
    assert {row.lane for row in mirror.board.rows.values()} == {None}
    await asyncio.sleep(0.3)
    assert not lanes.held  # and gives them to nobody
    await end(mirror, task)


async def test_what_is_held_since_an_earlier_generation_is_given_anew_with_the_wait() -> None:
    """Another run may have been active in between, and left appends on their way that our lanes know nothing of."""
    lanes, drivership = FakeLanes(), FakeDrivership()

    mirror = mirror_of(FakeClusters(observed(2)), lanes, drivership)
    task = await running(mirror)
    await until(lambda: len(lanes.held) == 2)
    drivership.tell("sf-to-nyc", Seeking(problem="no heartbeat was answered"))
    drivership.tell("sf-to-nyc", elected(3))
    await until(lambda: len(lanes.assigned()) == 4)
    await end(mirror, task)

    assert len([1 for _, kind in lanes.sent if kind == "revoke"]) == 2
    assert all(OTHERS_S - SOON_S < clear_in_s <= OTHERS_S for _, clear_in_s, _ in lanes.assigned()[2:])


@pytest.mark.parametrize("generation", [1, 2])
async def test_a_run_that_seeks_for_a_while_and_is_elected_again_at_once_stops_nothing(
    generation: int,
) -> None:
    lanes, drivership, clusters = FakeLanes(), FakeDrivership(), FakeClusters(observed(2))

    mirror = mirror_of(clusters, lanes, drivership)
    task = await running(mirror)
    await until(lambda: len(lanes.held) == 2)
    before = list(lanes.sent)
    drivership.tell("sf-to-nyc", Seeking(problem="no heartbeat was answered"))
    await asyncio.sleep(0.2)
    assert mirror.phase == "copying"
    drivership.tell("sf-to-nyc", elected(generation))
    await asyncio.sleep(0.2)
    assert lanes.sent == before
    await end(mirror, task)

    assert clusters.observations == 2


async def test_a_run_that_stands_by_is_not_caught_up_however_far_the_mirror_is() -> None:
    lanes, drivership = FakeLanes(), FakeDrivership(Standby(active=None))

    mirror = mirror_of(FakeClusters(observed()), lanes, drivership, until_caught_up=True)
    task = await running(mirror)
    await asyncio.sleep(0.4)
    assert not task.done()
    drivership.tell("sf-to-nyc", elected(2))
    await until(lambda: bool(lanes.held))
    compare_all(mirror, lanes)
    await task  # its goal is reached already


@pytest.mark.parametrize("come_up", [False, True])
async def test_a_run_is_not_caught_up_by_offsets_that_no_lane_has_compared(come_up: bool) -> None:
    lanes = FakeLanes(come_up=come_up)

    mirror = mirror_of(FakeClusters(observed()), lanes, until_caught_up=True)
    task = await running(mirror)
    await asyncio.sleep(0.4)
    assert not task.done()
    await end(mirror, task)
    assert not mirror.board.finished


def test_links_that_cannot_go_together_any_more_end_the_run() -> None:
    clusters = FakeClusters(observed(), ConfigError(["links: in a circle"]))
    with pytest.raises(ConfigError, match="in a circle"):
        asyncio.run(mirror_of(clusters).run())
    assert clusters.closed


async def test_lanes_are_granted_what_the_run_itself_is_granted_once_the_link_is_prepared() -> None:
    lanes, drivership = FakeLanes(), FakeDrivership(at_start=None)
    drivership.granted = {"sf-to-nyc": 4.5}

    mirror = mirror_of(FakeClusters(observed()), lanes, drivership)
    task = await running(mirror)
    assert lanes.grants() == {"sf-to-nyc": 0.0}
    drivership.tell("sf-to-nyc", elected(1))
    assert lanes.grants() == {"sf-to-nyc": 0.0}
    await until(lambda: lanes.grants() == {"sf-to-nyc": 4.5})
    drivership.tell("sf-to-nyc", Standby(active=None))
    assert lanes.grants() == {"sf-to-nyc": 0.0}
    await until(lambda: mirror.phase == "standing by")
    assert lanes.grants() == {"sf-to-nyc": 0.0}
    await end(mirror, task)


async def test_what_lanes_hold_is_taken_back_before_anything_is_granted_anew() -> None:
    """The line keeps the order: a lane that has a lease again has let go of what it held before."""
    lanes, drivership = FakeLanes(), FakeDrivership()
    drivership.granted = {"sf-to-nyc": 4.5}
    granted_at_revoke: list[float] = []
    revoke = lanes.revoke

    def note(lane: int, partitions: Sequence[MirrorPartition]) -> None:
        granted_at_revoke.append(lanes.grants()["sf-to-nyc"])
        revoke(lane, partitions)

    mirror = mirror_of(FakeClusters(observed(2)), lanes, drivership)
    task = await running(mirror)
    await until(lambda: len(lanes.held) == 2 and lanes.grants()["sf-to-nyc"] > 0)
    lanes.revoke = note  # type: ignore[method-assign]
    drivership.tell("sf-to-nyc", elected(3))
    await until(lambda: len(lanes.assigned()) == 4 and lanes.grants()["sf-to-nyc"] > 0)
    await end(mirror, task)

    assert granted_at_revoke == [0.0, 0.0]


async def test_a_link_that_is_prepared_is_given_while_another_is_not_ours() -> None:
    """One that is away, or another run's, holds nobody up (P7)."""
    other = replace(LINK, name="sf-to-lax", target="lax")
    clusters = TwoLinks(observed(), replace(observed(), link=other, target_cluster_id="lax-id"))
    lanes, drivership = FakeLanes(), FakeDrivership(at_start=None)

    mirror = mirror_of(clusters, lanes, drivership, replace(SETTINGS, links=(LINK, other)))
    task = await running(mirror)
    drivership.tell("sf-to-lax", Standby(active="another run"))
    drivership.tell("sf-to-nyc", elected(1))
    await until(lambda: bool(lanes.held))
    assert {part.link for part in lanes.held} == {"sf-to-nyc"}
    assert clusters.observed == ["sf-to-nyc"]
    await end(mirror, task)


# -- links whose clusters are away


def with_one_away() -> tuple[TwoLinks, Settings]:
    other = replace(LINK, name="sf-to-lax", target="lax")
    clusters = TwoLinks(observed(), replace(observed(), link=other, target_cluster_id="lax-id"))
    clusters.cut_off = {"sf-to-lax": {"lax": ClusterUnreachable("cluster 'lax' cannot be reached")}}
    return clusters, replace(SHORTLY, links=(LINK, other))


async def test_a_link_whose_cluster_is_away_at_the_start_joins_later_and_the_other_goes_on() -> None:
    clusters, settings = with_one_away()
    lanes, drivership = FakeLanes(), FakeDrivership()
    mirror = mirror_of(clusters, lanes, drivership, settings)
    task = await running(mirror)
    await until(lambda: len(lanes.held) == 1)
    assert mirror.waiting == {"sf-to-lax": "waiting for cluster 'lax'"}
    assert set(mirror.roles) == {"sf-to-nyc"}
    clusters.cut_off = {}
    await until(lambda: {part.link for part in lanes.held} == {"sf-to-nyc", "sf-to-lax"})
    assert mirror.waiting == {}
    assert mirror.cluster_ids["sf-to-lax"] == (SF_ID, "target of sf-to-lax")
    assert lanes.sent.count((0, "revoke")) == 0
    await end(mirror, task)


async def test_a_run_whose_other_links_are_all_stopped_waits_for_the_one_that_is_away() -> None:
    clusters, settings = with_one_away()
    ours = mirrored_sight(source_end=5, target_end=9)  # the target is ahead
    clusters.snapshots[LINK.name] = snapshot(source_topic(sights=[ours]), targets=[target_topic()])
    lanes = FakeLanes()
    mirror = mirror_of(clusters, lanes, settings=settings)
    task = await running(mirror)
    await asyncio.sleep(0.2)
    assert not task.done()
    clusters.cut_off = {}
    await until(lambda: {part.link for part in lanes.held} == {"sf-to-lax"})
    await end(mirror, task)


def test_a_run_that_ends_by_itself_wants_every_cluster() -> None:
    clusters, settings = with_one_away()
    with pytest.raises(ClusterUnreachable, match="lax"):
        asyncio.run(mirror_of(clusters, settings=settings, until_caught_up=True).run())
    assert clusters.closed


async def test_a_link_that_joins_while_the_others_wait_for_a_topic_is_planned_with_them() -> None:
    clusters, settings = with_one_away()
    clusters.snapshots[LINK.name] = snapshot()
    lanes = FakeLanes()
    mirror = mirror_of(clusters, lanes, settings=settings)
    task = asyncio.create_task(mirror.run())
    await until(lambda: mirror.phase == "waiting for a topic that matches")
    clusters.cut_off = {}
    await until(lambda: {part.link for part in lanes.held} == {"sf-to-lax"})
    assert set(mirror.roles) == {"sf-to-nyc", "sf-to-lax"}
    await end(mirror, task)


# -- the config, followed


class Followed:
    """A run whose config is what `says` is."""

    def __init__(self, *links: Link) -> None:
        clusters: dict[str, dict[str, str]] = {"sf": {}, "nyc": {}, "lax": {}}
        self.says = replace(SHORTLY, clusters=clusters, links=links or (LINK,))
        self.clusters = TwoLinks(observed(2), replace(observed(), link=TO_LAX, target_cluster_id="lax-id"))
        self.clusters.settings = self.says
        self.clusters.link_names = [link.name for link in self.says.links]
        self.lanes, self.drivership = FakeLanes(), FakeDrivership()
        self.mirror = mirror_of(
            self.clusters, self.lanes, self.drivership, self.says, read_again=lambda: self.says
        )

    @property
    def codes(self) -> list[str]:
        return [str(each.code) for each in self.mirror.outbox.last]

    @property
    def held(self) -> set[str]:
        return {key.link for key in self.lanes.held}

    async def quiet(self) -> list[tuple[int, str]]:
        await asyncio.sleep(0.2)
        return self.lanes.sent


TO_LAX = replace(LINK, name="sf-to-lax", target="lax")


async def test_a_link_that_is_added_joins_and_nothing_of_the_other_is_touched() -> None:
    it = Followed()
    task = await running(it.mirror)
    await until(lambda: len(it.lanes.held) == 2)
    it.says = replace(it.says, links=(LINK, TO_LAX))
    await until(lambda: it.held == {LINK.name, TO_LAX.name})
    assert "revoke" not in [what for _, what in it.lanes.sent]
    assert it.codes.count("config_changed") == 1
    assert [link.name for link in it.mirror.settings.links] == [LINK.name, TO_LAX.name]
    await end(it.mirror, task)


async def test_a_link_that_is_removed_is_let_go_leaves_a_mark_and_its_groups_and_the_other_goes_on() -> None:
    it = Followed(LINK, TO_LAX)
    task = await running(it.mirror)
    await until(lambda: len(it.lanes.held) == 3)
    compare_all(it.mirror, it.lanes)
    await until(lambda: all(row.compared for row in it.mirror.board.rows.values()))
    it.drivership.group.committed.clear()
    it.says = replace(it.says, links=(LINK,))
    await until(lambda: "config_changed" in it.codes)
    assert it.held == {LINK.name}
    assert it.drivership.removed == [TO_LAX.name]
    assert {key.link for key in it.mirror.board.rows} == {LINK.name}
    assert set(it.mirror.roles) == set(it.mirror.cluster_ids) == {LINK.name}
    assert any("clean" in cell.text for cell in it.drivership.group.committed.values())
    it.drivership.tell(TO_LAX.name, elected(7))  # what is still on its way means nothing
    it.says = replace(it.says, links=(LINK, TO_LAX))
    await until(lambda: it.held == {LINK.name, TO_LAX.name})
    await end(it.mirror, task)


async def test_a_link_that_selects_more_stands_for_election_anew_and_the_other_goes_on() -> None:
    it = Followed(replace(LINK, topics=("orders",)), TO_LAX)
    task = await running(it.mirror)
    await until(lambda: len(it.lanes.held) == 3)
    it.says = replace(it.says, links=(LINK, TO_LAX))
    await until(lambda: it.drivership.removed == [LINK.name])
    await until(lambda: len(it.lanes.held) == 3)
    assert it.drivership.candidates[-1].claim == LINK.claim
    await end(it.mirror, task)


@pytest.mark.parametrize("wrong", [True, False])
async def test_what_is_wrong_or_needs_a_restart_is_told_once_and_touches_nothing(wrong: bool) -> None:
    it = Followed()
    task = await running(it.mirror)
    await until(lambda: len(it.lanes.held) == 2)
    sent = list(it.lanes.sent)
    if wrong:
        it.clusters.unfit = ConfigError(["links: in a circle"])
        it.says = replace(it.says, links=(replace(LINK, exclude=("x",)),))
    else:
        it.says = replace(it.says, lanes=3, spark=SparkSettings(master="local[7]"))
    assert await it.quiet() == sent
    assert it.codes.count("config_refused" if wrong else "restart_needed") == 1
    assert "config_changed" not in it.codes
    assert it.mirror.settings.lanes == SETTINGS.lanes
    await end(it.mirror, task)


async def test_a_run_that_ends_by_itself_copies_by_the_config_that_it_began_with() -> None:
    it = Followed()
    mirror = mirror_of(
        it.clusters, it.lanes, it.drivership, it.says, read_again=lambda: it.says, until_caught_up=True
    )
    task = await running(mirror)
    it.says = replace(it.says, links=(LINK, TO_LAX))
    await it.quiet()
    assert [link.name for link in mirror.settings.links] == [LINK.name]
    await end(mirror, task)


# -- the end of lanes


@pytest.mark.parametrize("deaf", [False, True])
async def test_the_group_is_left_at_the_end_only_if_every_lane_has_ended(
    deaf: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lane that did not drain may still append under its lease: nobody may be elected before that is over (P2)."""
    monkeypatch.setattr(mirror_module, "DRAIN_LIMIT_S", 0.2)
    lanes, drivership = FakeLanes(deaf=deaf), FakeDrivership()

    mirror = mirror_of(FakeClusters(observed()), lanes, drivership)
    task = await running(mirror)
    await until(lambda: bool(lanes.held))
    await end(mirror, task)

    assert drivership.closed == [not deaf]


async def test_the_group_is_not_left_when_spark_is_lost() -> None:
    lanes, drivership = FakeLanes(), FakeDrivership()

    mirror = mirror_of(FakeClusters(observed()), lanes, drivership)
    task = await running(mirror)
    lanes.session.lost = True
    lanes.on_event(SparkLost("the JVM is gone", "look"))
    with pytest.raises(EngineLost):
        await task

    assert drivership.closed == [False]


# -- what is told


AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RACED = of_trouble(partition(), Trouble(Event.RACED, "another was first", 3, 5), AT, "; recovering")


async def test_what_a_lane_tells_is_counted_and_logged_with_its_code(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lanes = FakeLanes()
    stop = PartitionStop(StopReason.LOST, "they are gone", hint="look")

    mirror = mirror_of(FakeClusters(observed()), lanes)
    task = await running(mirror)
    lanes.on_event(LaneTold(0, (RACED, of_stop(partition(), stop, AT))))
    await until(lambda: "they are gone" in caplog.text)
    await end(mirror, task)

    told = [(getattr(r, "event", None), r.levelname, r.getMessage()) for r in caplog.records]
    assert ("raced", "WARNING", "sf-to-nyc/orders:0: another was first; recovering") in told
    assert ("lost", "ERROR", "sf-to-nyc/orders:0 is stopped: they are gone (hint: look)") in told
    assert (mirror.outbox.counts[Event.RACED], mirror.outbox.counts[StopReason.LOST]) == (1, 1)


async def test_a_report_alone_tells_nothing() -> None:
    """What is worth telling a lane tells when it meets it: a report may come too late."""
    lanes = FakeLanes()
    troubled = progress(partition(), 3, trouble="broker 1 is gone", event=Event.BROKER_AWAY)

    mirror = mirror_of(FakeClusters(observed()), lanes)
    task = await running(mirror)
    lanes.on_event(LaneProgress(0, (troubled,)))
    await until(lambda: mirror.board.rows[partition()].trouble is not None)
    await end(mirror, task)

    assert Event.BROKER_AWAY not in mirror.outbox.counts


@pytest.mark.parametrize("deaf", [False, True])
async def test_no_last_word_of_a_lane_is_lost(
    deaf: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not those of a lane that ends in good order, nor those of one that is not waited for any longer."""
    monkeypatch.setattr(mirror_module, "DRAIN_LIMIT_S", 0.2)
    lanes = FakeLanes(deaf=deaf)

    mirror = mirror_of(FakeClusters(observed()), lanes)
    task = await running(mirror)
    lanes.last_words = (RACED,) * 1_000
    await end(mirror, task)

    assert mirror.outbox.counts[Event.RACED] == 1_000 * lanes.started
    joined = [getattr(r, "joined", 1) for r in caplog.records if getattr(r, "event", None) == "raced"]
    assert sum(joined) == 1_000 * lanes.started
    assert len(joined) < 20


async def test_what_was_said_before_spark_was_lost_is_told() -> None:
    lanes = FakeLanes()

    mirror = mirror_of(FakeClusters(observed()), lanes)
    task = await running(mirror)
    lanes.session.lost = True
    lanes.on_event(SparkLost("the JVM is gone", "look"))
    lanes.on_event(LaneTold(0, (RACED,)))
    with pytest.raises(EngineLost):
        await task

    assert mirror.outbox.counts[Event.RACED] == 1


async def test_a_partition_that_the_plan_refuses_is_told_once_with_its_offsets() -> None:
    sights = [mirrored_sight(source_end=5, target_end=5), mirrored_sight(source_end=5, target_end=9)]
    look = snapshot(source_topic(sights=sights), targets=list(observed(2).targets.values()))

    mirror = mirror_of(FakeClusters(look))
    task = await running(mirror)
    await end(mirror, task)

    (told,) = [each for each in mirror.outbox.last if each.code is StopReason.TARGET_AHEAD]
    assert told.where == {**partition(1)._asdict(), "first_offset": 5, "next_offset": 9}
    assert told.hint


async def test_a_partition_that_the_plan_refuses_is_given_to_no_lane() -> None:
    sights = [mirrored_sight(source_end=5, target_end=5), mirrored_sight(source_end=5, target_end=9)]
    look = snapshot(source_topic(sights=sights), targets=list(observed(2).targets.values()))
    lanes = FakeLanes()

    mirror = mirror_of(FakeClusters(look), lanes)
    task = await running(mirror)
    await until(lambda: bool(lanes.held))
    await asyncio.sleep(0.2)
    assert list(lanes.held) == [partition(0)]
    assert [row.partition for row in mirror.board.stopped] == [partition(1)]
    await end(mirror, task)


async def test_lanes_come_with_partitions_up_to_as_many_as_are_wanted() -> None:
    one = snapshot(
        source_topic("orders", [mirrored_sight(source_end=5, target_end=0)]), targets=[target_topic("orders")]
    )
    more = [
        source_topic(name, [mirrored_sight(source_end=5, target_end=0)])
        for name in ("orders", "clicks", "views")
    ]
    three = snapshot(*more, targets=[target_topic(each.name) for each in more])
    clusters, lanes = FakeClusters(one), FakeLanes(local_slots=3)
    mirror = mirror_of(clusters, lanes, settings=replace(SHORTLY, lanes=8))
    task = await running(mirror)
    await until(lambda: len(lanes.held) == 1)
    assert lanes.started == 1
    clusters.looks = [three]
    await until(lambda: len(lanes.held) == 3)
    assert lanes.started == 2  # all that Spark has slots for
    assert mirror.outbox.counts[Event.FEW_LANES] == 1
    mirror.stop()
    await task
