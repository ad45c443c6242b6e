"""A compacted topic that is filled is cleaned by its brokers, gets the source's settings, and is copied on."""

from __future__ import annotations

import asyncio

import pytest

from heliograph.controller import build_changes
from heliograph.controller import builds as module
from heliograph.controller.build_settings import KEEP_OFF, cleaning_changes, phase_of, with_build
from heliograph.controller.cleaning import CleanerIdle
from heliograph.model.command import Outcome, Wish
from heliograph.model.errors import BrokerRefused, Disconnected
from heliograph.model.events import Event
from heliograph.model.partition_status import Aligning, PartitionStatus
from heliograph.model.states import BuildPhase, PartitionState, StopReason
from heliograph.wire.error_codes import ErrorCode

from .command_scene import NAME, SECOND, PlayedTopic, Scene
from .observed import mirrored_sight, partition
from .played import ELECTED

COMPACT = {"cleanup.policy": "compact"}


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRY_AGAIN_S", 0.01)


@pytest.fixture(autouse=True)
def _any_settings_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    async def taken(*_: object, **__: object) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(build_changes, "alter_topic_configs", taken)


def compacted(own: dict[str, str]) -> PlayedTopic:
    topic = PlayedTopic([mirrored_sight(source_end=9, target_end=5)] * 2)
    topic.source_own, topic.own = dict(COMPACT), own
    return topic


def filled(scene: Scene, number: int) -> None:
    row = PartitionStatus(
        partition=partition(number),
        state=PartitionState.ALIGNING,
        next_offset=5,
        aligning=Aligning("filled", 5, 5),
    )
    scene.board.report(0, row)
    scene.builds.report(row)


async def built(scene: Scene) -> None:
    """Filled, and cleaned by brokers at once."""
    scene.cleaned.set()
    filled(scene, 0)
    filled(scene, 1)
    await scene.until(lambda: phase_of(scene.topic.own) is None)


async def test_a_topic_is_cleaned_when_all_its_partitions_are_filled() -> None:
    async with Scene(topic=compacted(with_build(COMPACT))) as scene:
        await scene.until(lambda: scene.is_held(0) and scene.is_held(1))
        filled(scene, 0)
        assert scene.topic.altered == []
        filled(scene, 1)
        await scene.until(lambda: len(scene.topic.altered) == 1)
        assert phase_of(scene.topic.own) is BuildPhase.CLEANING
        await scene.until(
            lambda: scene.board.rows[partition(0)].aligning == Aligning("cleaning", 5, 5, None, 1)
        )
        assert not scene.is_held(0)  # nothing is copied meanwhile
        scene.cleaned.set()
        await scene.until(lambda: scene.is_held(0) and scene.is_held(1))
        assert scene.topic.own["cleanup.policy"] == "compact"
        assert "segment.ms" not in scene.topic.own
        assert scene.outbox.counts[Event.TOPIC_FILLED] == scene.outbox.counts[Event.TOPIC_BUILT] == 1
        (told,) = [each.message for each in scene.outbox.last if each.code is Event.TOPIC_FILLED]
        assert told.endswith(KEEP_OFF)


async def test_what_brokers_are_waited_for_is_told_and_shown() -> None:
    scene = Scene(topic=compacted({**with_build(COMPACT), **COMPACT}))
    scene.waits_for = "broker 2 does not answer"
    async with scene:
        await scene.until(lambda: scene.board.rows[partition(1)].trouble is not None)
        row = scene.board.rows[partition(1)]
        assert (row.trouble, row.event) == ("broker 2 does not answer", Event.NOT_CLEANED)
        (told,) = [each.message for each in scene.outbox.last if each.code is Event.NOT_CLEANED]
        assert told == "link sf-to-nyc: topic orders: broker 2 does not answer"
        scene.cleaned.set()
        await scene.until(lambda: scene.is_held(1))
        assert scene.board.rows[partition(1)].trouble is None


async def test_who_takes_over_a_topic_that_is_being_cleaned_goes_on() -> None:
    building = with_build(COMPACT)
    scene = Scene(topic=compacted({**building, **cleaning_changes(COMPACT)}), elect=False)  # type: ignore[dict-item]
    async with scene:
        scene.drivership.tell(NAME, ELECTED)
        await scene.until(lambda: partition(0) in scene.board.rows)
        assert scene.state(0) is PartitionState.ALIGNING
        scene.topic.fails = [Disconnected("away")]
        scene.cleaned.set()
        await scene.until(lambda: scene.is_held(0))
        assert phase_of(scene.topic.own) is None


async def test_a_topic_is_not_planned_by_settings_that_a_broker_shows_too_late() -> None:
    async with Scene(topic=compacted({**with_build(COMPACT), **COMPACT})) as scene:
        await scene.until(lambda: scene.board.rows[partition(0)].aligning is not None)
        scene.topic.lags = 3  # the first of them comes before the change
        scene.topic._former = scene.topic.own
        scene.cleaned.set()
        await scene.until(lambda: scene.is_held(0) and scene.is_held(1))
        assert scene.outbox.counts[Event.TOPIC_BUILT] == 1


