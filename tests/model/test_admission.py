"""Which targets may be written: a test for each branch of the decision, in the order of the branches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.model.admission import (
    MOST_LOST_OFFSETS,
    Admitted,
    LastBatch,
    PartitionFacts,
    Refused,
    TopicFacts,
    admit_partition,
    admit_topic,
)
from heliograph.model.hints import ACCEPT_LOSS, AFRESH
from heliograph.model.policy import OnLoss
from heliograph.model.position import SEQUENCES, Position
from heliograph.model.states import StopReason

OURS, THEIRS = 0x4800_0000_0000_0001, 7


def ours(last_sequence: int) -> LastBatch:
    return LastBatch(producer_id=OURS, last_sequence=last_sequence)


def at(offset: int) -> Admitted:
    return Admitted(position=Position(source=offset, target=offset, sequence=offset % SEQUENCES))


TOPIC = TopicFacts(
    source_cluster_id="sf-id",
    target_cluster_id="nyc-id",
    source_partitions=3,
    target_partitions=3,
    target_config={},
)
# A mirror in good order: half of the source is there, and the leader remembers us.
HALF_WAY = PartitionFacts(
    source_start=0,
    source_end=100,
    target_start=0,
    target_end=50,
    producer_id=OURS,
    last_batch=ours(49),
    last_sequence=49,
)
NEW = replace(HALF_WAY, target_end=0, last_batch=None, last_sequence=None)
EMPTIED = replace(HALF_WAY, target_start=50, last_batch=None)


def refusal(verdict: Admitted | Refused | None) -> StopReason:
    assert isinstance(verdict, Refused)
    assert verdict.message
    assert verdict.hint
    return verdict.reason


def test_a_topic_of_equal_shape_on_another_cluster_is_admitted() -> None:
    assert admit_topic(TOPIC) is None


def test_a_cluster_is_never_mirrored_onto_itself() -> None:
    assert refusal(admit_topic(replace(TOPIC, target_cluster_id="sf-id"))) is StopReason.LOOP


@pytest.mark.parametrize("target_partitions", [1, 2, 4])
def test_both_topics_must_have_the_same_number_of_partitions(target_partitions: int) -> None:
    verdict = admit_topic(replace(TOPIC, target_partitions=target_partitions))
    assert refusal(verdict) is StopReason.PARTITIONS
    assert isinstance(verdict, Refused)
    assert "3 partitions" in verdict.message
    assert str(target_partitions) in verdict.message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("compression.type", "zstd"),
        ("compression.type", "uncompressed"),
        ("message.timestamp.type", "LogAppendTime"),
    ],
)
def test_a_target_that_rewrites_batches_is_refused_by_its_setting(key: str, value: str) -> None:
    verdict = admit_topic(replace(TOPIC, target_config={key: value}))
    assert refusal(verdict) is StopReason.TOPIC_CONFIG
    assert isinstance(verdict, Refused)
    assert f"{key}={value}" in verdict.message
    assert key in verdict.hint


def test_a_target_that_says_it_keeps_batches_is_admitted() -> None:
    keeps = {"compression.type": "producer", "message.timestamp.type": "CreateTime", "retention.ms": "1"}
    assert admit_topic(replace(TOPIC, target_config=keeps)) is None


def test_a_mirror_in_good_order_goes_on_where_the_target_ends() -> None:
    assert admit_partition(HALF_WAY) == at(50)


def test_a_new_target_begins_at_zero() -> None:
    assert admit_partition(NEW) == at(0)


def test_a_complete_mirror_is_admitted() -> None:
    assert admit_partition(replace(HALF_WAY, target_end=100, last_batch=ours(99), last_sequence=99)) == at(
        100
    )


def test_an_empty_source_and_an_empty_target_are_a_mirror() -> None:
    assert admit_partition(replace(NEW, source_end=0)) == at(0)


def test_a_target_above_the_sources_end_is_refused() -> None:
    verdict = admit_partition(replace(HALF_WAY, source_end=49))
    assert refusal(verdict) is StopReason.TARGET_AHEAD


@pytest.mark.parametrize("writer", [-1, 0, THEIRS, OURS + 1])
def test_a_last_batch_of_somebody_else_is_refused(writer: int) -> None:
    assert (
        refusal(
            admit_partition(replace(HALF_WAY, last_batch=LastBatch(producer_id=writer, last_sequence=49)))
        )
        is StopReason.FOREIGN
    )


@pytest.mark.parametrize("last_sequence", [0, 48, 50, SEQUENCES - 1])
def test_a_sequence_that_is_not_the_logs_end_is_refused(last_sequence: int) -> None:
    assert refusal(admit_partition(replace(HALF_WAY, last_sequence=last_sequence))) is StopReason.SEQUENCE


@pytest.mark.parametrize("last_sequence", [0, 48, 50, SEQUENCES - 1])
def test_a_last_batch_whose_sequence_is_not_the_logs_end_is_refused(last_sequence: int) -> None:
    """Also where the broker has forgotten us: one record too many looks like the source's where contents are alike."""
    facts = replace(HALF_WAY, last_batch=ours(last_sequence), last_sequence=None)
    assert refusal(admit_partition(facts)) is StopReason.SEQUENCE


