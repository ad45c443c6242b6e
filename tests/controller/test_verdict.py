"""What a plan says of a partition: the rules of model/admission.py, as far as what was observed tells."""

from __future__ import annotations

from dataclasses import replace

from heliograph.controller.plan import CopyPartition, plan
from heliograph.controller.verdict import judge
from heliograph.model.admission import Admitted, Refused
from heliograph.model.policy import OnLoss
from heliograph.model.producer_id import producer_id
from heliograph.model.states import StopReason

from .observed import LINK, SF_ID, mirrored_sight, snapshot, source_sight, source_topic, span, target_topic

OURS = producer_id(SF_ID, "orders")
BEHIND = replace(mirrored_sight(source_end=100, target_end=50), source=span(60, 100))


def test_a_new_target_is_aligned_to_where_it_is_to_begin() -> None:
    verdict = judge(source_sight(7, 100), OURS, aligns=True, begin_at=30)
    assert isinstance(verdict, Admitted)
    assert verdict.align_to == 30


def test_fillers_above_the_goal_are_left_to_the_lane_which_compares_them_with_the_source() -> None:
    sight = replace(mirrored_sight(source_end=100, target_end=50), ends_in_filler=True)
    assert judge(sight, OURS, aligns=True) is None
    assert judge(sight, OURS, aligns=True, begin_at=40) is None
    assert isinstance(judge(sight, OURS, aligns=True, begin_at=50), Admitted)


def test_a_loss_is_admitted_where_it_is_accepted() -> None:
    refused = judge(BEHIND, OURS, aligns=True)
    assert isinstance(refused, Refused)
    assert refused.reason is StopReason.LOST
    by_policy = judge(BEHIND, OURS, aligns=True, on_loss=OnLoss.CONTINUE)
    by_operator = judge(BEHIND, OURS, aligns=True, accepted_loss=(50, 60))
    assert isinstance(by_policy, Admitted)
    assert by_policy == by_operator
    assert by_policy.lost_to == 60


def test_that_records_are_gone_is_certain_behind_a_gap_too_and_all_else_is_left_to_the_lane() -> None:
    refused = judge(replace(BEHIND, ends_in_gap=True), OURS, aligns=True)
    assert isinstance(refused, Refused)
    assert refused.reason is StopReason.LOST
    assert judge(replace(BEHIND, ends_in_gap=True), OURS, aligns=True, accepted_loss=(50, 60)) is None
    fine = replace(mirrored_sight(source_end=100, target_end=50), ends_in_gap=True)
    assert judge(fine, OURS, aligns=True) is None
    assert judge(replace(fine, target=span(0, 150)), OURS, aligns=True) is None


def test_a_plan_asks_the_policy_whether_a_loss_is_accepted_and_counts_nothing_that_is_gone() -> None:
    link = replace(LINK, policy=replace(LINK.policy, on_loss=OnLoss.CONTINUE))
    seen = snapshot(source_topic(sights=[BEHIND]), targets=[target_topic()])
    assert [each.why.reason for each in plan([seen]).refusals] == [StopReason.LOST]
    (copied,) = plan([replace(seen, link=link)]).copies
    assert isinstance(copied, CopyPartition)
    assert (copied.next_offset, copied.lost_to, copied.backlog) == (50, 60, 40)