async def test_without_the_right_to_change_its_settings_the_topic_stops_and_is_resumed() -> None:
    async with Scene(topic=compacted(with_build(COMPACT))) as scene:
        await scene.until(lambda: scene.is_held(0) and scene.is_held(1))
        scene.topic.fails = [BrokerRefused("no", code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
        filled(scene, 0)
        filled(scene, 1)
        await scene.until(lambda: scene.state(0) is PartitionState.STOPPED)
        row = scene.board.rows[partition(1)]
        assert row.reason is StopReason.BUILD
        assert "--operation AlterConfigs" in (row.hint or "")
        answer = await scene.wished(Wish.RESUME, 0, stop="build")
        assert answer.outcome is Outcome.APPLIED
        await scene.until(lambda: scene.is_held(0))


@pytest.mark.parametrize("resumed", [(0, 1), (0,)])
async def test_a_topic_whose_cleaner_was_mended_is_cleaned_when_it_is_resumed(
    resumed: tuple[int, ...],
) -> None:
    scene = Scene(topic=compacted({**with_build(COMPACT), **COMPACT}))
    scene.idle.append(CleanerIdle("broker 1 removes nothing", hint="start it again"))
    scene.cleaned.set()
    async with scene:
        await scene.until(lambda: scene.state(0) is PartitionState.STOPPED)
        assert scene.board.rows[partition(0)].reason is StopReason.BUILD
        for number in resumed:
            assert (await scene.wished(Wish.RESUME, number, stop="build")).outcome is Outcome.APPLIED
        await scene.until(lambda: all(scene.is_held(number) for number in resumed))
        assert phase_of(scene.topic.own) is None
        assert (scene.state(1) is PartitionState.STOPPED) == (1 not in resumed)


async def test_a_topic_that_was_paused_while_it_was_cleaned_is_cleaned_when_it_is_resumed() -> None:
    topic = PlayedTopic([mirrored_sight(source_end=9, target_end=5)])
    topic.source_own, topic.own = dict(COMPACT), {**with_build(COMPACT), **COMPACT}
    async with Scene(topic=topic, elect=False) as scene:
        await scene.wish(Wish.PAUSE)
        scene.cleaned.set()
        scene.drivership.tell(NAME, ELECTED)
        await scene.until(lambda: partition(0) in scene.board.rows)
        assert scene.state(0) is PartitionState.PAUSED
        assert (await scene.wished(Wish.RESUME)).outcome is Outcome.APPLIED
        await scene.until(lambda: scene.is_held(0))
        assert phase_of(scene.topic.own) is None


async def test_a_partition_that_is_paused_stays_so_while_its_topic_is_cleaned() -> None:
    async with Scene(topic=compacted({**with_build(COMPACT), **COMPACT}), elect=False) as scene:
        await scene.wish(Wish.PAUSE, 1)
        scene.drivership.tell(NAME, ELECTED)
        await scene.until(
            lambda: (
                partition(0) in scene.board.rows
                and scene.board.rows[partition(0)].aligning == Aligning("cleaning", 5, 5, None, 1)
            )
        )
        assert scene.state(1) is PartitionState.PAUSED
        scene.cleaned.set()
        await scene.until(lambda: scene.is_held(0))
        assert scene.state(1) is PartitionState.PAUSED


async def test_a_topic_that_was_made_again_meanwhile_is_not_changed() -> None:
    async with Scene(topic=compacted(with_build(COMPACT))) as scene:
        await scene.until(lambda: scene.is_held(0) and scene.is_held(1))
        filled(scene, 0)
        filled(scene, 1)
        await scene.until(lambda: len(scene.topic.altered) == 1)
        scene.topic.topic_id, scene.topic.own = SECOND, with_build(COMPACT)
        scene.cleaned.set()
        await scene.until(lambda: scene.state(0) is PartitionState.STOPPED)
        assert scene.board.rows[partition(0)].reason is StopReason.RECREATED
        assert len(scene.topic.altered) == 1
        assert Event.TOPIC_BUILT not in scene.outbox.counts


async def test_what_was_set_by_hand_before_a_remirror_is_there_when_the_topic_is_built() -> None:
    by_hand = {"segment.ms": "77", "delete.retention.ms": "8"}
    async with Scene(topic=compacted({**COMPACT, **by_hand})) as scene:
        scene.topic.source_own["delete.retention.ms"] = "9"
        await scene.until(lambda: scene.is_held(0) and scene.is_held(1))
        for nth in range(2):  # the second time it is being built already
            shown = scene.topic.topic_id
            answer = await scene.wished(Wish.REMIRROR, id=f"{nth}", target_topic_id=shown)
            assert answer.outcome is Outcome.APPLIED
            assert phase_of(scene.topic.own) is BuildPhase.FILLING
            await scene.until(lambda: scene.is_held(0) and scene.is_held(1))
        await built(scene)
        assert {key: scene.topic.own[key] for key in (*by_hand, *COMPACT)} == {**by_hand, **COMPACT}
        await scene.until(lambda: bool(scene.ledger.recorded.followed("orders").setting))
        followed = scene.ledger.recorded.followed("orders")
        assert followed.is_ours("cleanup.policy", "compact")
        assert not followed.is_ours("segment.ms", "77")


@pytest.mark.parametrize("phase", [BuildPhase.FILLING, BuildPhase.CLEANING])
async def test_a_remirror_takes_the_settings_of_a_build_for_nobody_s(phase: BuildPhase) -> None:
    """Else the topic would have them in the end."""
    own = with_build(COMPACT)
    if phase is BuildPhase.CLEANING:
        own["cleanup.policy"] = "compact"
    async with Scene(topic=compacted(own)) as scene:
        assert (await scene.wished(Wish.REMIRROR)).outcome is Outcome.APPLIED
        await scene.until(lambda: scene.is_held(0) and scene.is_held(1))
        await built(scene)
        assert scene.topic.own["cleanup.policy"] == "compact"
        assert not scene.topic.own.keys() & {"segment.ms", "segment.bytes", "retention.ms"}


async def test_a_remirror_ends_what_was_begun_with_the_former_topic() -> None:
    async with Scene(topic=compacted(with_build(COMPACT))) as scene:
        await scene.until(lambda: scene.is_held(0) and scene.is_held(1))
        filled(scene, 0)
        filled(scene, 1)
        await scene.until(lambda: phase_of(scene.topic.own) is BuildPhase.CLEANING)
        assert (await scene.wished(Wish.REMIRROR)).outcome is Outcome.APPLIED
        await scene.until(lambda: scene.is_held(0) and scene.is_held(1))
        scene.cleaned.set()  # of the former topic
        await asyncio.sleep(0.05)
        assert phase_of(scene.topic.own) is BuildPhase.FILLING
        assert Event.TOPIC_BUILT not in scene.outbox.counts
        await built(scene)
        await scene.until(lambda: Event.TOPIC_BUILT in scene.outbox.counts)


async def test_a_topic_that_is_cleaned_goes_on_when_its_remirror_is_refused() -> None:
    async with Scene(topic=compacted({**with_build(COMPACT), **COMPACT})) as scene:
        await scene.until(lambda: scene.board.rows[partition(0)].aligning is not None)
        scene.topic.fails = [BrokerRefused("no", code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
        assert (await scene.wished(Wish.REMIRROR)).outcome is Outcome.REFUSED
        scene.cleaned.set()
        await scene.until(lambda: scene.is_held(0) and scene.is_held(1))
        assert phase_of(scene.topic.own) is None


async def test_a_topic_whose_source_is_not_compacted_any_more_is_not_cleaned() -> None:
    async with Scene(topic=compacted(with_build(COMPACT))) as scene:
        await scene.until(lambda: scene.is_held(0) and scene.is_held(1))
        scene.topic.source_own = {"cleanup.policy": "delete"}
        filled(scene, 0)
        filled(scene, 1)
        await scene.until(lambda: scene.state(0) is PartitionState.STOPPED)
        assert scene.board.rows[partition(0)].reason is StopReason.BUILD
        assert scene.topic.altered == []


async def test_what_brokers_clean_already_gets_the_settings_of_a_source_that_is_not_compacted_any_more() -> (
    None
):
    topic = compacted({**with_build(COMPACT), **COMPACT})
    topic.source_own = {"cleanup.policy": "delete"}
    async with Scene(topic=topic) as scene:
        scene.cleaned.set()
        await scene.until(lambda: scene.is_held(0) and scene.is_held(1))
        assert phase_of(scene.topic.own) is None
        assert scene.topic.own["cleanup.policy"] == "delete"


async def test_a_topic_whose_source_is_gone_stops_and_is_not_said_to_be_built() -> None:
    async with Scene(topic=compacted({**with_build(COMPACT), **COMPACT})) as scene:
        await scene.until(lambda: scene.board.rows[partition(0)].aligning is not None)
        scene.topic.has_source = False
        scene.cleaned.set()
        await scene.until(lambda: scene.state(0) is PartitionState.STOPPED)
        assert scene.board.rows[partition(0)].reason is StopReason.BUILD
        assert Event.TOPIC_BUILT not in scene.outbox.counts


async def test_a_topic_is_not_mirrored_anew_while_its_source_is_being_built_itself() -> None:
    """The new one would have the settings of that build."""
    async with Scene(topic=compacted(dict(COMPACT))) as scene:
        await scene.until(lambda: scene.is_held(0))
        scene.topic.source_own = with_build(COMPACT)
        answer = await scene.wished(Wish.REMIRROR)
        assert answer.outcome is Outcome.REFUSED
        assert "is being built" in answer.message
        assert scene.topic.steps == []