def test_a_last_batch_and_a_broker_that_disagree_are_refused() -> None:
    facts = replace(HALF_WAY, last_batch=ours(49), last_sequence=48)
    assert refusal(admit_partition(facts)) is StopReason.SEQUENCE


def test_sequences_may_lag_behind_offsets_where_gaps_were_filled() -> None:
    facts = replace(HALF_WAY, last_batch=ours(19), last_sequence=19, gaps_filled=True)
    expected = Position(source=50, target=50, sequence=20)
    assert admit_partition(facts) == Admitted(position=expected)
    forgotten = replace(facts, last_sequence=None)
    assert admit_partition(forgotten) == Admitted(position=expected)
    assert refusal(admit_partition(replace(facts, last_sequence=18))) is StopReason.SEQUENCE
    assert refusal(admit_partition(replace(facts, gaps_filled=False))) is StopReason.SEQUENCE


def test_a_new_target_log_under_remembered_state_is_refused() -> None:
    assert refusal(admit_partition(replace(NEW, last_sequence=49))) is StopReason.SEQUENCE


def test_a_broker_that_forgot_us_is_no_reason_to_stop_while_the_last_batch_is_ours() -> None:
    assert admit_partition(replace(HALF_WAY, last_sequence=None)) == at(50)


@pytest.mark.parametrize("end", [SEQUENCES - 1, SEQUENCES, SEQUENCES + 1, 5 * SEQUENCES + 17])
def test_sequences_wrap_where_the_protocol_says(end: int) -> None:
    last = (end - 1) % SEQUENCES
    facts = replace(HALF_WAY, source_end=end + 5, target_end=end, last_batch=ours(last), last_sequence=last)
    assert admit_partition(facts) == at(end)


def test_a_new_target_is_aligned_to_a_source_that_starts_above_zero() -> None:
    verdict = admit_partition(replace(NEW, source_start=7, source_end=9))
    assert verdict == Admitted(position=Position(source=0, target=0, sequence=0), align_to=7)


def test_an_alignment_under_way_is_gone_on_with() -> None:
    half = replace(HALF_WAY, source_start=80, last_is_filler=True)
    assert admit_partition(half) == replace(at(50), align_to=80)
    assert admit_partition(replace(half, source_start=50)) == replace(at(50), align_to=50)


@pytest.mark.parametrize(("source_start", "goal"), [(0, 60), (40, 60), (60, 60), (80, 80)])
def test_a_new_target_is_aligned_to_where_it_is_to_begin_or_to_the_sources_start_if_that_is_later(
    source_start: int, goal: int
) -> None:
    new = replace(NEW, begin_at=60, source_start=source_start)
    assert admit_partition(new) == replace(at(0), align_to=goal)
    half = replace(HALF_WAY, begin_at=60, source_start=source_start, last_is_filler=True)
    assert admit_partition(half) == replace(at(50), align_to=goal)


