"""Resynchronise, driven by a small model of two logs: what it asks, in which order, and what it concludes (P3)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.copier.questions import (
    Question,
    ReadProducers,
    ReadSourceBatch,
    ReadSourceLog,
    ReadTargetBatches,
    ReadTargetLog,
    Unsettled,
)
from heliograph.model.states import StopReason
from heliograph.wire.batch import read_header

from .source_batches import NOW_MS, OURS, batch
from .two_logs import Logs, ask, found_by, half_way, log_of, state, stop_of


def test_the_position_is_the_targets_end() -> None:
    assert ask(half_way()) == 5


def test_a_new_target_begins_at_zero_without_asking_for_batches() -> None:
    logs = Logs(log_of([2]), [], None)
    assert ask(logs) == 0
    assert not any(isinstance(question, ReadTargetBatches | ReadSourceBatch) for question in logs.asked)


def test_the_sequence_is_read_before_and_after_the_end_and_the_source_after_the_target() -> None:
    logs = half_way()
    ask(logs)
    assert logs.asked == [
        ReadProducers(),
        ReadTargetLog(),
        ReadProducers(),
        ReadSourceLog(),
        ReadTargetBatches(4, 5),
        ReadSourceBatch(2),
    ]


def test_readings_that_differ_are_repeated_until_they_agree() -> None:
    logs = half_way()
    readings = iter([state(1), state(4)])

    def another_copier_appends(question: Question) -> None:
        if isinstance(question, ReadProducers):
            logs.producer = next(readings, state(4))

    logs.change = another_copier_appends
    assert ask(logs) == 5
    assert logs.asked.count(Unsettled()) == 1
    assert logs.asked.count(ReadProducers()) == 4


def test_state_that_appears_between_the_readings_counts_as_different() -> None:
    logs = half_way()
    readings = iter([None, state(4)])

    def expired_then_written(question: Question) -> None:
        if isinstance(question, ReadProducers):
            logs.producer = next(readings, state(4))

    logs.change = expired_then_written
    assert ask(logs) == 5
    assert Unsettled() in logs.asked


def test_an_end_that_not_all_replicas_have_is_waited_for() -> None:
    logs = half_way()
    logs.target_watermark = 2

    def replicas_catch_up(question: Question) -> None:
        if isinstance(question, Unsettled):
            logs.target_watermark = 5

    logs.change = replicas_catch_up
    assert ask(logs) == 5
    assert logs.asked.count(Unsettled()) == 1


def test_a_new_source_leader_is_given_time_to_show_its_records() -> None:
    logs = half_way()
    logs.source_watermark = 3

    def watermark_moves(question: Question) -> None:
        if isinstance(question, Unsettled):
            logs.source_watermark = 6

    logs.change = watermark_moves
    assert ask(logs) == 5
    assert logs.asked.count(ReadSourceLog()) == 2


def test_a_source_that_lost_its_end_stops_and_is_not_waited_for() -> None:
    logs = half_way()
    logs.source = log_of([2, 1])
    assert stop_of(logs).reason == StopReason.TARGET_AHEAD
    assert Unsettled() not in logs.asked


def test_a_last_batch_of_somebody_else_stops() -> None:
    logs = half_way()
    logs.target = [*log_of([2], producer_id=OURS), log_of([2, 3], producer_id=77)[1]]
    logs.producer = None
    assert stop_of(logs).reason == StopReason.FOREIGN


def test_a_foreign_record_after_ours_stops() -> None:
    """Ours ended at 5; somebody wrote offset 5: without the check the source's record 5 would be skipped."""
    logs = half_way()
    logs.target = [*logs.target, log_of([2, 3, 1])[2]]
    assert stop_of(logs).reason == StopReason.FOREIGN


def test_a_sequence_that_does_not_fit_the_end_stops() -> None:
    logs = half_way()
    logs.producer = state(3)
    assert stop_of(logs).reason == StopReason.SEQUENCE


def test_a_higher_epoch_of_our_id_stops() -> None:
    logs = half_way()
    logs.producer = state(4, epoch=1)
    assert stop_of(logs).reason == StopReason.FOREIGN


def test_records_that_differ_from_the_sources_stop() -> None:
    logs = half_way()
    other = memoryview(batch(2, 3, value_bytes=9))
    logs.source[1] = (read_header(other), other)
    assert stop_of(logs).reason == StopReason.ANCHOR


def test_a_truncated_source_that_grew_again_stops() -> None:
    """Same offsets, same sizes, other records: only their content tells."""
    logs = half_way()
    logs.source = log_of([2, 3, 4], timestamp=NOW_MS + 1)
    assert stop_of(logs).reason == StopReason.ANCHOR


