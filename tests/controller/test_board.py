"""The board: sums and states from the lanes' reports."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from heliograph.controller.board import RATE_WINDOW_S, Board
from heliograph.controller.plan import AwaitPartition, LeavePartition, PausePartition
from heliograph.model.events import Event
from heliograph.model.partition import MirrorPartition
from heliograph.model.states import BoundBy, PartitionState

from .observed import copy, partition, progress, refusal
from .played import order

P0, P1, BAD = partition(0), partition(1), partition(0, topic="bad")
OF_LANES = [state for state in PartitionState if state is not PartitionState.PAUSED]  # no lane says that


def board_of(*, first: int | None = 0, goal: int | None = 100) -> Board:
    return Board([copy(P0, next_offset=first, goal=goal)], [])


# -- states


def test_a_partition_waits_for_its_lane_and_a_refused_one_is_stopped_from_the_start() -> None:
    board = Board([copy(P0, next_offset=40)], [refusal(BAD)])
    assert board.rows[P0].state is PartitionState.PENDING
    assert board.rows[P0].lane is None
    (stopped,) = board.stopped
    assert (stopped.partition, stopped.error, stopped.hint) == (BAD, "somebody else wrote it", "delete it")
    assert (board.copied_records, board.copied_bytes, board.lag_records) == (0, 0, 60)


def left(next_offset: int | None = 30) -> LeavePartition:
    holder = order("b").holder("orders")
    assert holder is not None
    return LeavePartition(partition=P0, next_offset=next_offset, goal=100, holder=holder)


def test_a_partition_of_a_topic_that_another_run_holds_is_pending_and_says_whose_it_is() -> None:
    board = board_of()
    board.adopt(P0.link, [], [], [left()])
    row = board.rows[P0]
    assert (row.state, row.next_offset, row.held_by) == (PartitionState.PENDING, 30, "b (pid 7), link theirs")
    board.lane_waits([P0], "no slot", "more slots")
    assert board.rows[P0].trouble is None  # it waits for nobody's lane
    board.adopt(P0.link, [copy(P0)], [])
    assert board.rows[P0].held_by is None


def test_a_partition_that_stopped_stays_so_whoever_holds_it() -> None:
    board = board_of()
    board.report(0, progress(P0, 10, state=PartitionState.STOPPED, reason="corrupt"))
    board.stand_by(P0.link, "another")
    assert (board.rows[P0].state, board.rows[P0].held_by) == (PartitionState.STOPPED, "another")
    board.adopt(P0.link, [copy(P0)], [])
    assert (board.rows[P0].state, board.rows[P0].held_by) == (PartitionState.STOPPED, None)


def test_a_report_is_the_row_with_what_the_run_knows_of_it() -> None:
    board = board_of(goal=100)
    reported = progress(P0, 10, trouble="broker 1 is gone", event=Event.BROKER_AWAY, bound_by=BoundBy.TARGET)
    board.report(3, reported)
    assert board.rows[P0] == reported._replace(lane=3, goal=100, compared=True)


def test_a_report_of_a_partition_that_is_not_of_this_run_is_ignored() -> None:
    board = board_of()
    board.report(0, progress(BAD, 10))
    assert list(board.rows) == [P0]


def test_a_report_without_a_position_keeps_the_last_known_one() -> None:
    board = board_of()
    board.report(0, progress(P0, 70))
    board.report(0, progress(P0, None, state=PartitionState.ALIGNING))
    assert board.rows[P0].next_offset == 70
    assert board.rows[P0].state is PartitionState.ALIGNING


def test_trouble_is_over_with_the_first_report_without_it() -> None:
    board = board_of()
    board.report(0, progress(P0, 10, trouble="broker 1 is gone"))
    board.report(0, progress(P0, 20))
    assert board.rows[P0].trouble is None


def test_a_lane_that_goes_away_leaves_its_own_partitions_pending_and_no_others() -> None:
    board = Board([copy(P0), copy(P1)], [])
    board.report(0, progress(P0, 10))
    board.report(1, progress(P1, 20))
    board.lane_gone(0)
    assert (board.rows[P0].state, board.rows[P0].lane) == (PartitionState.PENDING, None)
    assert (board.rows[P1].state, board.rows[P1].lane) == (PartitionState.COPYING, 1)
    assert board.rows[P0].next_offset == 10


def test_a_stopped_partition_stays_stopped_when_its_lane_goes_away() -> None:
    board = board_of()
    board.report(0, progress(P0, 10, state=PartitionState.STOPPED, reason="lost", error="gone", hint="h"))
    board.lane_gone(0)
    (row,) = board.stopped
    assert (row.reason, row.error, row.hint, row.lane) == ("lost", "gone", "h", None)


def awaited(goal: int | None = 100) -> AwaitPartition:
    return AwaitPartition(
        partition=P1, goal=goal, why="there is no topic", command="kafka-topics.sh --create"
    )


def test_a_partition_without_a_target_topic_is_pending_and_its_hint_is_the_line_that_creates_it() -> None:
    board = Board([copy(P0)], [], [awaited()])
    (row,) = board.awaiting_topics
    assert (row.partition, row.state, row.hint) == (P1, PartitionState.PENDING, "kafka-topics.sh --create")
    assert row.problem is not None
    assert row.problem == "there is no topic"
    assert board.stopped == []
    assert board.lag_records == 200


@pytest.mark.parametrize("goal", [0, 100, None])
def test_a_run_ends_without_the_partitions_that_have_no_target_topic(goal: int | None) -> None:
    board = Board([copy(P0)], [], [awaited(goal)])
    assert not board.finished
    board.report(0, progress(P0, 100))
    assert board.finished
    assert len(board.awaiting_topics) == 1


def test_a_partition_is_awaited_no_more_when_its_topic_is_there() -> None:
    board = Board([], [], [awaited()])
    board.adopt(P1.link, [copy(P1)], [])
    assert (board.awaiting_topics, board.rows[P1].problem, board.rows[P1].hint) == ([], None, None)
    board.adopt(P1.link, [], [], awaited=[awaited()])
    assert len(board.awaiting_topics) == 1


# -- the end of a run


@pytest.mark.parametrize(("next_offset", "finished"), [(99, False), (100, True), (101, True)])
def test_a_run_is_finished_when_the_sources_end_at_its_start_is_reached(
    next_offset: int, finished: bool
) -> None:
    board = board_of(goal=100)
    board.report(0, progress(P0, next_offset, source_end=5_000))
    assert board.finished is finished


@pytest.mark.parametrize("goal", [0, 100])
def test_a_partition_is_caught_up_only_once_a_lane_has_compared_both_logs(goal: int) -> None:
    board = board_of(first=goal, goal=goal)  # offsets alone: the source may hold other records by now
    assert not board.finished
    board.report(0, progress(P0, None, state=PartitionState.ALIGNING))
    assert not board.finished
    board.report(0, progress(P0, goal))
    assert board.finished
    board.lane_gone(0)
    assert board.finished


def test_a_link_that_is_ours_again_is_compared_again_before_it_is_caught_up() -> None:
    board = board_of(goal=100)
    board.report(0, progress(P0, 100))
    board.adopt("sf-to-nyc", [copy(P0, next_offset=100)], [])
    assert not board.finished
    board.report(0, progress(P0, 100))
    assert board.finished


def test_a_partition_whose_source_could_not_be_read_is_finished_once_it_is_caught_up() -> None:
    board = board_of(goal=None)
    assert not board.finished
    board.report(0, progress(P0, 10))
    assert not board.finished
    board.report(0, progress(P0, 100, state=PartitionState.CAUGHT_UP))
    assert board.finished


def test_a_stopped_partition_does_not_keep_a_run_from_its_end() -> None:
    board = Board([copy(P0)], [refusal(BAD)])
    board.report(0, progress(P0, 100))
    assert board.finished
    assert len(board.stopped) == 1


# -- sums


def test_a_lane_that_came_back_counts_its_bytes_from_nothing_and_the_sum_goes_on() -> None:
    board = board_of()
    board.report(0, progress(P0, 40, records=40, size_bytes=4_000))
    board.lane_gone(0)
    board.report(0, progress(P0, 40, records=0, size_bytes=0))
    board.report(0, progress(P0, 90, records=50, size_bytes=5_000))
    assert (board.copied_bytes, board.copied_records) == (9_000, 90)


def test_only_records_copied_in_this_run_are_counted() -> None:
    board = board_of(first=40)
    board.report(0, progress(P0, 90, records=50))
    assert board.copied_records == 50


def test_records_that_were_there_before_the_run_are_not_counted_where_the_plan_could_not_see_them() -> None:
    # A target that could not be read is planned from nowhere; its lane then finds 90 records there and copies ten.
    board = board_of(first=None)
    board.report(0, progress(P0, 90, records=0))
    board.report(0, progress(P0, 100, records=10))
    assert board.copied_records == 10


def test_a_target_that_was_truncated_below_the_runs_start_gives_no_negative_count() -> None:
    board = board_of(first=40)
    board.report(0, progress(P0, 30, records=0))
    assert board.copied_records >= 0
    assert board.lag_records == 70


def test_what_a_stopped_partition_lacks_is_not_counted_with_what_is_being_copied() -> None:
    board = Board([copy(P0), copy(P1)], [refusal(BAD)])
    board.report(0, progress(P0, 10, source_end=100, state=PartitionState.STOPPED, reason="lost"))
    board.report(0, progress(P1, 70, source_end=100))
    assert board.lag_records == 30


def test_the_sources_end_never_goes_back_with_an_old_report() -> None:
    board = board_of()
    board.report(0, progress(P0, 50, source_end=300))
    board.report(0, progress(P0, 60, source_end=200))
    assert board.lag_records == 240


class BoardMachine(RuleBasedStateMachine):
    """Lanes report forward and backward positions, die, and come back counting their bytes from 0."""

    def __init__(self) -> None:
        super().__init__()
        self.board = Board([copy(P0, next_offset=50), copy(P1, goal=None)], [refusal(BAD)])
        self.sent: dict[MirrorPartition, int] = {}  # bytes by the lane that lives now
        self.before = 0  # bytes by lanes that are gone
        self.highest = 0

    @rule(
        where=st.sampled_from([P0, P1]),
        next_offset=st.none() | st.integers(50, 10_000),
        fresh_bytes=st.integers(0, 10_000),
        source_end=st.integers(0, 10_000),
        state=st.sampled_from(OF_LANES),
    )
    def lane_reports(
        self,
        where: MirrorPartition,
        next_offset: int | None,
        fresh_bytes: int,
        source_end: int,
        state: PartitionState,
    ) -> None:
        self.sent[where] = self.sent.get(where, 0) + fresh_bytes
        self.board.report(
            where.partition,
            progress(where, next_offset, size_bytes=self.sent[where], source_end=source_end, state=state),
        )

    @rule(where=st.sampled_from([P0, P1]))
    def lane_goes_away(self, where: MirrorPartition) -> None:
        self.before += self.sent.pop(where, 0)
        self.board.lane_gone(where.partition)

    @rule(stops=st.booleans(), waits=st.booleans())
    def link_is_planned_again(self, stops: bool, waits: bool) -> None:
        self.before += sum(self.sent.values())
        self.sent.clear()
        for where in (P0, P1):
            self.board.lane_gone(where.partition)
        refused = [refusal(BAD), *([refusal(partition(7))] if stops else [])]
        if waits:
            self.board.stand_by(P0.link, "another run")
        self.board.adopt(P0.link, [copy(P0, next_offset=50), copy(P1, goal=None)], refused)

    @rule(lane=st.integers(2, 9))
    def lane_without_partitions_goes_away(self, lane: int) -> None:
        self.board.lane_gone(lane)

    @invariant()
    def bytes_are_all_counted_once(self) -> None:
        assert self.board.copied_bytes == self.before + sum(self.sent.values())
        assert self.board.copied_bytes >= self.highest
        self.highest = self.board.copied_bytes

    @invariant()
    def sums_are_those_of_the_rows(self) -> None:
        rows = self.board.rows.values()
        copied = sum(row.records for row in rows)
        behind = {row.partition: max((row.source_end or 0) - (row.next_offset or 0), 0) for row in rows}
        stopped = [row for row in rows if row.state is PartitionState.STOPPED]
        assert self.board.copied_records == copied
        assert self.board.goal_records == copied + sum(behind.values())
        assert self.board.lag_records == sum(behind.values()) - sum(behind[row.partition] for row in stopped)
        assert sorted(row.partition for row in self.board.stopped) == sorted(row.partition for row in stopped)
        assert self.board.finished is all(row.reached_goal or row in stopped for row in rows)

    @invariant()
    def nothing_is_negative(self) -> None:
        assert self.board.copied_records >= 0
        assert self.board.lag_records >= 0

    @invariant()
    def a_refused_partition_stays_refused(self) -> None:
        assert BAD in {row.partition for row in self.board.stopped}


TestBoardMachine = BoardMachine.TestCase


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10_000)), max_size=30))
def test_copied_bytes_never_shrink_even_when_a_lane_came_back_unnoticed(
    steps: list[tuple[bool, int]],
) -> None:
    board, highest = board_of(), 0
    for gone, size_bytes in steps:
        if gone:
            board.lane_gone(0)
        board.report(0, progress(P0, 1, size_bytes=size_bytes))
        assert board.copied_bytes >= highest
        highest = board.copied_bytes


# -- rates


def test_there_is_no_rate_before_two_samples() -> None:
    board = board_of()
    assert board.rates("sf-to-nyc") == (0.0, 0.0)
    board.sample(10.0)
    assert board.rates("sf-to-nyc") == (0.0, 0.0)


def test_a_rate_is_what_was_copied_over_the_time_it_took() -> None:
    board = board_of()
    board.sample(10.0)
    board.report(0, progress(P0, 100, records=100, size_bytes=50_000))
    board.sample(12.0)
    assert board.rates("sf-to-nyc") == (50.0, 25_000.0)


def test_links_have_rates_of_their_own_and_an_unknown_link_has_none() -> None:
    other = partition(0, link="sf-to-lax")
    board = Board([copy(P0), copy(other)], [])
    board.sample(0.0)
    board.report(0, progress(P0, 10, records=10))
    board.report(0, progress(other, 30, records=30))
    board.sample(1.0)
    assert board.rates("sf-to-nyc")[0] == 10
    assert board.rates("sf-to-lax")[0] == 30
    assert board.rates("nowhere") == (0.0, 0.0)


def test_a_rate_falls_to_nothing_when_nothing_was_copied_for_the_window() -> None:
    board = board_of()
    board.sample(0.0)
    board.report(0, progress(P0, 100))
    for tenth in range(1, 62 + 10 * int(RATE_WINDOW_S)):
        board.sample(tenth / 10)
    assert board.rates("sf-to-nyc") == (0.0, 0.0)


@given(st.lists(st.tuples(st.integers(0, 1_000), st.sampled_from([0.0, 0.1, 7.0])), max_size=20))
def test_rates_are_finite_and_never_negative(steps: list[tuple[int, float]]) -> None:
    board, now = board_of(), 0.0
    for next_offset, wait_s in steps:
        now += wait_s
        board.report(0, progress(P0, next_offset, size_bytes=next_offset))
        board.sample(now)
        assert all(math.isfinite(rate) and rate >= 0 for rate in board.rates("sf-to-nyc"))


def test_a_board_without_a_plan_is_not_finished() -> None:
    assert Board([], []).finished
    assert not Board([], [], planned=False).finished


def test_what_a_lane_waits_for_is_shown_on_its_partitions_until_it_is_up() -> None:
    board = Board([copy(partition(0)), copy(partition(1))], [refusal(partition(2))])
    stopped = board.rows[partition(2)]
    board.lane_waits([partition(0), partition(2)], "no slot", "lower `lanes`")
    assert (board.rows[partition(0)].trouble, board.rows[partition(0)].hint) == ("no slot", "lower `lanes`")
    assert board.rows[partition(1)].trouble is None
    assert board.rows[partition(2)] == stopped  # what stopped keeps its own words
    board.lane_up([partition(0), partition(2)])
    assert (board.rows[partition(0)].trouble, board.rows[partition(0)].hint) == (None, None)
    assert board.rows[partition(2)] == stopped


# -- a link that is ours, or ours again


def test_what_a_lane_let_go_of_is_pending_and_keeps_its_position() -> None:
    board = board_of()
    board.report(0, progress(P0, 40, size_bytes=4_000, bound_by="lane"))
    board.let_go(P0)
    row = board.rows[P0]
    assert (row.state, row.lane, row.next_offset, row.bound_by) == (PartitionState.PENDING, None, 40, None)
    board.report(1, progress(P0, 50, size_bytes=1_000))
    assert board.copied_bytes == 5_000  # another lane counts from nothing
    board.let_go(BAD)  # not of this run


def test_what_stopped_stays_stopped_when_its_lane_lets_it_go() -> None:
    board = board_of()
    board.report(0, progress(P0, 10, state=PartitionState.STOPPED, reason="lost", error="gone", hint="h"))
    board.let_go(P0)
    assert [row.error for row in board.stopped] == ["gone"]


def test_a_link_that_is_ours_again_keeps_the_runs_count_and_goal() -> None:
    board = board_of(first=10, goal=100)
    board.report(0, progress(P0, 40, records=30, size_bytes=300))
    assert board.adopt("sf-to-nyc", [copy(P0, next_offset=60, goal=500)], []) == []
    row = board.rows[P0]
    assert (row.next_offset, row.goal, row.records, row.size_bytes) == (60, 100, 30, 300)


def test_what_others_copied_while_this_run_stood_by_is_not_counted_as_its_own() -> None:
    board = Board([copy(P0, next_offset=10)], [])
    board.adopt("sf-to-nyc", [copy(P0, next_offset=60)], [])
    assert board.copied_records == 0


def test_a_partition_that_is_new_when_a_link_is_adopted_has_a_goal_of_its_own() -> None:
    board = board_of()
    board.adopt("sf-to-nyc", [copy(P0), copy(P1, goal=7)], [])
    assert board.rows[P1].goal == 7


def test_adopting_one_link_leaves_the_others_rows_alone() -> None:
    other = partition(0, link="sf-to-lax")
    board = Board([copy(P0), copy(other)], [])
    board.report(0, progress(other, 30))
    before = board.rows[other]
    board.adopt("sf-to-nyc", [], [])
    assert board.rows == {other: before}


def test_only_refusals_that_are_new_are_told_when_a_link_is_adopted() -> None:
    board = Board([copy(P0)], [refusal(BAD)])
    told = board.adopt("sf-to-nyc", [], [refusal(P0), refusal(BAD), refusal(P1)])
    assert {row.partition for row in told} == {P0, P1}
    assert len(board.stopped) == 3


def test_a_refusal_does_not_outlive_the_next_plan() -> None:
    board = Board([], [refusal(P0)])
    assert board.adopt("sf-to-nyc", [copy(P0, next_offset=5)], []) == []
    row = board.rows[P0]
    assert (row.state, row.error, row.hint, row.next_offset) == (PartitionState.PENDING, None, None, 5)


@pytest.mark.parametrize(
    "plans", [["copied"], ["refused"], ["refused", "copied", "refused", "copied"]], ids=str
)
def test_what_a_lane_has_stopped_stays_so_with_its_own_words_whatever_later_plans_say(
    plans: list[str],
) -> None:
    board = board_of()
    board.report(0, progress(P0, 10, state=PartitionState.STOPPED, reason="lost", error="gone", hint="look"))
    for verdict in plans:
        copies, refusals = ([copy(P0)], []) if verdict == "copied" else ([], [refusal(P0)])
        assert board.adopt("sf-to-nyc", copies, refusals) == []  # it was told already
        row = board.rows[P0]
        assert (row.state, row.reason, row.error, row.hint) == (
            PartitionState.STOPPED,
            "lost",
            "gone",
            "look",
        )


def test_a_partition_that_was_copied_and_is_refused_now_is_told_with_the_plans_words() -> None:
    board = board_of()
    board.report(0, progress(P0, 10))
    assert board.adopt("sf-to-nyc", [], [refusal(P0)]) == [refusal(P0)]
    row = board.rows[P0]
    assert (row.state, row.error) == (PartitionState.STOPPED, "somebody else wrote it")


@pytest.mark.parametrize("state", [PartitionState.COPYING, PartitionState.CAUGHT_UP, PartitionState.STOPPED])
def test_a_late_report_of_a_partition_that_is_refused_now_leaves_it_stopped_with_the_plans_words(
    state: PartitionState,
) -> None:
    board = board_of()
    board.report(0, progress(P0, 10))
    board.adopt("sf-to-nyc", [], [refusal(P0)])
    refused = board.rows[P0]
    board.report(0, progress(P0, 20, state=state, error=None))
    assert board.stopped == [refused]
    assert board.finished
    board.adopt("sf-to-nyc", [copy(P0)], [])
    board.report(0, progress(P0, 30))
    assert board.rows[P0].next_offset == 30  # the next plan takes it again


def test_what_an_operator_wants_is_shown_in_the_place_of_a_stop_and_counts_go_on() -> None:
    board = Board([copy(partition())], [])
    board.report(0, progress(partition(), 40, records=40, size_bytes=400, state=PartitionState.STOPPED))
    assert len(board.stopped) == 1
    board.adopt_again(copies=[copy(partition(), next_offset=40, goal=250)])
    row = board.rows[partition()]
    assert (row.state, row.next_offset, row.records, row.goal) == (PartitionState.PENDING, 40, 40, 100)
    assert not board.stopped
    board.report(0, progress(partition(), 45, records=5, size_bytes=50))  # its lane counts anew
    assert (board.copied_records, board.copied_bytes) == (45, 450)


def test_what_is_paused_or_refused_hears_no_lane_that_has_not_heard_of_it_yet() -> None:
    board = Board([copy(partition()), copy(partition(1))], [])
    wish = PausePartition(partition=partition(), next_offset=40, goal=100, words="paused by ann")
    board.adopt_again(paused=[wish], refusals=[refusal(partition(1))])
    for number in (0, 1):
        board.report(0, progress(partition(number), 60))
    assert [board.rows[partition(n)].state for n in (0, 1)] == [PartitionState.PAUSED, PartitionState.STOPPED]
    assert [row.partition for row in board.paused] == [partition()]
    assert board.finished
