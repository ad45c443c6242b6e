"""Who hangs and who only waits: by offsets that advance, and by what a partition says that it waits for."""

from __future__ import annotations

from typing import Any

import pytest

from heliograph.controller.board import Board
from heliograph.controller.lane_health import ADVANCE_LIMIT_S, LaneHealth
from heliograph.model.partition import MirrorPartition
from heliograph.model.states import BoundBy, PartitionState

from .observed import copy, partition, progress

P0, P1 = partition(0), partition(1)
OTHER_LINK = partition(0, link="sf-to-lax")
LEASE_WAIT: dict[str, Any] = {"trouble": "old records wait for 30 s", "event": "lease_wait"}


class Story:
    """A board with what lanes report, and a look at it every second."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.board = Board([copy(P0), copy(P1), copy(OTHER_LINK)], [])
        self.health = LaneHealth(self.now)

    def report(self, where: MirrorPartition, next_offset: int, *, lane: int = 0, **changed: Any) -> None:
        """A partition that has something to send, unless said otherwise."""
        values: dict[str, Any] = {"bound_by": BoundBy.LANE, **changed}
        self.board.report(lane, progress(where, next_offset, **values))

    def looks(self, seconds: float) -> set[int]:
        """The lanes that hung at the last look."""
        hanging: set[int] = set()
        for _ in range(round(seconds)):
            self.now += 1.0
            hanging = self.health.hanging(self.board.rows.values(), self.now)
        return hanging


def test_a_lane_with_something_to_send_that_does_not_advance_for_ten_seconds_hangs() -> None:
    story = Story()
    story.report(P0, 10)
    assert story.looks(ADVANCE_LIMIT_S) == set()
    assert story.looks(1) == {0}


def test_who_comes_in_a_lanes_place_begins_anew_also_before_the_next_look() -> None:
    story = Story()
    story.report(P0, 10)
    assert story.looks(ADVANCE_LIMIT_S) == set()
    story.board.lane_gone(0)
    story.health.lane_gone(0)
    story.report(P0, 10)
    assert story.looks(ADVANCE_LIMIT_S) == set()
    assert story.looks(1) == {0}


def test_a_partition_that_has_moved_to_another_lane_begins_anew() -> None:
    story = Story()
    story.report(P0, 10)
    assert story.looks(ADVANCE_LIMIT_S) == set()
    story.report(P0, 10, lane=1)
    assert story.looks(ADVANCE_LIMIT_S) == set()
    assert story.looks(1) == {1}


def test_a_lane_that_advances_slowly_does_not_hang() -> None:
    story = Story()
    for next_offset in range(10):
        story.report(P0, next_offset)
        assert story.looks(ADVANCE_LIMIT_S - 1) == set()


def test_a_lane_hangs_by_any_of_its_partitions_however_well_the_others_do() -> None:
    story = Story()
    story.report(P0, 10)
    for next_offset in range(12):
        story.report(P1, next_offset)
        story.looks(1)
    assert story.looks(1) == {0}


@pytest.mark.parametrize(
    "waits",
    [
        {"bound_by": BoundBy.TARGET},
        {"bound_by": BoundBy.SOURCE},
        {"bound_by": BoundBy.QUOTA},
        {"bound_by": None},
        {"trouble": "broker 1 is gone"},
        {"state": PartitionState.CAUGHT_UP},
        {"state": PartitionState.ALIGNING, "bound_by": None},
        {"state": PartitionState.STOPPED},
    ],
    ids=str,
)
def test_a_busy_target_or_source_is_no_hang(waits: dict[str, Any]) -> None:
    story = Story()
    story.report(P0, 10, **waits)
    assert story.looks(60) == set()


def test_who_waits_for_a_lease_or_for_older_appends_does_not_hang_while_it_says_so() -> None:
    story = Story()
    story.report(P0, 10, **LEASE_WAIT)
    assert story.looks(120) == set()
    story.report(P0, 10)  # it may send now, and does not
    assert story.looks(ADVANCE_LIMIT_S) == set()
    assert story.looks(1) == {0}


@pytest.mark.parametrize(
    "waits", [{"bound_by": BoundBy.TARGET}, {"bound_by": None, "trouble": "no answer"}], ids=str
)
def test_a_partition_behind_another_at_a_slow_broker_is_no_hang(waits: dict[str, Any]) -> None:
    """A broker handles one append of a line at a time, and waits for its followers meanwhile."""
    story = Story()
    story.report(P0, 10, **waits)
    story.report(P1, 10)
    assert story.looks(60) == set()
    story.report(P0, 11, bound_by=BoundBy.TARGET)  # it answers again: whoever now stands still has no excuse
    assert story.looks(1) == {0}


def test_a_slow_broker_of_another_lane_or_link_excuses_nobody() -> None:
    story = Story()
    story.report(P0, 10)
    story.report(P1, 10, lane=1, bound_by=BoundBy.TARGET)
    story.report(OTHER_LINK, 10, bound_by=BoundBy.TARGET)
    assert story.looks(ADVANCE_LIMIT_S + 1) == {0}


def test_a_partition_that_is_on_no_lane_blames_none_and_counts_anew_on_the_next() -> None:
    story = Story()
    story.report(P0, 10)
    story.looks(ADVANCE_LIMIT_S)
    story.board.let_go(P0)
    assert story.looks(60) == set()
    story.report(P0, 10, lane=1)
    assert story.looks(ADVANCE_LIMIT_S) == set()
    assert story.looks(1) == {1}


def test_a_driver_that_was_frozen_itself_blames_no_lane() -> None:
    story = Story()
    story.report(P0, 10)
    story.looks(5)
    story.now += 20
    assert story.looks(2) == set()
    story.report(P0, 11)  # what the lane did meanwhile is read only now
    assert story.looks(ADVANCE_LIMIT_S - 1) == set()
    assert story.looks(2) == {0}


def test_who_waits_behind_a_partition_whose_answers_are_due_does_not_hang_whatever_that_one_meets() -> None:
    story = Story()
    story.report(P0, 10)
    story.report(P1, 20, bound_by=BoundBy.TARGET)
    assert story.looks(ADVANCE_LIMIT_S) == set()
    story.report(P1, 20, bound_by=None, trouble="the source partition has a new leader", event="leader_moved")
    assert story.looks(ADVANCE_LIMIT_S / 2) == set()
