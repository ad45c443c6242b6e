"""What a copy meets is handed out once, with its offsets, also when it is over before anybody asks."""

from __future__ import annotations

from heliograph.copier.partition_copy import PartitionCopy
from heliograph.model.errors import PartitionStop
from heliograph.model.events import Event, Trouble
from heliograph.model.states import StopReason
from heliograph.wire.error_codes import ErrorCode

from .source_batches import AWAY, BROKEN, NOW_S, batch, copy_at, fetched, give, give_reply, synced_at


def raced(copy: PartitionCopy, at: int, count: int = 2) -> None:
    """Somebody else appends these offsets first; the copy goes on behind them."""
    give(copy, batch(at, count))
    copy.take()
    copy.refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "")
    copy.synced(synced_at(at + count))
    give(copy, batch(at + count))
    copy.take()
    copy.appended(at + count)


def test_a_race_that_is_over_before_anybody_asks_is_handed_out_with_its_offsets() -> None:
    copy = copy_at(5)
    raced(copy, 5)
    assert copy.trouble is None
    (begun,) = copy.take_begun()
    assert isinstance(begun, Trouble)
    assert (begun.event, begun.first_offset, begun.next_offset) == (Event.RACED, 5, 7)
    assert copy.take_begun() == []


def test_every_race_is_one() -> None:
    copy = copy_at(0)
    for at in range(0, 300, 3):
        raced(copy, at)
    assert len(copy.take_begun()) == 100


def test_a_duplicate_is_a_race_with_the_offsets_of_its_batch() -> None:
    copy = copy_at(5)
    give(copy, batch(5, 3))
    copy.take()
    copy.appended(2)
    (begun,) = copy.take_begun()
    assert isinstance(begun, Trouble)
    assert (begun.event, begun.first_offset, begun.next_offset) == (Event.RACED, 5, 8)


def test_a_trouble_that_goes_on_begins_once_and_after_its_end_again() -> None:
    copy = copy_at(0)
    for _ in range(3):
        copy.interrupted(AWAY)
        copy.synced(synced_at(0))
        copy.troubled(AWAY)
        copy.source_away(AWAY)
    assert copy.take_begun() == [AWAY]
    give(copy, batch(0))
    copy.take()
    copy.appended(0)
    assert copy.trouble is None
    copy.interrupted(AWAY)
    assert copy.take_begun() == [AWAY]


def test_a_broker_that_leaves_several_appends_without_an_answer_is_away_once() -> None:
    copy = copy_at(0)
    give(copy, *(batch(at) for at in range(4)))
    copy.take()
    copy.appended(0)
    for _ in range(3):
        copy.take()
    for _ in range(3):
        copy.lost(BROKEN, NOW_S)
    assert [each.event for each in copy.take_begun() if isinstance(each, Trouble)] == [Event.BROKER_AWAY]


def test_a_stop_is_handed_out_once_behind_the_troubles_before_it() -> None:
    copy = copy_at(0)
    copy.interrupted(AWAY)
    stop = PartitionStop(StopReason.CORRUPT, "a wrong checksum", hint="look at the disk")
    copy.stop(stop)
    copy.stop(PartitionStop(StopReason.REFUSED, "another", hint=""))
    assert copy.take_begun() == [AWAY, stop]


def test_a_source_that_was_truncated_is_told_from_the_offset_where_it_was() -> None:
    copy = copy_at(5, source_epoch=3)
    give_reply(copy, fetched(diverging=(3, 4)), 5)
    (begun,) = copy.take_begun()
    assert isinstance(begun, Trouble)
    assert (begun.event, begun.first_offset) == (Event.SOURCE_DIVERGED, 4)


def test_offsets_that_the_target_has_lost_are_told_as_a_range() -> None:
    copy = copy_at(9)
    copy.interrupted(AWAY)
    copy.synced(synced_at(4))
    (notice,) = copy.take_notices()
    assert (notice.event, notice.first_offset, notice.next_offset) == (Event.TARGET_TRUNCATED, 4, 9)