def test_a_new_target_that_is_to_begin_at_zero_is_not_aligned() -> None:
    assert admit_partition(replace(NEW, begin_at=0)) == at(0)


def test_a_target_that_holds_records_goes_on_wherever_it_was_to_begin() -> None:
    for begin_at in (0, 40, 50, 60):
        assert admit_partition(replace(HALF_WAY, begin_at=begin_at)) == at(50)


def test_an_alignment_whose_fillers_are_all_deleted_is_gone_on_with_while_the_leader_remembers_us() -> None:
    assert admit_partition(replace(EMPTIED, begin_at=60)) == replace(at(50), align_to=60)
    unsigned = replace(EMPTIED, begin_at=60, last_sequence=None)
    assert refusal(admit_partition(unsigned)) is StopReason.FOREIGN


def test_a_mirror_that_is_to_begin_above_the_sources_end_is_refused() -> None:
    verdict = admit_partition(replace(NEW, begin_at=101))
    assert refusal(verdict) is StopReason.LOG_START
    assert isinstance(verdict, Refused)
    assert "101, above the source's end 100" in verdict.message
    assert admit_partition(replace(NEW, begin_at=100)) == replace(at(0), align_to=100)


@pytest.mark.parametrize("begin_at", [None, 40])
def test_fillers_above_where_the_mirror_is_to_begin_are_refused(begin_at: int | None) -> None:
    """The goal was forgotten: nobody knows whether the source's records below the target's end are wanted."""
    verdict = admit_partition(replace(HALF_WAY, last_is_filler=True, begin_at=begin_at))
    assert refusal(verdict) is StopReason.LOG_START
    assert isinstance(verdict, Refused)
    assert f"[{begin_at or 0}, 50)" in verdict.message


@pytest.mark.parametrize("facts", [replace(NEW, source_start=7), replace(NEW, begin_at=7)])
def test_a_target_whose_records_cannot_be_deleted_is_not_aligned(facts: PartitionFacts) -> None:
    assert refusal(admit_partition(replace(facts, aligns=False))) is StopReason.LOG_START


def test_records_lost_to_retention_are_named_exactly() -> None:
    verdict = admit_partition(replace(HALF_WAY, source_start=60))
    assert refusal(verdict) is StopReason.LOST
    assert isinstance(verdict, Refused)
    assert "[50, 60)" in verdict.message
    assert (verdict.first_offset, verdict.next_offset) == (50, 60)


def test_whatever_retention_takes_is_left_out_where_the_policy_says_so() -> None:
    lost = replace(HALF_WAY, source_start=60, on_loss=OnLoss.CONTINUE)
    assert admit_partition(lost) == replace(at(50), lost_to=60)
    assert admit_partition(replace(lost, source_start=50)) == at(50)


@pytest.mark.parametrize(
    ("accepted", "lost_to"),
    [
        ((50, 60), 60),
        ((30, 60), 60),  # some of it is filled already
        ((50, 90), 60),  # the source still holds the rest
        ((50, 55), 55),  # the source starts later by now
        ((51, 60), None),
        ((40, 50), None),
        ((60, 70), None),
    ],
)
def test_a_loss_that_an_operator_accepted_is_left_out_as_far_as_it_is_one(
    accepted: tuple[int, int], lost_to: int | None
) -> None:
    verdict = admit_partition(replace(HALF_WAY, source_start=60, accepted_loss=accepted))
    if lost_to is not None:
        assert verdict == replace(at(50), lost_to=lost_to)
    else:
        assert refusal(verdict) is StopReason.LOST


@pytest.mark.parametrize("how", [{"on_loss": OnLoss.CONTINUE}, {"accepted_loss": (0, 1 << 40)}])
def test_a_loss_that_is_too_large_to_be_filled_is_refused_though_it_was_accepted(how: dict[str, Any]) -> None:
    facts = replace(HALF_WAY, source_start=50 + MOST_LOST_OFFSETS, source_end=1 << 30, **how)
    assert admit_partition(facts) == replace(at(50), lost_to=50 + MOST_LOST_OFFSETS)
    verdict = admit_partition(replace(facts, source_start=51 + MOST_LOST_OFFSETS))
    assert refusal(verdict) is StopReason.LOST
    assert isinstance(verdict, Refused)
    assert "too many to be filled with markers" in verdict.message
    assert "on_loss" not in verdict.hint


