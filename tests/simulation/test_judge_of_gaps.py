"""The judge on transactions, markers and fillers: a right copy is right, and each wrong one is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from heliograph.model.policy import Isolation, OnLoss

from .answers import Waiting
from .by_hand import ByHand, label
from .gap_plan import Gaps
from .judge import Wrong
from .source_fate import SourceFate
from .source_transactions import STYLES


def copy_all(hand: ByHand, until: int | None = None) -> None:
    """As a copier that is right does."""
    fate, end = SourceFate(hand.source), hand.source.readable_end if until is None else until
    fate.look()
    while hand.end < end:
        if fate.now(hand.end):
            hand.copy(hand.end)
        else:
            hand.mark(label(hand.end))


def first(hand: ByHand, wanted: Callable[[bool | None, bool | None], bool]) -> int:
    """Where what is before and what is there are so: a record to copy, nothing, or undecided."""
    fate = SourceFate(hand.source)
    fate.look()
    return next(at for at in range(1, hand.source.readable_end) if wanted(fate.now(at - 1), fate.now(at)))


def begins_gap(before: bool | None, here: bool | None) -> bool:
    return before is True and here is False


def ends_gap(before: bool | None, here: bool | None) -> bool:
    return before is False and here is True


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("seed", range(3))
def test_a_right_copy_is_identical_and_read_alike_by_both_kinds_of_consumers(style: str, seed: int) -> None:
    hand = ByHand(transactions=style, seed=seed)
    copy_all(hand)
    hand.wait(60.0)  # what was held open has ended
    copy_all(hand)
    assert hand.judge._identical()
    hand.judge._compare_views()
    assert hand.source.hangs == (style == "one for ever")
    assert hand.log.markers > 0


def test_of_a_link_that_reads_uncommitted_only_markers_are_gaps() -> None:
    isolations = (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED)
    hand = ByHand(transactions="some aborted", gaps=Gaps(isolations=isolations))
    copy_all(hand)
    assert hand.judge._identical()
    hand.judge._compare_views()
    assert hand.log.markers == sum(stored.header.is_control for stored in hand.source.log)


def test_a_copy_that_ends_before_the_stable_part_does_is_not_identical() -> None:
    hand = ByHand(transactions="some aborted")
    copy_all(hand, hand.source.readable_end - 1)
    assert not hand.judge._identical()


def test_an_aborted_record_is_wrong() -> None:
    hand = ByHand(transactions="all aborted")
    with pytest.raises(Wrong, match="none is to be copied"):
        hand.copy(0)


def test_a_record_that_is_not_decided_is_wrong() -> None:
    hand = ByHand(transactions="one for ever")
    copy_all(hand)
    with pytest.raises(Wrong, match="nothing is decided"):
        hand.copy(hand.end)


def test_a_marker_where_nothing_is_decided_is_wrong() -> None:
    hand = ByHand(transactions="one for ever")
    copy_all(hand)
    with pytest.raises(Wrong, match="nothing is decided"):
        hand.mark(label(hand.end))


def test_a_label_that_is_used_twice_is_wrong() -> None:
    hand = ByHand(transactions="one after the other")
    gap = first(hand, begins_gap)
    copy_all(hand, gap)
    hand.mark(label(gap))
    with pytest.raises(Wrong, match="is a marker at"):
        hand.mark(label(gap))


def test_a_gap_that_ends_where_no_header_was_seen_is_wrong() -> None:
    hand = ByHand(transactions="one after the other")
    behind = first(hand, ends_gap)
    copy_all(hand, behind)
    with pytest.raises(Wrong, match="is a marker at"):
        hand.mark(label(behind))


def test_who_goes_on_behind_a_marker_that_was_refused_is_wrong() -> None:
    hand = ByHand(transactions="all aborted")
    copy_all(hand, 5)
    hand.mark(label(6))  # that for 5 was refused for a moment
    assert not isinstance(hand.mark(label(5)), Waiting)  # and its place is taken
    copy_all(hand)
    assert hand.judge._identical()  # of what is all gaps nobody knows

    hand = ByHand(transactions="one after the other")
    gap, behind = first(hand, begins_gap), first(hand, ends_gap)
    copy_all(hand, gap)
    with pytest.raises(Wrong, match=r"none is to be copied|other records"):
        hand.copy(behind)


def test_fillers_below_the_sources_start_are_deleted_before_the_first_record() -> None:
    hand = ByHand(log_start=40)
    for count in (25, 15):
        hand.fill(count)
        hand.delete(hand.end)
    copy_all(hand)
    assert hand.judge._identical()
    hand.judge._compare_views()


def test_a_record_behind_fillers_that_can_be_read_is_wrong() -> None:
    hand = ByHand(log_start=40)
    hand.fill(40)
    hand.delete(39)
    with pytest.raises(Wrong, match="fillers can be read"):
        hand.copy(40)


def test_fillers_above_the_sources_start_are_wrong() -> None:
    hand = ByHand(log_start=40)
    with pytest.raises(Wrong, match="P2"):
        hand.fill(41)


def test_fillers_in_a_log_that_holds_records_are_wrong() -> None:
    hand = ByHand(log_start=7)
    hand.fill(7)
    hand.delete(7)
    hand.copy(7)
    hand.source.retain_from(hand.source.log[5].header.base_offset)
    with pytest.raises(Wrong, match="though the log holds records"):
        hand.fill(1)


def test_deleting_what_the_source_has_is_wrong() -> None:
    hand = ByHand(log_start=7)
    hand.fill(7)
    hand.delete(7)
    copy_all(hand, 20)
    with pytest.raises(Wrong, match="though those from 7 on are to be kept"):
        hand.delete(8)


def test_a_broker_that_is_killed_soon_after_shows_the_fillers_again() -> None:
    """Where a log starts is noted once a minute: nobody else knows it where there are no followers."""
    hand = ByHand(log_start=40, gaps=Gaps(forgets_starts=True))
    hand.fill(40)
    hand.delete(40)
    copy_all(hand, 50)
    hand.partition.die(hand.node)
    hand.log.come_back(hand.node)
    assert hand.partition.leader_replica.start == 0
    with pytest.raises(Wrong, match="fillers can be read"):
        copy_all(hand)


def test_what_retention_took_at_the_source_may_stay_on_the_target() -> None:
    hand = ByHand(transactions="some aborted")
    copy_all(hand, 30)
    ends = [stored.header.next_offset for stored in hand.source.log]
    hand.source.retain_from(next(end for end in ends if end > 20))
    copy_all(hand)
    assert hand.judge._identical()
    hand.judge._compare_views()


def overtaken(hand: ByHand) -> tuple[int, int]:
    """Retention takes what was not copied yet; which offsets."""
    copy_all(hand, 20)
    start = next(each.header.next_offset for each in hand.source.log if each.header.next_offset > 25)
    at = hand.end
    hand.source.retain_from(start)
    return at, start


CONTINUING = Gaps(on_loss=(OnLoss.CONTINUE, OnLoss.STOP))


def test_a_loss_that_is_told_may_be_filled() -> None:
    hand = ByHand(gaps=CONTINUING)
    at, start = overtaken(hand)
    hand.judge.told_of_loss(at, start)
    while hand.end < start:
        hand.mark(label(hand.end))
    copy_all(hand)
    assert hand.judge._identical()
    hand.judge._compare_views()


def test_a_loss_was_one_though_its_source_was_recreated_since() -> None:
    hand = ByHand(gaps=CONTINUING)
    at, start = overtaken(hand)
    hand.judge.told_of_loss(at, start)
    while hand.end < start:
        hand.mark(label(hand.end))
    hand.judge.source_changed(0)
    hand.source.delete()
    hand.source.create()
    hand.source.lengthen(60)
    assert hand.source.start == 0
    marker = hand.partition.leader_replica.holding(at)
    assert marker is not None
    assert not hand.judge._history.differs(marker)
    assert hand.judge._history.differs_now(marker)


def test_a_loss_of_which_not_all_is_told_is_wrong() -> None:
    hand = ByHand(gaps=CONTINUING)
    at, start = overtaken(hand)
    hand.judge.told_of_loss(at, start - 1)
    while hand.end < start - 1:
        hand.mark(label(hand.end))
    with pytest.raises(Wrong, match="nobody told of a loss"):
        hand.mark(label(hand.end))


def test_who_gives_up_what_the_source_still_has_is_wrong() -> None:
    hand = ByHand(gaps=CONTINUING)
    at, start = overtaken(hand)
    with pytest.raises(Wrong, match="are said to be lost"):
        hand.judge.told_of_loss(at, start + 1)


def test_who_gives_up_a_loss_that_nobody_accepted_is_wrong() -> None:
    hand = ByHand()
    at, start = overtaken(hand)
    with pytest.raises(Wrong, match="are said to be lost"):
        hand.judge.told_of_loss(at, start)


def goal_of(hand: ByHand) -> int:
    """The mirror of the first partition begins in the middle of what its source holds."""
    goal = hand.source.log[9].header.base_offset
    hand.world.eye.goals[hand.judge.key] = goal
    return goal


def test_fillers_below_the_goal_may_stand_where_the_source_has_records() -> None:
    hand = ByHand()
    goal = goal_of(hand)
    hand.fill(goal)
    hand.delete(goal)
    copy_all(hand)
    assert hand.judge._identical()
    hand.judge._compare_views()


def test_fillers_above_the_goal_are_wrong() -> None:
    hand = ByHand()
    with pytest.raises(Wrong, match="P2"):
        hand.fill(goal_of(hand) + 1)


def test_a_record_below_the_goal_is_wrong() -> None:
    hand = ByHand()
    goal_of(hand)
    with pytest.raises(Wrong, match="though the mirror begins at"):
        hand.copy(0)


def test_deleting_above_the_goal_is_wrong() -> None:
    hand = ByHand()
    goal = goal_of(hand)
    hand.fill(goal)
    hand.delete(goal)
    copy_all(hand)
    with pytest.raises(Wrong, match="are to be kept"):
        hand.delete(goal + 1)
