"""The lanes of a run: who is up, who is ended, and what they are told."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import pytest

from heliograph.controller.board import Board
from heliograph.controller.lane_health import ADVANCE_LIMIT_S
from heliograph.controller.lane_keeper import HELLO_LIMIT_S, NO_SLOT_HINT, LaneKeeper
from heliograph.controller.placement import AWAY_LIMIT_S
from heliograph.copier.lease import ALIVE_S
from heliograph.engine.lanes import LaneGone, LaneRevoked, LaneUp
from heliograph.model.errors import EngineLost
from heliograph.model.occurrence_log import logged
from heliograph.model.partition import MirrorPartition
from heliograph.model.states import BoundBy, PartitionState

from .observed import LINK, copy, partition, progress
from .played import ENDS, FakeLanes

P0, P1 = partition(0), partition(1)
FLIGHT_S = 30.0


class Story:
    """A keeper of played lanes that are up and hold what they were given; `now` moves in looks of a second."""

    def __init__(self, *parts: MirrorPartition, lanes: int = 2, up: Iterable[int] = (0, 1)) -> None:
        self.now = 1_000.0
        self.lanes = FakeLanes()
        copies = [copy(p) for p in parts or (P0, P1)]
        self.board = Board(copies, [])
        self.keeper = LaneKeeper(
            self.lanes.made, self.board, [ENDS], {LINK.name: FLIGHT_S}, logged(), count=lanes, now=self.now
        )
        self.keeper.adopt(LINK.name, copies, self.now)
        for lane in up:
            self.up(lane)
        self.keeper.settle(self.now)

    def up(self, lane: int, **changed: Any) -> None:
        self.keeper.up(LaneUp(lane, 100 + lane, "here", **changed), self.now)

    def report(self, where: MirrorPartition, next_offset: int, **changed: Any) -> None:
        values: dict[str, Any] = {"bound_by": BoundBy.LANE, **changed}
        self.board.report(self.lanes.held.get(where, 0), progress(where, next_offset, **values))

    def looks(self, seconds: float) -> list[int]:
        """The lanes that were ended meanwhile."""
        before = len(self.lanes.abandoned)
        for _ in range(round(seconds)):
            self.now += 1.0
            self.keeper.watch(self.now)
        return self.lanes.abandoned[before:]

    def leased(self, lane: int, seconds: float) -> None:
        self.lanes.leases[lane, LINK.name] = self.now + seconds

    def settle(self) -> list[tuple[int, str]]:
        before = len(self.lanes.sent)
        self.keeper.settle(self.now)
        return self.lanes.sent[before:]


# -- lanes that hang


def test_a_lane_with_something_to_send_that_does_not_advance_for_ten_seconds_is_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    story = Story()
    story.report(P0, 10)
    assert story.looks(ADVANCE_LIMIT_S) == []
    caplog.clear()  # that lanes are up
    assert story.looks(1) == [0]
    assert "lane 0 has work to do and has not advanced for 10 s" in caplog.text
    assert [getattr(r, "event", None) for r in caplog.records] == ["lane_hung"]


def test_a_lane_that_hangs_and_is_away_already_is_not_ended_again() -> None:
    story = Story()
    story.report(P0, 10)
    story.looks(ADVANCE_LIMIT_S)
    story.keeper.lanes[0].pid = None
    assert story.looks(5) == []


def test_a_lane_that_hangs_is_ended_once_until_it_is_gone_and_its_partitions_move_at_once() -> None:
    story = Story()
    story.report(P0, 10)
    assert story.looks(3 * ADVANCE_LIMIT_S) == [0]
    story.keeper.gone(LaneGone(0), story.now)
    assert story.settle() == [(1, "assign")]
    assert story.lanes.held == {P0: 1, P1: 1}


@pytest.mark.parametrize("by", ["silence", "end"])
def test_partitions_of_a_silent_lane_move_at_once_and_of_one_that_ended_after_a_while(by: str) -> None:
    story = Story()
    story.keeper.gone(LaneGone(0, silent=by == "silence"), story.now)
    assert bool(story.settle()) == (by == "silence")
    story.now += AWAY_LIMIT_S
    story.settle()
    assert story.lanes.held == {P0: 1, P1: 1}


@pytest.mark.parametrize("how", ["hung", "silent", "ended"])
def test_partitions_move_only_when_no_exclusive_lease_of_a_lane_that_is_gone_can_last(how: str) -> None:
    story = Story()
    story.report(P0, 10)
    if how == "hung":
        story.looks(ADVANCE_LIMIT_S + 1)
    story.leased(0, 8)
    story.keeper.gone(LaneGone(0, silent=how == "silent"), story.now)
    story.now += 7.9
    assert story.settle() == []
    story.now += 0.1
    assert story.settle() == [(1, "assign")]
    _, clear_in_s, _ = story.lanes.assigned()[-1]
    goes_on_s = 8 if how == "ended" else ALIVE_S
    assert clear_in_s == pytest.approx(goes_on_s + FLIGHT_S - 8)


def test_a_lease_of_another_link_or_lane_holds_nothing_up() -> None:
    story = Story()
    story.leased(1, 60)
    story.lanes.leases[0, "sf-to-lax"] = story.now + 60
    story.keeper.gone(LaneGone(0, silent=True), story.now)
    assert story.settle() == [(1, "assign")]


def test_a_lane_that_ended_clean_is_replaced_at_once_whatever_lease_it_had() -> None:
    story = Story()
    story.leased(0, 8)
    story.keeper.gone(LaneGone(0, clean=True, silent=True), story.now)
    assert story.settle() == [(1, "assign")]
    assert story.lanes.assigned()[-1][1] == 0.0


# -- lanes that come and go


def test_topics_that_were_created_just_now_are_given_with_no_wait_and_others_with_it() -> None:
    """Nobody can have sent anything to a topic that was not there."""
    story = Story(up=[])
    new = partition(0, topic="payments")
    story.keeper.drop(LINK.name)
    copies = [copy(P0), copy(new)]
    story.board.adopt(LINK.name, copies, [])
    story.keeper.adopt(LINK.name, copies, story.now + 60, created={"payments"})
    story.up(0)
    story.up(1)
    story.settle()
    waits = {part: clear_in_s for _, clear_in_s, parts in story.lanes.assigned() for part in parts}
    assert waits == {P0: 60.0, new: 0.0}


def test_a_lane_that_is_unfit_ends_the_run_with_what_to_do() -> None:
    story = Story(up=[])
    with pytest.raises(EngineLost, match="lane 1 on here cannot work for this driver") as lost:
        story.up(1, unfit="Python 3.12 instead of 3.11; run `heliograph pack`")
    assert "heliograph pack" in lost.value.hint
    assert lost.value.exit_code == 4
    assert story.keeper.lanes[1].pid is None


def test_a_lane_that_is_missed_is_told_once_until_it_came(caplog: pytest.LogCaptureFixture) -> None:
    story = Story(up=[0])
    story.looks(3 * HELLO_LIMIT_S)
    (record,) = [r for r in caplog.records if "has no Spark slot yet" in r.getMessage()]
    assert "lane 1 has no Spark slot yet" in record.getMessage()
    assert getattr(record, "event", None) == "few_lanes"
    assert story.board.rows[P1].trouble is None  # another lane has it
    story.up(1)
    story.keeper.gone(LaneGone(1), story.now)
    story.looks(2 * HELLO_LIMIT_S)
    assert caplog.text.count("has no Spark slot yet") == 2


def test_with_no_lane_at_all_every_partition_says_so_until_it_is_given() -> None:
    story = Story(up=[])
    story.looks(HELLO_LIMIT_S)
    assert {row.hint for row in story.board.rows.values()} == {NO_SLOT_HINT}
    story.up(0)
    story.up(1)
    story.settle()
    assert {row.trouble for row in story.board.rows.values()} == {None}


def test_a_lane_that_was_replaced_unnoticed_is_given_its_partitions_again_with_the_wait() -> None:
    """Its older line may look open for long after a network was cut; the newer process holds nothing."""
    story = Story()
    story.report(P0, 10)
    story.up(0)
    assert story.board.rows[P0].lane is None
    assert story.settle() == [(0, "assign")]
    lane, clear_in_s, parts = story.lanes.assigned()[-1]
    assert (lane, clear_in_s, parts) == (0, ALIVE_S + FLIGHT_S, [P0])


def test_what_a_lane_let_go_of_is_on_no_lane_and_given_home_again() -> None:
    story = Story()
    story.report(P0, 10)
    story.keeper.gone(LaneGone(0, clean=True), story.now)
    story.now += AWAY_LIMIT_S
    story.settle()
    story.up(0)
    story.now += AWAY_LIMIT_S
    story.lanes.deaf = True
    assert story.settle() == [(1, "revoke")]
    story.report(P0, 20)
    story.keeper.revoked(LaneRevoked(1, P0, clean=True), story.now)
    row = story.board.rows[P0]
    assert (row.lane, row.state, row.next_offset) == (None, PartitionState.PENDING, 20)
    story.settle()
    assert story.lanes.held[P0] == 0


def test_what_has_stopped_is_not_given_to_another_lane() -> None:
    story = Story()
    story.report(P0, 10, state=PartitionState.STOPPED, reason="lost", error="gone", hint="look")
    story.keeper.gone(LaneGone(0, silent=True), story.now)
    assert story.settle() == []
    story.up(0)
    assert story.settle() == []
    assert story.board.rows[P0].error == "gone"


def test_a_lane_is_told_of_its_links_clusters_with_its_partitions() -> None:
    story = Story()
    assert story.lanes.sent == [(0, "assign"), (1, "assign")]
    assert story.lanes.links == {0: [ENDS], 1: [ENDS]}


def test_the_end_of_a_lane_is_told_with_how_it_ended(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    story = Story()
    story.keeper.gone(LaneGone(0), story.now)
    story.keeper.gone(LaneGone(1, silent=True), story.now)
    codes = [getattr(r, "event", None) for r in caplog.records]
    assert codes == ["lane_up", "lane_up", "lane_gone", "lane_hung"]
    assert [view.pid for view in story.keeper.lanes] == [None, None]


# -- more lanes, and fewer partitions


def test_a_lane_that_is_added_gets_what_comes_and_takes_nothing_from_the_others() -> None:
    story = Story(lanes=1, up=(0,))
    story.keeper.grow(2, story.now)
    story.keeper.grow(2, story.now)
    assert (story.lanes.started, len(story.keeper.lanes)) == (1, 2)
    story.up(1)
    new = partition(2)
    story.board.adopt_again([copy(new)])
    story.keeper.extend([copy(new)])
    assert story.settle() == [(1, "assign")]
    assert story.lanes.held == {P0: 0, P1: 0, new: 1}


def test_what_is_forgotten_is_given_to_nobody_and_what_was_sent_there_may_still_arrive() -> None:
    story = Story()
    story.keeper._placement.release([P0])
    story.settle()
    story.keeper.revoked(LaneRevoked(0, P0, clean=False), story.now)
    story.keeper.forget([P0])
    assert not story.keeper.knows(P0)
    assert story.keeper.is_free(P0)
    assert story.keeper.clear_in_s(P0, story.now) == FLIGHT_S
    assert story.settle() == []
