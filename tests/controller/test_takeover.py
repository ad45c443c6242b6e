"""A link is taken over: the term before rows, goals before lanes hear of it, and no mark is left behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from heliograph.cluster.fenced_cells import Cell
from heliograph.cluster.grants import Resource, Right
from heliograph.controller import making, preparation, takeover
from heliograph.controller.act import Made
from heliograph.controller.beginnings import Beginnings
from heliograph.controller.cells import Cells
from heliograph.controller.finding import Finding
from heliograph.controller.followed_configs import Followed
from heliograph.controller.link_ledgers import LinkLedgers
from heliograph.controller.plan import HeldBy, Plan
from heliograph.controller.snapshot import LinkSnapshot
from heliograph.controller.takeover import BARRIER, Ready, Takeover
from heliograph.controller.topic_config import FORCED
from heliograph.model.errors import BrokerRefused, ClusterUnreachable, Disconnected
from heliograph.model.events import Event, Severity
from heliograph.model.ledger import LEDGER_TOPIC, RowKind, decode_row
from heliograph.model.outbox import Outbox
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

from .memory_logs import MemoryLogs
from .observed import (
    LINK,
    NYC_ID,
    SF_ID,
    config,
    mirrored_sight,
    partition,
    snapshot,
    source_sight,
    source_topic,
    target_topic,
)
from .played import FakeClusters, PlayedGroup

NAME = LINK.name
ORDERS = TopicPartition("orders", 0)
NOBODY: HeldBy = lambda _link, _topic: None  # noqa: E731


def seen(*, target_end: int = 5, topic_id: str = "id of orders") -> LinkSnapshot:
    sight = mirrored_sight(source_end=9, target_end=target_end)
    targets = [target_topic(topic_id=topic_id)]
    return snapshot(source_topic(sights=[sight], topic_id="src"), targets=targets)


class Story:
    """`steps`: cells that were committed, and kinds of rows that were written, in order."""

    def __init__(self, *looks: LinkSnapshot, refuses: BrokerRefused | None = None) -> None:
        self.clusters = FakeClusters(*looks or [seen()])
        self.clusters.logs = MemoryLogs(refuses)
        self.group = PlayedGroup()
        self.outbox = Outbox()
        self.steps: list[str] = []
        self._note_commits()

    def _note_commits(self) -> None:
        real = self.group.commit

        async def commit(cells: Mapping[TopicPartition, Cell]) -> None:
            await real(cells)
            self._note_rows()
            self.steps.append("barrier" if BARRIER in cells else "cells")

        self.group.commit = commit  # type: ignore[method-assign]

    def _note_rows(self) -> None:
        rows = [step for step in self.steps if step.startswith("row")]
        log = self.clusters.logs.logs.get(LEDGER_TOPIC)
        for record in log.records[len(rows) :] if log else ():
            row = decode_row(record.key or b"", record.value)
            assert row is not None
            self.steps.append(f"row {row.name.kind} {row.term}" + ("" if row.fields else " removed"))

    def run(self) -> Run:
        return Run(self)

    async def take(self, only: Sequence[str] | None = None) -> Ready:
        return await self.run().take(only=only)


class Run:
    """One that is elected, with a ledger and cells of its own."""

    def __init__(self, story: Story) -> None:
        self.story = story
        cells = Cells(story.group, 0.0)
        self.ledgers = LinkLedgers(
            story.clusters.made, {NAME: (SF_ID, NYC_ID)}, story.outbox, lambda _command: None
        )
        self._take_over = Takeover(story.clusters.made, self.ledgers, story.outbox, lambda _link: cells)

    async def take(self, mirrored: Sequence[str] = (), only: Sequence[str] | None = None) -> Ready:
        try:
            return await self._take_over(NAME, "me", mirrored, NOBODY, only)
        finally:
            self.story._note_rows()
            await self.ledgers.aclose()


def mark(end: int = 5, clear_in_s: float = 0.0) -> Cell:
    return Cell(number=0, text=f'{{"version": 1, "term": 6, "clean": [{end}, {clear_in_s}]}}')


async def test_the_term_is_durable_before_any_row_and_every_row_is_under_it() -> None:
    story = Story()
    await story.take()
    assert story.steps == ["barrier", "cells", "row topic 1", "row link 0"]
    story.steps.clear()
    story.steps += ["row"] * 2
    await story.take()
    assert story.steps[2:] == ["barrier", "cells", "row topic 2", "row topic 1 removed"]


async def test_a_goal_is_durable_before_lanes_hear_of_it_and_the_link_itself_is_written_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def resolved(_source: object, todo: Plan, *_: object) -> Beginnings:
        copies = tuple(replace(copy, spec=replace(copy.spec, begin_at=7)) for copy in todo.copies)
        return Beginnings(todo=replace(todo, copies=copies), goals={partition(): 7})

    monkeypatch.setattr(takeover, "resolve_beginnings", resolved)
    story = Story(seen(target_end=0))
    ready = await story.take()
    assert story.steps == ["barrier", "cells", "row begin 1", "row topic 1", "row link 0"]
    assert [copy.spec.begin_at for copy in ready.todo.copies] == [7]


async def test_a_goal_that_cannot_be_written_leaves_the_link_unprepared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story()
    run = story.run()

    async def away(*_: object) -> Beginnings:
        story.clusters.logs.logs[LEDGER_TOPIC].fails = [Disconnected("gone")]
        return Beginnings(todo=Plan(creations=(), copies=(), refusals=(), warnings=()), goals={})

    monkeypatch.setattr(takeover, "resolve_beginnings", away)
    with pytest.raises(ClusterUnreachable):
        await run.take()


@pytest.mark.parametrize("ledger", [True, False])
async def test_marks_are_erased_before_the_link_is_ready_and_count_once(ledger: bool) -> None:
    story = Story(refuses=None if ledger else DENIED)
    story.group.committed = {ORDERS: mark(clear_in_s=2.5)}
    assert (await story.take()).marks == {partition(): (5, 2.5)}
    assert "clean" not in story.group.committed[ORDERS].text
    assert (await story.take()).marks == {}


@pytest.mark.parametrize("ledger", [True, False])
async def test_a_mark_of_a_log_that_has_moved_on_is_erased_and_does_not_count(ledger: bool) -> None:
    story = Story(refuses=None if ledger else DENIED)
    story.group.committed = {ORDERS: mark(end=4)}
    assert (await story.take()).marks == {}
    assert "clean" not in story.group.committed[ORDERS].text


@pytest.mark.parametrize("ledger", [True, False])
async def test_a_mark_that_is_still_on_its_way_is_erased(ledger: bool) -> None:
    story = Story(refuses=None if ledger else DENIED)
    story.group.pending = {ORDERS: mark()}
    await story.take()
    assert "clean" not in story.group.committed[ORDERS].text


DENIED = BrokerRefused("no right to create", code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)


async def test_without_a_ledger_the_link_is_taken_over_and_told_so_once() -> None:
    story = Story(refuses=DENIED)
    run = story.run()
    for _ in range(2):
        ready = await run.take()
        assert len(ready.todo.copies) == 1
    assert story.outbox.counts == {Event.NO_LEDGER: 1}
    assert story.steps == ["cells"] * 4  # the first is the barrier


async def test_a_ledger_that_is_away_is_tried_again() -> None:
    story = Story(refuses=BrokerRefused("wait", code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
    with pytest.raises(ClusterUnreachable):
        await story.take()
    assert Event.NO_LEDGER not in story.outbox.counts


@pytest.mark.parametrize(
    "problem",
    [Disconnected("gone"), BrokerRefused("not now", code=ErrorCode.REBALANCE_IN_PROGRESS)],
    ids=lambda problem: type(problem).__name__,
)
async def test_cells_that_fail_are_tried_again_and_nothing_is_written_meanwhile(
    problem: BrokerRefused | Disconnected,
) -> None:
    story = Story()
    story.group.fails = [problem]
    with pytest.raises(ClusterUnreachable):
        await story.take()
    assert story.steps == []
    await story.take()
    assert story.steps[:2] == ["barrier", "cells"]


async def test_cells_that_are_denied_are_told_and_the_link_copied_all_the_same() -> None:
    story = Story()
    story.group.fails = [BrokerRefused("no", code=ErrorCode.GROUP_AUTHORIZATION_FAILED, hint="grant READ")]
    assert len((await story.take()).todo.copies) == 1
    assert story.outbox.counts[Event.ELECTION] == 1


async def test_a_topic_to_which_a_right_is_missing_leaves_the_others_their_terms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = snapshot(
        source_topic(sights=[mirrored_sight(source_end=9, target_end=5)]),
        source_topic("secret", sights=[mirrored_sight(source_end=9, target_end=5, topic="secret")]),
        targets=[target_topic(), target_topic("secret")],
    )
    story = Story(both)
    missing = Finding(
        severity=Severity.ERROR,
        link=NAME,
        cluster="nyc",
        message="no READ",
        hint="grant it",
        right=Right.READ,
        resource=Resource.TOPIC,
        names=("secret",),
    )

    async def preflight(_snapshots: object, _recorded: object = None) -> tuple[Finding, ...]:
        return (missing,)

    monkeypatch.setattr(story.clusters, "preflight", preflight)
    ready = await story.take()
    assert [each.partition.target_topic for each in ready.todo.refusals] == ["secret"]
    assert set(story.group.committed) == {BARRIER, ORDERS}


async def test_a_topic_that_somebody_else_has_made_meanwhile_has_a_term(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def made(*_: object) -> Made:
        return Made(new=False)

    monkeypatch.setattr(making, "create", made)
    story = Story(snapshot(source_topic(sights=[source_sight(0, 9)])))
    ready = await story.take()
    assert (len(ready.todo.copies), ready.todo.creations) == (1, ())
    assert ORDERS in story.group.committed
    assert "row topic 1" in story.steps


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("policy", ["delete", "compact"])
async def test_what_a_topic_is_created_with_follows_its_source_from_the_start(
    monkeypatch: pytest.MonkeyPatch, new: bool, policy: str
) -> None:
    """Of one that somebody else has created, and of what a topic is built with, nothing is known yet."""

    async def made(*_: object) -> Made:
        return Made(new=new)

    async def accepted(*_: object) -> None:
        return None

    async def nothing(*_: object) -> dict[object, int]:
        return {}

    monkeypatch.setattr(making, "create", made)
    monkeypatch.setattr(making, "_not_ours", accepted)
    monkeypatch.setattr(preparation, "try_changes", accepted)
    monkeypatch.setattr(takeover, "first_records", nothing)
    own = {"retention.ms": "77", "cleanup.policy": policy}
    source = source_topic(sights=[source_sight(0, 9)], config=config(own))
    story = Story(snapshot(source, target_defaults={"retention.bytes": "-1"}))
    run = story.run()
    await run.take()
    ledger = run.ledgers.of(NAME)
    assert ledger is not None
    expected = {**own, "min.insync.replicas": "1"} if new else {}
    assert ledger.recorded.followed("orders") == Followed(values=expected)


async def test_partitions_with_attempts_may_have_had_gaps_filled() -> None:
    story = Story()
    assert [copy.spec.gaps_filled for copy in (await story.take()).todo.copies] == [False]
    story.group.committed[ORDERS] = Cell(number=3, text="")
    assert [copy.spec.gaps_filled for copy in (await story.take()).todo.copies] == [True]


async def test_single_topics_that_are_taken_again_leave_the_link_unwritten() -> None:
    story = Story()
    await story.take(only=["orders"])
    assert [step for step in story.steps if step.startswith("row")] == ["row topic 1"]


async def test_rows_of_the_former_holder_are_carried_on_and_those_that_come_late_mean_nothing() -> None:
    story = Story()
    await story.take()
    run = story.run()
    ledger = await run.ledgers.open(NAME)
    assert ledger is not None
    await ledger.ledger.write([replace(ledger.of_gaps(ORDERS), term=1)])
    assert ledger.recorded.gaps_filled(ORDERS, "id of orders")
    await run.take()
    assert ledger.recorded.gaps_filled(ORDERS, "id of orders")
    await ledger.ledger.write([replace(ledger.of_loss(ORDERS, (0, 5), "ann"), term=1)])
    assert ledger.recorded.accepted_loss(ORDERS, "id of orders") is None
    assert RowKind.GAPS in {name.kind for name in ledger.recorded.rows_of("orders")}


@pytest.mark.parametrize("ours", [True, False])
async def test_a_topic_row_says_whether_its_topic_was_created_by_us_and_a_later_run_says_the_same(
    monkeypatch: pytest.MonkeyPatch, ours: bool
) -> None:
    async def made(*_: object) -> Made:
        return Made(new=ours)

    monkeypatch.setattr(making, "create", made)
    missing = snapshot(source_topic(sights=[source_sight(0, 9)], topic_id="src"))
    # The source topic was made again before anything was copied: the row is written anew, of the same target topic.
    empty = source_topic(sights=[mirrored_sight(source_end=9, target_end=0)], topic_id="second")
    there = snapshot(empty, targets=[target_topic(topic_id="id of orders", own=FORCED)])
    story = Story(missing, there)
    run = story.run()
    for source_id in ("src", "second"):
        await run.take()
        ledger = await run.ledgers.open(NAME)
        assert ledger is not None
        (known,) = ledger.recorded.mirrored(NAME)
        assert (known.source_topic_id, known.created) == (source_id, ours)


async def test_a_topic_that_was_written_down_as_kept_and_is_mirrored_again_is_kept_no_more() -> None:
    story = Story()
    run = story.run()
    await run.take()
    ledger = await run.ledgers.open(NAME)
    assert ledger is not None
    row = ledger.of_topic("orders", "orders", "src", {"segment.ms": "77"}, created=True)
    await ledger.write([row])
    await ledger.keep(["orders"])
    assert ledger.recorded.mirrored(NAME)[0].kept
    await run.take()
    (known,) = ledger.recorded.mirrored(NAME)
    assert (known.kept, known.created) == (False, True)
    assert ledger.recorded.set_by_hand("orders") == {"segment.ms": "77"}