def test_retention_that_just_reaches_the_position_loses_nothing() -> None:
    assert admit_partition(replace(HALF_WAY, source_start=50)) == at(50)


def test_an_emptied_target_nobody_signed_is_refused_while_the_source_still_has_its_records() -> None:
    assert refusal(admit_partition(replace(EMPTIED, last_sequence=None))) is StopReason.FOREIGN


def test_an_emptied_target_that_ends_where_the_mirror_begins_was_aligned_and_goes_on() -> None:
    """All fillers are deleted, and a restart made the leader forget us."""
    facts = replace(EMPTIED, last_sequence=None, begin_at=50)
    assert admit_partition(facts) == at(50)
    assert refusal(admit_partition(replace(facts, begin_at=49))) is StopReason.FOREIGN


def test_an_emptied_target_whose_leader_remembers_us_goes_on() -> None:
    assert admit_partition(EMPTIED) == at(50)


def test_both_logs_emptied_to_the_same_offset_go_on() -> None:
    facts = replace(EMPTIED, last_sequence=None, source_start=50)
    assert admit_partition(facts) == at(50)


offsets = st.integers(0, 20)
facts_of_any_kind = st.builds(
    PartitionFacts,
    source_start=offsets,
    source_end=offsets,
    target_start=offsets,
    target_end=offsets,
    producer_id=st.just(OURS),
    last_batch=st.none()
    | st.builds(LastBatch, producer_id=st.sampled_from([OURS, THEIRS]), last_sequence=st.integers(0, 20)),
    last_sequence=st.none() | st.integers(0, 20),
    begin_at=st.none() | offsets,
    accepted_loss=st.none() | st.tuples(offsets, offsets),
    on_loss=st.sampled_from(OnLoss),
)


@settings(deadline=None)
@given(facts=facts_of_any_kind)
def test_what_is_admitted_goes_on_at_the_targets_end_and_never_beyond_the_source(
    facts: PartitionFacts,
) -> None:
    verdict = admit_partition(facts)
    if isinstance(verdict, Refused):
        assert verdict.hint
        return
    assert replace(verdict, align_to=None, lost_to=None) == at(facts.target_end)
    assert facts.target_end <= facts.source_end
    assert facts.last_batch is None or facts.last_batch.producer_id == OURS
    if verdict.align_to is not None:
        assert facts.last_batch is None
        assert verdict.align_to == max(facts.source_start, facts.begin_at or 0) <= facts.source_end
        assert verdict.lost_to is None
    elif verdict.lost_to is not None:
        assert facts.target_end < verdict.lost_to <= facts.source_start
        assert facts.on_loss is OnLoss.CONTINUE or facts.accepted_loss
    else:
        assert facts.target_end >= facts.source_start
        assert facts.target_end > 0 or not facts.begin_at


def test_what_was_lost_to_retention_can_be_skipped_or_mirrored_again() -> None:
    behind = replace(
        HALF_WAY, source_start=5, source_end=9, target_end=3, last_batch=ours(2), last_sequence=2
    )
    lost = admit_partition(behind)
    assert isinstance(lost, Refused)
    assert lost.reason is StopReason.LOST
    assert AFRESH in lost.hint
    assert ACCEPT_LOSS in lost.hint
    again = admit_partition(replace(behind, target_end=0, last_batch=None, last_sequence=None))
    assert isinstance(again, Admitted)


def test_a_target_topic_with_too_few_partitions_is_given_more_and_not_deleted() -> None:
    few = admit_topic(replace(TOPIC, target_partitions=2))
    assert few is not None
    assert "--partitions 3" in few.hint
    assert AFRESH not in few.hint
