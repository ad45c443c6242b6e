"""A link that is ours is followed: topics that come, grow and go; nothing else is touched."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from heliograph.controller import making
from heliograph.controller.active_link import ActiveLink
from heliograph.controller.configs_in_step import ConfigsInStep
from heliograph.controller.configs_told import ConfigsTold
from heliograph.controller.plan_told import PlanTold
from heliograph.model.command import Outcome, Wish
from heliograph.model.errors import BrokerRefused, Disconnected
from heliograph.model.events import Event
from heliograph.model.policy import LinkPolicy, Oversize
from heliograph.model.states import PartitionState, StopReason
from heliograph.wire.error_codes import ErrorCode

from .command_scene import NAME, TOPIC, Scene
from .observed import LINK, mirrored_sight, partition, progress, source_sight


@contextlib.asynccontextmanager
async def followed(monkeypatch: pytest.MonkeyPatch, scene: Scene) -> AsyncIterator[ActiveLink]:
    monkeypatch.setattr(making, "create", scene.topic.create)
    monkeypatch.setattr(making, "grow", scene.topic.grow)
    monkeypatch.setattr(making, "TRY_AGAIN_S", 0.0)
    configs = ConfigsInStep(
        NAME,
        scene.topic.made,
        scene.roles,
        scene.board,
        scene.turns,
        ConfigsTold(scene.outbox),
        interval_s=0.01,
        alter=scene.topic.alter,
    )
    link = ActiveLink(
        NAME,
        scene.topic.made,
        scene.roles,
        scene.board,
        scene.restart,
        scene.builds,
        scene.turns,
        PlanTold(scene.outbox),
        scene.outbox,
        scene.commands.look_again,
        configs,
        interval_s=0.01,
    )
    async with scene:
        link.start()
        try:
            yield link
        finally:
            await link.aclose()


def in_step() -> Scene:
    return Scene(*[mirrored_sight(source_end=9, target_end=5)] * 2)


async def looks(scene: Scene, count: int = 3) -> None:
    """That many more looks are over."""
    before = scene.topic.looked
    await scene.until(lambda: scene.topic.looked > before + count)


async def test_nothing_is_done_while_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with followed(monkeypatch, scene := in_step()):
        await scene.until(lambda: len(scene.lanes.held) == 2)
        observations = scene.topic.observations
        await looks(scene)
        assert scene.topic.observations == observations
        assert scene.lanes.sent == [(0, "assign")]


async def test_added_partitions_are_added_and_copied_and_the_others_stay_where_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with followed(monkeypatch, scene := in_step()):
        await scene.until(lambda: len(scene.lanes.held) == 2)
        scene.topic.there = 2
        scene.topic.sights.append(source_sight(0, 3))
        await scene.until(lambda: scene.is_held(2))
        assert scene.topic.steps == ["3 partitions"]
        assert "revoke" not in [what for _, what in scene.lanes.sent]
        assert scene.lanes.assigned()[-1][2] == [partition(2)]
        assert scene.outbox.counts[Event.PARTITIONS_ADDED] == 1
        await looks(scene)
        assert scene.topic.steps == ["3 partitions"]


async def test_partitions_that_may_not_be_added_are_refused_alone_told_once_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with followed(monkeypatch, scene := in_step()) as link:
        await scene.until(lambda: len(scene.lanes.held) == 2)
        denied = BrokerRefused("not allowed", code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        scene.topic.fails = [denied]
        scene.topic.there = 2
        scene.topic.sights.append(source_sight(0, 3))
        await scene.until(lambda: partition(2) in scene.board.rows)
        row = scene.board.rows[partition(2)]
        assert (row.state, row.reason) == (PartitionState.STOPPED, StopReason.PARTITIONS)
        assert "--operation Alter" in (row.hint or "")
        assert (scene.is_held(0), scene.is_held(1)) == (True, True)
        await looks(scene)
        assert scene.outbox.counts[StopReason.PARTITIONS] == 1
        link._again_at = 0.0  # the time to look again at what may be mended
        await scene.until(lambda: scene.is_held(2))


async def test_a_topic_that_is_gone_is_let_go_and_told_and_one_that_is_back_is_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with followed(monkeypatch, scene := in_step()):
        await scene.until(lambda: len(scene.lanes.held) == 2)
        scene.topic.has_source = False
        await scene.until(lambda: not scene.board.rows)
        assert scene.lanes.held == {}
        assert scene.outbox.counts[Event.TOPIC_GONE] == 1
        scene.topic.has_source = True
        await scene.until(lambda: len(scene.lanes.held) == 2)


async def test_a_topic_that_one_broker_does_not_know_of_for_a_moment_is_not_let_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with followed(monkeypatch, scene := in_step()):
        await scene.until(lambda: len(scene.lanes.held) == 2)
        scene.topic.absent_for = 1
        await looks(scene)
        assert scene.topic.absent_for == 0
        assert len(scene.lanes.held) == 2


async def test_a_topic_that_the_mirror_may_not_see_any_more_is_not_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with followed(monkeypatch, scene := in_step()):
        await scene.until(lambda: len(scene.lanes.held) == 2)
        scene.topic.has_source, scene.topic.hidden = False, True
        await looks(scene, 6)
        assert len(scene.lanes.held) == 2
        assert Event.TOPIC_GONE not in scene.outbox.counts


async def test_a_target_topic_that_was_deleted_under_us_is_not_made_again_by_what_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with followed(monkeypatch, scene := in_step()):
        await scene.until(lambda: len(scene.lanes.held) == 2)
        scene.topic.topic_id = ""
        scene.topic.sights.append(source_sight(0, 3))
        await scene.until(lambda: partition(2) in scene.board.rows)
        row = scene.board.rows[partition(2)]
        assert (row.state, row.reason) == (PartitionState.STOPPED, StopReason.RECREATED)
        assert scene.topic.created == []


async def test_a_cluster_that_cannot_be_read_is_told_once_and_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with followed(monkeypatch, scene := in_step()):
        await scene.until(lambda: len(scene.lanes.held) == 2)
        scene.topic.away = [Disconnected("broker 1 is gone") for _ in range(5)]
        await scene.until(lambda: not scene.topic.away)
        assert scene.outbox.counts[Event.CLUSTER_AWAY] == 1
        scene.topic.there = 2
        scene.topic.sights.append(source_sight(0, 3))
        await scene.until(lambda: scene.is_held(2))


async def test_what_an_operator_has_stopped_or_paused_stays_so_when_its_topic_grows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with followed(monkeypatch, scene := in_step()):
        await scene.until(lambda: len(scene.lanes.held) == 2)
        assert (await scene.wished(Wish.PAUSE, 1)).outcome is Outcome.APPLIED
        scene.topic.there = 2
        scene.topic.sights.append(source_sight(0, 3))
        await scene.until(lambda: scene.is_held(2))
        assert (scene.state(1), scene.is_held(1)) == (PartitionState.PAUSED, False)


async def test_a_command_about_a_partition_that_is_found_later_is_carried_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with followed(monkeypatch, scene := in_step()):
        await scene.until(lambda: len(scene.lanes.held) == 2)
        command = await scene.wish(Wish.PAUSE, 2)
        await looks(scene)
        scene.topic.there = 2
        scene.topic.sights.append(source_sight(0, 3))
        await scene.done(command)
        assert scene.state(2) is PartitionState.PAUSED


async def test_a_topic_that_somebody_works_on_is_left_to_the_next_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with followed(monkeypatch, scene := in_step()):
        await scene.until(lambda: len(scene.lanes.held) == 2)
        async with scene.turns.alone(NAME, [TOPIC]):
            scene.topic.there = 2
            scene.topic.sights.append(source_sight(0, 3))
            await looks(scene)
            assert scene.topic.steps == []
        await scene.until(lambda: scene.is_held(2))


async def test_its_topics_configs_are_kept_in_step_until_it_is_withdrawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with followed(monkeypatch, scene := in_step()) as link:
        await scene.until(lambda: len(scene.lanes.held) == 2)
        scene.topic.source_own = {"segment.ms": "7"}
        await scene.until(lambda: scene.topic.own == {"segment.ms": "7"})
        link.stop()
        await asyncio.sleep(0)
        scene.topic.source_own = {"segment.ms": "8"}
        read = scene.topic.configs_read
        await asyncio.sleep(0.1)
        assert (scene.topic.configs_read, scene.topic.own) == (read, {"segment.ms": "7"})


async def test_a_link_that_is_withdrawn_is_followed_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async with followed(monkeypatch, scene := in_step()) as link:
        await scene.until(lambda: len(scene.lanes.held) == 2)
        link.stop()
        await asyncio.sleep(0)
        scene.topic.there = 2
        scene.topic.sights.append(source_sight(0, 3))
        looked = scene.topic.looked
        await asyncio.sleep(0.1)
        assert (scene.topic.looked, scene.topic.steps) == (looked, [])


async def test_a_topic_that_the_config_selects_no_more_is_let_go_at_once_and_copied_again_if_it_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with followed(monkeypatch, scene := in_step()):
        await scene.until(lambda: len(scene.lanes.held) == 2)
        monkeypatch.setattr(scene.topic, "link", lambda _name: replace(LINK, exclude=(TOPIC,)))
        await scene.until(lambda: not scene.board.rows)
        (gone,) = [each for each in scene.outbox.last if each.code is Event.TOPIC_GONE]
        assert "does not select" in gone.message
        monkeypatch.setattr(scene.topic, "link", lambda _name: LINK)
        await scene.until(lambda: len(scene.lanes.held) == 2)


async def test_a_topic_with_another_policy_is_given_to_lanes_anew_by_that_and_what_is_stopped_stays_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with followed(monkeypatch, scene := in_step()) as link:
        await scene.until(lambda: len(scene.lanes.held) == 2)
        scene.board.report(0, progress(partition(1), 5, state=PartitionState.STOPPED, error="it stopped"))
        policy = LinkPolicy(oversize=Oversize.SKIP)
        scene.topic.played_link = replace(LINK, policy=policy)
        link.copy_otherwise([TOPIC])
        await scene.until(lambda: [keys for _, _, keys in scene.lanes.assigned()][1:] == [[partition(0)]])
        assert [what for _, what in scene.lanes.sent].count("revoke") == 1
        assert scene.board.rows[partition(1)].state is PartitionState.STOPPED
        await looks(scene)
        assert len(scene.lanes.assigned()) == 2