def test_the_same_records_in_other_batches_are_the_same() -> None:
    """Copiers merge what waits, each as it comes: a successor may find any borders."""
    logs = half_way()
    logs.source = log_of([1, 4, 1], leader_epoch=7)
    found = found_by(logs)
    assert (found.position.source, found.source_epoch) == (5, 7)


def test_only_offsets_that_both_still_hold_are_compared() -> None:
    logs = half_way()
    logs.source, logs.source_start = log_of([3, 2, 1], leader_epoch=7)[1:], 3
    assert found_by(logs).source_epoch == 7


def test_other_records_in_other_batches_stop_and_the_first_that_differs_is_named() -> None:
    logs = half_way()
    logs.source = [*log_of([1, 2]), *log_of([1, 2, 3], timestamp=NOW_MS + 1)[2:]]
    stop = stop_of(logs)
    assert stop.reason == StopReason.ANCHOR
    assert "at offset 3" in stop.message


@pytest.mark.parametrize("left", [[], [2]])
def test_a_target_whose_last_batch_cannot_be_read_stops(left: list[int]) -> None:
    logs = half_way()
    logs.target, logs.target_end = log_of(left, producer_id=OURS), 5
    assert stop_of(logs).reason == StopReason.ANCHOR


def test_a_source_that_cannot_show_the_last_batch_stops() -> None:
    logs = half_way()
    logs.source, logs.source_end = [], 6
    assert stop_of(logs).reason == StopReason.ANCHOR


def test_an_anchor_lost_to_the_sources_retention_is_no_reason_to_stop() -> None:
    logs = half_way()
    logs.source, logs.source_start = logs.source[2:], 5
    assert ask(logs) == 5
    assert not any(isinstance(question, ReadSourceBatch) for question in logs.asked)


def test_retention_that_overtook_us_stops_with_the_lost_offsets() -> None:
    logs = half_way()
    logs.source = [*log_of([2, 3, 1, 2, 1])[4:]]
    logs.source_start = 8
    stop = stop_of(logs)
    assert stop.reason == StopReason.LOST
    assert "[5, 8)" in stop.message


def test_an_emptied_target_goes_on_where_the_leader_remembers_us() -> None:
    logs = half_way()
    logs.target, logs.target_start, logs.target_end = [], 5, 5
    assert ask(logs) == 5


def test_an_emptied_target_that_nobody_signed_stops() -> None:
    logs = half_way()
    logs.target, logs.target_start, logs.target_end, logs.producer = [], 5, 5, None
    assert stop_of(logs).reason == StopReason.FOREIGN


def test_a_recreated_target_begins_again_at_zero() -> None:
    logs = half_way()
    logs.target, logs.producer = [], None
    assert ask(logs) == 0


def test_the_leader_epoch_of_the_anchor_is_the_sources() -> None:
    logs = half_way(leader_epoch=9)
    logs.source = log_of([2, 3, 1], leader_epoch=4)
    assert found_by(logs).source_epoch == 4


def test_without_an_anchor_at_the_source_its_epoch_is_not_known() -> None:
    logs = half_way()
    logs.source, logs.source_start = logs.source[2:], 5
    assert found_by(logs).source_epoch == -1
    assert found_by(Logs(log_of([2]), [], None)).source_epoch == -1


def test_the_time_by_which_the_broker_remembers_us_is_told() -> None:
    logs = half_way()
    logs.producer = replace(state(4), last_timestamp=NOW_MS)
    assert found_by(logs).state_ms == NOW_MS
    logs.producer = None
    assert found_by(logs).state_ms is None


@settings(deadline=None, max_examples=80)
@given(
    sizes=st.lists(st.integers(1, 4), max_size=6),
    copied=st.integers(0, 6),
    forgotten=st.booleans(),
    shaky=st.integers(0, 3),
)
def test_every_honest_prefix_is_continued_at_its_end(
    sizes: list[int], copied: int, forgotten: bool, shaky: int
) -> None:
    logs = Logs(log_of(sizes), log_of(sizes[:copied], producer_id=OURS), None)
    end = sum(sizes[:copied])
    settled = None if forgotten or not end else state(end - 1)
    readings = [replace(state(0), last_timestamp=n + 1) for n in range(shaky)]

    def settle_at_last(question: Question) -> None:
        if isinstance(question, ReadProducers):
            logs.producer = readings.pop() if readings else settled

    logs.change = settle_at_last
    assert ask(logs) == end
