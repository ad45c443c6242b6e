"""The state machine of one partition's copy: the phases by example, its promises over any order of replies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.phases import Phase
from heliograph.model.errors import Disconnected, LineLeft, PartitionStop
from heliograph.model.events import Event
from heliograph.model.policy import Isolation, LinkPolicy
from heliograph.model.states import PartitionState, StopReason
from heliograph.wire.batch import read_header, verify_crc
from heliograph.wire.error_codes import ErrorCode

from .source_batches import (
    AWAY,
    BROKEN,
    MIRRORED_BACK,
    NOW_MS,
    NOW_S,
    OURS,
    batch,
    fetched,
    give,
    give_reply,
    phase_of,
    spec_of,
    synced_at,
)

HELD_LIMIT_BYTES = 1 << 20


@pytest.fixture
def copy() -> PartitionCopy:
    """A copy that stands at offset 0, in PROBE."""
    copy = PartitionCopy(spec_of(), HELD_LIMIT_BYTES)
    copy.synced(synced_at(0))
    return copy


def streaming(copy: PartitionCopy) -> PartitionCopy:
    """Past its probe: offset 0 is acknowledged, [1, 5) waits in four batches."""
    give(copy, *(batch(at) for at in range(5)))
    copy.take()
    copy.appended(0)
    assert copy.phase is Phase.STREAM
    return copy


def state_of(copy: PartitionCopy) -> PartitionState:
    return copy.state


def test_nothing_is_fetched_or_sent_before_the_target_was_asked() -> None:
    copy = PartitionCopy(spec_of(), HELD_LIMIT_BYTES)
    assert copy.wants_resync
    assert copy.fetch_offset() is None
    assert copy.peek() is None
    assert copy.next_offset is None
    assert copy.state is PartitionState.ALIGNING


def test_the_first_append_after_a_resynchronisation_goes_alone(copy: PartitionCopy) -> None:
    give(copy, batch(0), batch(1))
    copy.take()
    assert phase_of(copy) is Phase.PROBE
    assert copy.peek() is None
    copy.appended(0)
    assert phase_of(copy) is Phase.STREAM
    assert copy.peek() is not None


def test_appends_are_pipelined_after_the_probe(copy: PartitionCopy) -> None:
    streaming(copy)
    assert [copy.take().start.source for _ in range(4)] == [1, 2, 3, 4]


def test_a_batch_goes_out_with_its_offset_as_sequence_and_a_valid_checksum(copy: PartitionCopy) -> None:
    copy.interrupted(AWAY)
    copy.synced(synced_at((1 << 31) + 7))
    give(copy, batch((1 << 31) + 7, 3))
    outgoing = copy.take()
    header = read_header(outgoing.batch)
    verify_crc(header, outgoing.batch)
    assert (header.base_offset, header.producer_id, header.producer_epoch) == (0, OURS, 0)
    assert header.base_sequence == 7
    assert outgoing.records == 3


def test_an_acknowledgement_where_expected_moves_the_position(copy: PartitionCopy) -> None:
    give(copy, batch(0, 3), end=10)
    size_bytes = len(copy.take().batch)
    assert copy.next_offset == 0
    copy.appended(0)
    assert copy.next_offset == 3
    assert (copy.records, copy.size_bytes) == (3, size_bytes)


def test_an_acknowledgement_below_is_a_duplicate_and_resynchronises(copy: PartitionCopy) -> None:
    streaming(copy)
    copy.take()
    copy.appended(0)
    assert copy.wants_resync
    assert copy.next_offset == 1


def test_an_acknowledgement_above_stops_loudly(copy: PartitionCopy) -> None:
    streaming(copy)
    copy.take()
    copy.appended(2)
    assert copy.phase is Phase.STOPPED
    assert copy.stopped is not None
    assert copy.stopped.reason == StopReason.WRONG_PLACE
    assert copy.next_offset == 1


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        9999,
    ],
)
def test_an_unknown_outcome_resynchronises_and_sends_nothing_again(copy: PartitionCopy, code: int) -> None:
    streaming(copy)
    copy.take()
    copy.refused(code, "")
    assert copy.wants_resync
    assert copy.peek() is None
    assert copy.trouble is not None


def test_a_batch_that_will_never_pass_stops_the_partition_with_its_offset(copy: PartitionCopy) -> None:
    streaming(copy)
    copy.take()
    copy.refused(ErrorCode.MESSAGE_TOO_LARGE, "too much")
    assert copy.stopped is not None
    assert copy.stopped.reason == StopReason.TOO_LARGE
    assert "offset 1" in copy.stopped.message
    assert "too much" in copy.stopped.message
    assert copy.stopped.hint


def test_every_answer_that_is_due_is_awaited_before_the_target_is_asked(copy: PartitionCopy) -> None:
    streaming(copy)
    for _ in range(3):
        copy.take()
    copy.lost(BROKEN, NOW_S)
    assert copy.phase is Phase.DRAIN
    copy.refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "")
    assert copy.phase is Phase.DRAIN
    assert copy.fetch_offset() is None
    copy.appended(3)
    assert copy.wants_resync
    assert copy.next_offset == 1


@pytest.mark.parametrize(
    ("problem", "told", "stale"), [(BROKEN, Event.BROKER_AWAY, True), (LineLeft("left"), None, False)]
)
def test_a_line_that_we_left_ourselves_is_no_trouble_and_no_word_about_the_leader(
    copy: PartitionCopy, problem: Disconnected, told: Event | None, stale: bool
) -> None:
    streaming(copy)
    copy.take()
    copy.lost(problem, NOW_S)
    assert copy.wants_resync
    assert not copy.clear
    assert (copy.trouble.event if copy.trouble else None, copy.stale) == (told, stale)


def test_an_interruption_waits_for_what_is_in_flight(copy: PartitionCopy) -> None:
    streaming(copy)
    copy.take()
    copy.interrupted(AWAY)
    assert copy.phase is Phase.DRAIN
    assert copy.trouble is AWAY
    copy.appended(1)
    assert copy.wants_resync


def test_trouble_is_over_when_a_record_is_copied_again_and_the_probe_goes_alone(
    copy: PartitionCopy,
) -> None:
    streaming(copy)
    copy.interrupted(AWAY)
    copy.synced(synced_at(3))
    assert copy.trouble is AWAY
    assert copy.fetch_offset() == 3
    give(copy, batch(3), batch(4))
    assert copy.take().start.source == 3
    assert copy.peek() is None
    copy.appended(3)
    assert copy.trouble is None


def test_records_that_are_not_wanted_any_more_are_ignored(copy: PartitionCopy) -> None:
    budget = give_reply(copy, fetched(batch(7)), 7)
    assert copy.peek() is None
    assert budget.used_bytes == 0


def test_a_batch_before_the_position_is_left_out(copy: PartitionCopy) -> None:
    copy.interrupted(AWAY)
    copy.synced(synced_at(3))
    give(copy, batch(0, 3), batch(3, 2))
    assert copy.take().start.source == 3


def test_a_cut_last_batch_is_fetched_again(copy: PartitionCopy) -> None:
    give(copy, batch(0), batch(1)[:-1])
    assert copy.fetch_offset() == 1


def test_no_more_is_fetched_while_enough_is_held() -> None:
    copy = PartitionCopy(spec_of(), held_limit_bytes=len(batch(0)) + 1)
    copy.synced(synced_at(0))
    give(copy, batch(0))
    assert copy.fetch_offset() == 1
    give(copy, batch(1))
    assert copy.fetch_offset() is None
    copy.take()
    assert copy.fetch_offset() is None
    copy.appended(0)
    assert copy.fetch_offset() == 2


def test_what_comes_before_an_obstacle_is_copied_and_only_then_the_partition_stops(
    copy: PartitionCopy,
) -> None:
    give(copy, batch(0), batch(1), batch(2, producer_id=MIRRORED_BACK), batch(3))
    copy.take()
    copy.appended(0)
    assert copy.stopped is None
    copy.take()
    assert copy.stopped is None
    copy.appended(1)
    assert copy.stopped is not None
    assert copy.stopped.reason == StopReason.LOOP
    assert "offset 2" in copy.stopped.message
    assert copy.next_offset == 2


def test_an_obstacle_that_comes_first_stops_at_once(copy: PartitionCopy) -> None:
    budget = give(copy, batch(0, producer_id=MIRRORED_BACK))
    assert copy.phase is Phase.STOPPED
    assert budget.used_bytes == 0


def test_a_corrupt_batch_stops_the_partition_after_what_precedes_it(copy: PartitionCopy) -> None:
    damaged = batch(1)
    damaged[-1] ^= 1
    give(copy, batch(0), damaged)
    copy.take()
    copy.appended(0)
    assert copy.stopped is not None
    assert copy.stopped.reason == StopReason.CORRUPT


def test_an_unreadable_header_is_an_obstacle_too(copy: PartitionCopy) -> None:
    unreadable = batch(1)
    unreadable[16] = 9  # a magic that no format has
    give(copy, batch(0), unreadable)
    copy.take()
    copy.appended(0)
    assert copy.stopped is not None
    assert copy.stopped.reason == StopReason.CORRUPT


def test_an_obstacle_is_forgotten_by_a_resynchronisation_and_met_again(copy: PartitionCopy) -> None:
    give(copy, batch(0), batch(1, producer_id=MIRRORED_BACK))
    copy.take()
    copy.lost(BROKEN, NOW_S)
    copy.synced(synced_at(0))
    assert copy.stopped is None
    give(copy, batch(0), batch(1, producer_id=MIRRORED_BACK))
    copy.take()
    copy.appended(0)
    assert copy.stopped is not None


def test_a_stopped_partition_keeps_its_first_reason_and_does_nothing_more(copy: PartitionCopy) -> None:
    first = PartitionStop(StopReason.ANCHOR, "first", hint="look")
    budget = give(copy, batch(0), batch(1))
    copy.take()
    copy.stop(first)
    copy.stop(PartitionStop(StopReason.LOST, "second", hint="look"))
    copy.lost(BROKEN, NOW_S)
    copy.interrupted(AWAY)
    copy.retire()
    assert copy.stopped is first
    assert copy.state is PartitionState.STOPPED
    assert copy.fetch_offset() is None
    assert copy.peek() is None
    assert copy.settled
    assert budget.used_bytes == 0


def test_a_retired_copy_drops_what_waits_and_takes_the_answers_that_are_due(copy: PartitionCopy) -> None:
    streaming(copy)
    copy.take()
    copy.retire()
    assert copy.peek() is None
    assert not copy.settled
    copy.appended(1)
    assert copy.settled
    assert copy.next_offset == 2
    assert not copy.wants_resync


def test_a_retired_copy_is_never_woken_by_trouble(copy: PartitionCopy) -> None:
    streaming(copy)
    copy.take()
    copy.retire()
    copy.lost(BROKEN, NOW_S)
    copy.interrupted(AWAY)
    assert copy.phase is Phase.RETIRED


def test_caught_up_means_all_that_a_committed_reader_sees(copy: PartitionCopy) -> None:
    give(copy, batch(0), end=2)
    assert state_of(copy) is PartitionState.COPYING
    copy.take()
    copy.appended(0)
    assert state_of(copy) is PartitionState.COPYING
    give(copy, batch(1), end=2)
    copy.take()
    copy.appended(1)
    assert state_of(copy) is PartitionState.CAUGHT_UP


def test_a_copy_that_has_not_heard_from_the_source_is_not_caught_up(copy: PartitionCopy) -> None:
    assert state_of(copy) is not PartitionState.CAUGHT_UP
    give(copy, end=0)
    assert state_of(copy) is PartitionState.CAUGHT_UP


def test_what_is_acknowledged_after_it_was_taken_back_is_counted(copy: PartitionCopy) -> None:
    give(copy, batch(0, 3))
    copy.take()
    copy.retire()
    copy.appended(0)
    assert (copy.records, copy.next_offset) == (3, 3)


def test_a_duplicate_with_another_time_is_a_duplicate(copy: PartitionCopy) -> None:
    streaming(copy)
    copy.take()
    copy.appended(0, 17)
    assert copy.wants_resync
    assert copy.stopped is None


def test_a_copy_of_uncommitted_records_is_not_caught_up_at_an_open_transaction() -> None:
    spec = replace(spec_of(), policy=LinkPolicy(isolation=Isolation.READ_UNCOMMITTED))
    copy = PartitionCopy(spec, 1 << 20)
    copy.synced(synced_at(0, state_ms=NOW_MS))
    give_reply(copy, fetched(batch(0, 2), end=10, stable=2), 0)
    copy.take()
    copy.appended(0)
    assert copy.source_end == 10
    assert copy.state is PartitionState.COPYING
