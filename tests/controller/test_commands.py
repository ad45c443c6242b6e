"""Commands of operators: carried out by the holder, answered once, refused where they would do what was not shown."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta

import pytest

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.fenced_cells import Cell
from heliograph.cluster.grants import Resource
from heliograph.controller import commands as module
from heliograph.controller import remirror
from heliograph.controller.act import Made
from heliograph.controller.drivership import Standby
from heliograph.controller.finding import Finding
from heliograph.controller.ledger import Ledger
from heliograph.controller.plan import CreateTopic
from heliograph.controller.takeover import Ready
from heliograph.engine.lanes import LaneRevoked
from heliograph.model.admission import AS_THEY_ARE
from heliograph.model.clock import clock_of_waits, time_of_day
from heliograph.model.command import Outcome, Wish
from heliograph.model.errors import BrokerRefused, ClusterUnreachable, Disconnected, HeliographError
from heliograph.model.events import Event, Severity
from heliograph.model.ledger import RowKind
from heliograph.model.partition import TopicPartition
from heliograph.model.states import PartitionState, StopReason
from heliograph.wire.error_codes import ErrorCode

from .command_scene import FIRST, NAME, SECOND, SOURCE_TOPIC_ID, PlayedTopic, Scene, keys
from .observed import LINK, mirrored_sight, partition, span
from .played import ELECTED, elected

BEHIND = replace(mirrored_sight(source_end=100, target_end=50), source=span(60, 100))


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRY_AGAIN_S", 0.01)


def finals(scene: Scene) -> list[tuple[str, str]]:
    """What was answered for good; a row that is carried on into a new term is the same answer."""
    rows = [row.fields for row in scene.rows(RowKind.ANSWER) if row.fields]
    answers = dict.fromkeys((each["id"], each["outcome"], each["at"]) for each in rows)
    return [(of, outcome) for of, outcome, _ in answers if outcome != Outcome.UNDER_WAY]


async def test_a_partition_is_paused_and_resumed_and_others_go_on() -> None:
    async with Scene() as scene:
        await scene.until(lambda: len(scene.lanes.held) == 2)
        answer = await scene.wished(Wish.PAUSE, 0)
        assert (answer.outcome, answer.message) == (Outcome.APPLIED, "paused")
        assert (scene.state(0), scene.is_held(0), scene.is_held(1)) == (PartitionState.PAUSED, False, True)
        assert "paused by ann@desk" in (scene.board.rows[partition(0)].trouble or "")
        answer = await scene.wished(Wish.RESUME, 0)
        assert (answer.outcome, answer.message) == (Outcome.APPLIED, "resumed")
        await scene.until(lambda: scene.is_held(0))
        assert scene.outbox.counts[Event.PAUSED] == scene.outbox.counts[Event.RESUMED] == 1


async def test_a_stopped_partition_is_not_paused_and_a_running_one_not_resumed() -> None:
    async with Scene() as scene:
        await scene.stop(0)
        assert "stays so" in (await scene.wished(Wish.PAUSE, 0)).message
        assert scene.state(0) is PartitionState.STOPPED
        assert "neither" in (await scene.wished(Wish.RESUME, 1)).message


async def test_a_stop_is_resolved_by_a_resume_that_names_it_and_by_no_other() -> None:
    async with Scene() as scene:
        await scene.stop(0)
        refused = await scene.wished(Wish.RESUME, 0, id="a", stop="lost")
        assert refused.outcome is Outcome.REFUSED
        assert "another reason" in refused.message
        assert scene.state(0) is PartitionState.STOPPED
        applied = await scene.wished(Wish.RESUME, 0, id="b", stop="foreign")
        assert applied.outcome is Outcome.APPLIED
        await scene.until(lambda: scene.is_held(0))
        assert scene.ledger.recorded.stop(TopicPartition("orders", 0), FIRST) is None


@pytest.mark.parametrize("wish", [Wish.PAUSE, Wish.RESUME])
async def test_a_command_about_another_topic_of_that_name_is_refused(wish: Wish) -> None:
    async with Scene() as scene:
        await scene.until(lambda: scene.is_held(0))
        if wish is Wish.RESUME:
            await scene.stop(0)
        before = scene.state(0)
        answer = await scene.wished(wish, 0, target_topic_id=SECOND)
        assert answer.outcome is Outcome.REFUSED
        assert "created again" in answer.message
        assert scene.state(0) is before
        assert scene.is_held(0)


async def test_a_loss_is_accepted_as_it_was_shown_and_refused_when_it_has_grown() -> None:
    async with Scene(BEHIND) as scene:
        assert scene.board.rows[partition(0)].reason is StopReason.LOST
        unnamed = await scene.wished(Wish.RESUME, 0, id="a", stop="lost")
        assert "--accept-loss" in unnamed.hint
        grown = await scene.wished(Wish.RESUME, 0, id="b", stop="lost", loses={0: (50, 58)})
        assert grown.outcome is Outcome.REFUSED
        assert "starts at 60" in grown.message
        assert not scene.rows(RowKind.LOSS)
        accepted = await scene.wished(Wish.RESUME, 0, id="c", stop="lost", loses={0: (50, 60)})
        assert accepted.outcome is Outcome.APPLIED
        await scene.until(lambda: scene.is_held(0))
        row = scene.rows(RowKind.LOSS)[0]
        assert (row.fields or {})["next_offset"] == 60


async def test_a_resume_that_the_plan_refuses_is_refused_and_the_stop_written_again() -> None:
    async with Scene(BEHIND) as scene:
        await scene.stop(0, StopReason.FOREIGN)
        answer = await scene.wished(Wish.RESUME, 0, stop="foreign")
        assert answer.outcome is Outcome.REFUSED
        assert scene.board.rows[partition(0)].reason is StopReason.LOST
        await scene.ledger.flush(5.0)
        stop = scene.ledger.recorded.stop(TopicPartition("orders", 0), FIRST)
        assert stop is not None
        assert stop.code == "lost"


async def test_a_command_that_is_read_twice_acts_once() -> None:
    async with Scene() as scene:
        command = await scene.wish(Wish.PAUSE, 0)
        scene.commands.take(command)
        await scene.done(command)
        scene.commands.take(command)
        scene.commands.ready(NAME)
        await asyncio.sleep(0.05)
        assert finals(scene) == [("pause 0", "applied")]
        assert scene.outbox.counts[Event.PAUSED] == 1


async def test_a_command_that_nobody_heard_is_carried_out_by_who_is_elected_next() -> None:
    async with Scene(elect=False) as scene:
        command = await scene.wish(Wish.PAUSE, 0)
        scene.drivership.tell(NAME, ELECTED)
        assert (await scene.done(command)).outcome is Outcome.APPLIED
        assert scene.state(0) is PartitionState.PAUSED
        assert not scene.is_held(0)


async def test_a_run_that_stands_by_carries_nothing_out() -> None:
    async with Scene() as scene:
        scene.drivership.tell(NAME, Standby(active="there (pid 7)"))
        await scene.wish(Wish.PAUSE, 0)
        await asyncio.sleep(0.05)
        assert not finals(scene)


async def test_a_command_in_the_middle_is_left_to_the_next_holder() -> None:
    async with Scene() as scene:
        await scene.until(lambda: scene.is_held(0))
        scene.lanes.deaf = True  # the lane does not let go
        command = await scene.wish(Wish.PAUSE, 0)
        await scene.until(lambda: scene.commands._tasks)
        scene.drivership.tell(NAME, Standby(active="there (pid 7)"))
        await asyncio.sleep(0.02)
        assert not scene.commands._tasks
        assert not finals(scene)
        for key in list(scene.lanes.held):
            scene.keeper.revoked(LaneRevoked(0, key, clean=True), clock_of_waits())
        scene.lanes.held.clear()
        scene.drivership.tell(NAME, elected(7, "me again"))
        assert (await scene.done(command)).outcome is Outcome.APPLIED


async def test_a_target_that_is_away_for_a_moment_is_waited_for_and_the_command_answered_once() -> None:
    async with Scene() as scene:
        scene.topic.away = [Disconnected("gone")]
        assert (await scene.wished(Wish.PAUSE, 0)).outcome is Outcome.APPLIED
        assert finals(scene) == [("pause 0", "applied")]
        assert scene.outbox.counts[Event.CLUSTER_AWAY] == 1


async def test_a_link_that_was_withdrawn_is_not_taken_again() -> None:
    """The election has said so, and the run has not heard yet."""
    async with Scene() as scene:
        scene.roles._granted = frozenset()
        await scene.stop(0)
        await scene.wish(Wish.RESUME, 0, stop="foreign")
        await scene.until(lambda: scene.outbox.counts.get(Event.CLUSTER_AWAY))
        assert not finals(scene)
        assert scene.state(0) is PartitionState.STOPPED


# -- mirrored anew


async def test_a_topic_is_deleted_by_its_id_created_as_it_was_and_copied_anew() -> None:
    async with Scene() as scene:
        scene.topic.own = {"retention.ms": "1234", "compression.type": "zstd"}
        await scene.stop(1)
        before = scene.ledger.term_of("orders")
        # Of a partition that stopped since its records may be others than the source's all is lost.
        answer = await scene.wished(Wish.REMIRROR, loses={1: (0, 5)})
        assert answer.outcome is Outcome.APPLIED, answer
        assert scene.topic.steps == [f"deleted {FIRST}", "created"]
        configs = scene.topic.created[0].shape.configs
        assert (configs["retention.ms"], configs["compression.type"]) == ("1234", "producer")
        await scene.until(lambda: scene.is_held(0) and scene.is_held(1))
        recorded = scene.ledger.recorded
        assert recorded.stop(TopicPartition("orders", 1), SECOND) is None
        assert recorded.is_topic("orders", scene.topic.source_topic_id, SECOND)
        assert recorded.followed("orders").values == {"min.insync.replicas": "1"}
        assert recorded.created("orders", SECOND)
        assert not recorded.to_remirror("orders")
        assert scene.ledger.term_of("orders") > before
        assert finals(scene) == [("remirror 0", "applied")]


async def test_the_row_is_durable_before_the_topic_is_deleted_and_gone_with_the_answer() -> None:
    async with Scene() as scene:
        rows: list[int] = []
        real = scene.topic.delete

        async def delete(client: object, topic_id: str) -> None:
            rows.append(len(scene.rows(RowKind.REMIRROR)))
            await real(client, topic_id)  # type: ignore[arg-type]

        scene.remirror._delete_topic = delete
        await scene.wished(Wish.REMIRROR)
        assert rows == [1]
        first, last = scene.rows(RowKind.REMIRROR)
        assert (first.fields or {})["target_topic_id"] == FIRST
        assert last.fields is None


@pytest.mark.parametrize(
    ("topic_id", "steps"),
    [
        (FIRST, [f"deleted {FIRST}", "created"]),  # written, not yet deleted
        ("", ["created"]),  # deleted, not yet created
        (SECOND, []),  # created
    ],
)
async def test_each_step_is_taken_up_by_the_next_holder(topic_id: str, steps: list[str]) -> None:
    scene = Scene(elect=False)
    async with scene:
        command = await scene.wish(Wish.REMIRROR)
        former = Scene(topic=scene.topic, elect=False)
        ledger = await former.roles.ledgers.open(NAME)
        assert ledger is not None
        await ledger.take_over(["orders"], 7)  # the next holder's rows count only above that
        await ledger.write([ledger.of_topic("orders", "orders", SOURCE_TOPIC_ID)])
        await ledger.write([ledger.of_remirror("orders", command.id, FIRST, {"segment.ms": "77"})])
        await former.roles.aclose()
        scene.topic.topic_id, scene.topic.own = topic_id, {**AS_THEY_ARE, "segment.ms": "77"}
        scene.drivership.tell(NAME, ELECTED)
        assert (await scene.done(command)).outcome is Outcome.APPLIED
        assert scene.topic.steps == steps
        assert all(made.shape.configs["segment.ms"] == "77" for made in scene.topic.created)
        await scene.until(lambda: scene.is_held(0))
        assert scene.ledger.recorded.remirroring("orders") is None


async def test_a_cluster_that_is_away_behind_the_answer_leaves_no_partition_paused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remirror, "TRY_AGAIN_S", 0.01)
    async with Scene() as scene:
        real = scene.roles.take_again
        failures: list[HeliographError] = [ClusterUnreachable("away"), Disconnected("away")]

        async def take_again(link: str, topics: Collection[str]) -> Ready:
            if failures:
                raise failures.pop()
            return await real(link, topics)

        monkeypatch.setattr(scene.roles, "take_again", take_again)
        assert (await scene.wished(Wish.REMIRROR)).outcome is Outcome.APPLIED
        await scene.until(lambda: scene.is_held(0) and scene.is_held(1))
        assert failures == []


async def test_a_stop_that_was_not_shown_is_resumed_only_if_every_plan_finds_it_anew() -> None:
    async with Scene() as scene:
        await scene.stop(0, StopReason.RIVAL)
        unseen = await scene.wished(Wish.RESUME, 0, id="a", stop=None)
        assert (unseen.outcome, "rival" in unseen.message) == (Outcome.REFUSED, True)
        await scene.stop(1, StopReason.PARTITIONS)
        assert (await scene.wished(Wish.RESUME, 1, id="b", stop=None)).outcome is Outcome.APPLIED


async def test_a_deleted_topic_that_the_mirror_may_not_create_waits_once_it_is_resumed() -> None:
    topic = PlayedTopic([mirrored_sight(source_end=9, target_end=5)])
    topic.played_link = replace(LINK, create_topics=False)
    async with Scene(topic=topic) as scene:
        await scene.until(lambda: scene.is_held(0))
        await scene.stop(0, StopReason.RECREATED)
        scene.topic.topic_id = ""
        answer = await scene.wished(Wish.RESUME, 0, stop="recreated", target_topic_id="")
        assert (answer.outcome, "it waits" in answer.message) == (Outcome.APPLIED, True)
        assert "kafka-topics.sh" in answer.hint
        assert scene.state(0) is PartitionState.PENDING
        assert scene.board.rows[partition(0)].awaits_topic


async def test_a_topic_to_which_a_right_is_missing_answers_commands_under_a_term_that_counts() -> None:
    scene = Scene(elect=False)
    async with scene:
        former = Scene(topic=scene.topic, elect=False)
        ledger = await former.roles.ledgers.open(NAME)
        assert ledger is not None
        await ledger.take_over(["orders"], 7)
        await ledger.write([ledger.of_topic("orders", "orders", SOURCE_TOPIC_ID)])
        await former.roles.aclose()
        lacks = Finding(
            severity=Severity.ERROR,
            link=NAME,
            cluster=LINK.target,
            message="WRITE is missing",
            hint="grant it",
            resource=Resource.TOPIC,
            names=("orders",),
        )
        scene.topic.findings = (lacks,)
        scene.drivership.tell(NAME, ELECTED)
        await scene.until(lambda: partition(0) in scene.board.rows)
        assert scene.board.rows[partition(0)].reason is StopReason.PREFLIGHT
        assert (await scene.wished(Wish.RESUME, 0, stop="preflight")).outcome is Outcome.REFUSED
        scene.topic.findings = ()
        assert (await scene.wished(Wish.RESUME, 0, id="b", stop="preflight")).outcome is Outcome.APPLIED
        await scene.until(lambda: scene.is_held(0))


async def test_more_than_was_shown_is_not_deleted() -> None:
    async with Scene(BEHIND, BEHIND) as scene:
        for nth, loses in enumerate(({}, {0: (0, 60), 1: (5, 60)}, {0: (0, 40), 1: (0, 60)})):
            answer = await scene.wished(Wish.REMIRROR, id=str(nth), loses=loses)
            assert answer.outcome is Outcome.REFUSED
            assert "more" in answer.message
        assert scene.topic.steps == []
        shown = {0: (0, 60), 1: (0, 60)}
        assert (await scene.wished(Wish.REMIRROR, id="all", loses=shown)).outcome is Outcome.APPLIED


async def test_what_the_source_loses_while_lanes_let_go_counts() -> None:
    async with Scene() as scene:
        scene.clear_in_s = 0.05
        command = await scene.wish(Wish.REMIRROR)
        await scene.until(lambda: scene.state(0) is PartitionState.PAUSED)
        scene.topic.sights = [replace(sight, source=span(3, 9)) for sight in scene.topic.sights]
        answer = await scene.done(command)
        assert answer.outcome is Outcome.REFUSED
        assert scene.topic.steps == []
        await scene.until(lambda: scene.is_held(0))


@pytest.mark.parametrize("topic_id", [SECOND, ""])
async def test_another_topic_than_the_one_that_was_shown_is_never_deleted(topic_id: str) -> None:
    async with Scene() as scene:
        answer = await scene.wished(Wish.REMIRROR, target_topic_id="id of another")
        assert answer.outcome is Outcome.REFUSED
        scene.topic.topic_id = topic_id
        assert scene.topic.steps == []


async def test_who_may_not_create_a_topic_again_does_not_delete_it() -> None:
    async with Scene() as scene:
        scene.topic.creation_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        answer = await scene.wished(Wish.REMIRROR)
        assert (answer.outcome, "--operation Create" in answer.hint) == (Outcome.REFUSED, True)
        assert scene.topic.steps == []
        await scene.until(lambda: scene.is_held(0))
        scene.topic.creation_code = ErrorCode.TOPIC_ALREADY_EXISTS  # what a broker says that would
        assert (await scene.wished(Wish.REMIRROR, id="again")).outcome is Outcome.APPLIED


async def test_nothing_is_copied_into_a_topic_that_somebody_else_has_created_meanwhile() -> None:
    async with Scene() as scene:
        scene.topic.appears = "id of another"
        answer = await scene.wished(Wish.REMIRROR)
        assert answer.outcome is Outcome.REFUSED
        assert "created by somebody else" in answer.message
        assert answer.hint.endswith("heliograph topics remirror sf-to-nyc orders")
        assert scene.topic.steps == [f"deleted {FIRST}"]
        assert scene.topic.topic_id == "id of another"
        await scene.until(lambda: scene.state(0) is PartitionState.STOPPED)
        assert not scene.is_held(0)
        scene.topic.appears = ""
        again = await scene.wished(Wish.REMIRROR, id="again", target_topic_id="id of another")
        assert again.outcome is Outcome.APPLIED
        await scene.until(lambda: scene.is_held(0))


async def test_configs_that_cannot_be_set_again_cost_no_topic() -> None:
    async with Scene() as scene:
        scene.topic.own = {"retention.ms": "7"}
        refused = BrokerRefused("a policy", code=ErrorCode.POLICY_VIOLATION)
        honest = scene.remirror._create_topic

        async def picky(client: ClusterClient, creation: CreateTopic) -> Made:
            if creation.shape.configs.get("retention.ms") == "7":
                raise refused
            return await honest(client, creation)

        scene.remirror._create_topic = picky
        assert (await scene.wished(Wish.REMIRROR)).outcome is Outcome.APPLIED
        told = [each.message for each in scene.outbox.last if each.code is Event.PLAN_WARNING]
        assert told == [
            "topic orders cannot have what was set by hand (retention.ms=7) any more: a policy",
        ]


async def test_a_command_that_nobody_could_carry_out_for_a_week_is_to_be_given_again() -> None:
    async with Scene() as scene:
        answer = await scene.wished(Wish.REMIRROR, at=time_of_day() - timedelta(days=8))
        assert (answer.outcome, answer.message) == (Outcome.REFUSED, "it was asked for 8 days ago")
        assert scene.topic.steps == []


async def test_a_command_that_can_never_be_answered_is_tried_once() -> None:
    async with Scene() as scene:
        scene.topic.away = [BrokerRefused("no", code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
        await scene.wish(Wish.PAUSE)
        await scene.until(lambda: scene.outbox.counts.get(Event.COMMAND))
        assert not scene.commands.busy
        assert Event.CLUSTER_AWAY not in scene.outbox.counts


async def test_a_run_whose_lease_is_over_deletes_nothing_until_it_has_one() -> None:
    async with Scene() as scene:
        scene.drivership.granted = {NAME: 0.0}
        command = await scene.wish(Wish.REMIRROR)
        await scene.until(lambda: scene.outbox.counts.get(Event.CLUSTER_AWAY))
        assert scene.topic.steps == []
        scene.drivership.granted = {NAME: 5.0}
        assert (await scene.done(command)).outcome is Outcome.APPLIED
        assert scene.topic.steps == [f"deleted {FIRST}", "created"]


async def test_a_run_that_is_stood_down_while_lanes_let_go_deletes_nothing() -> None:
    async with Scene() as scene:
        scene.clear_in_s = 0.1
        await scene.wish(Wish.REMIRROR)
        await scene.until(lambda: scene.state(0) is PartitionState.PAUSED)
        scene.drivership.tell(NAME, Standby(active="there (pid 7)"))
        await asyncio.sleep(0.2)
        assert scene.topic.steps == []
        assert not finals(scene)


async def test_late_rows_of_a_former_holder_do_not_count_again_when_a_topic_is_mirrored_anew() -> None:
    """It has written under its own, lower, term since we have taken over."""
    scene = Scene(elect=False)
    async with scene:
        scene.drivership.group.committed = {
            key.target: Cell(number=0, text='{"version": 1, "term": 6}') for key in keys()
        }
        scene.drivership.tell(NAME, ELECTED)
        await scene.until(lambda: NAME in scene.roles._granted)
        late = scene.ledger.of_remirror("orders", "of yesterday", FIRST, {})
        former = Ledger(scene.topic.logs)
        await former.open()
        await former.write([replace(late, term=3)])
        assert (await scene.wished(Wish.REMIRROR)).outcome is Outcome.APPLIED
        assert not scene.ledger.recorded.to_remirror("orders")
        await scene.until(lambda: scene.is_held(0))


async def test_a_source_topic_that_is_gone_is_not_mirrored_anew() -> None:
    topic = PlayedTopic([mirrored_sight(source_end=9, target_end=5)])
    async with Scene(topic=topic) as scene:
        topic.has_source = False
        answer = await scene.wished(Wish.REMIRROR)
        assert answer.outcome is Outcome.REFUSED
        assert topic.steps == []
