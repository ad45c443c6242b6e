"""Whether a run has anything to do, and how partitions stand by its plan."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from heliograph.controller.outlook import is_to_do, lag_of_action, state_by
from heliograph.controller.plan import (
    Action,
    AddPartitions,
    AwaitPartition,
    ChangeConfigs,
    CleanPartition,
    CopyPartition,
    CreateTopic,
    DeleteTopic,
    KeepConfigs,
    LeavePartition,
    PartitionAction,
    PausePartition,
    plan,
)
from heliograph.controller.recorded import Recorded
from heliograph.controller.topic_config import TargetShape
from heliograph.model.claims import Holder
from heliograph.model.command import Command, CommandState, Subject, Wish, encode_command
from heliograph.model.ledger import WHOLE_TOPIC, LedgerState
from heliograph.model.states import PartitionState

from .observed import (
    SF_ID,
    copy,
    mirrored_sight,
    partition,
    refusal,
    snapshot,
    source_sight,
    source_topic,
    target_topic,
)
from .played import order

P0 = partition()
CREATE = CreateTopic(
    link="sf-to-nyc", topic="orders", shape=TargetShape(partitions=1, replication_factor=1, configs={})
)
AWAIT = AwaitPartition(partition=P0, goal=100, why="w", command="kafka-topics.sh --create", align_to=40)
PAUSE = PausePartition(partition=P0, next_offset=90, goal=100, words="paused by ann")
CLEAN = CleanPartition(partition=P0, next_offset=100, goal=100)
HOLDER = Holder(claimant=order("b").claimants[0], link="theirs")
LEAVE = LeavePartition(partition=P0, next_offset=90, goal=100, holder=HOLDER)


def begun(**changed: Any) -> CopyPartition:
    return replace(copy(P0, next_offset=90), **changed)


def building() -> CopyPartition:
    return replace(begun(), spec=replace(begun().spec, builds=True))


def actions_of(source_end: int, target_end: int) -> tuple[Action, ...]:
    """Of a mirror that has begun."""
    sight = mirrored_sight(source_end=source_end, target_end=target_end)
    return plan([snapshot(source_topic(sights=[sight]), targets=[target_topic()])]).actions


@pytest.mark.parametrize(("source_end", "target_end"), [(100, 100), (100, 90), (0, 0)])
def test_a_mirror_that_is_in_step_has_nothing_to_do_and_new_records_are_no_change(
    source_end: int, target_end: int
) -> None:
    (action,) = actions_of(source_end, target_end)
    assert isinstance(action, CopyPartition)
    assert not is_to_do(action)


def test_a_topic_that_is_missing_is_to_be_made_and_its_partitions_begun() -> None:
    topic = source_topic(sights=[source_sight(0, 100), source_sight(0, 0), source_sight(50, 50)])
    made, full, empty, expired = plan([snapshot(topic)]).actions
    assert isinstance(made, CreateTopic)
    # Nothing is copied of a partition that holds nothing; one whose records are gone is brought to its offset.
    assert [is_to_do(each) for each in (made, full, empty, expired)] == [True, True, False, True]


@pytest.mark.parametrize(
    ("action", "to_do"),
    [
        (CREATE, True),
        (AddPartitions(link="sf-to-nyc", topic="orders", there=1, to=2), True),
        (ChangeConfigs(link="sf-to-nyc", topic="orders", changes={"a": "1"}, before={"a": None}), True),
        (KeepConfigs(link="sf-to-nyc", topic="orders", drift={}, unknown={"a": "1"}), False),
        (DeleteTopic(link="sf-to-nyc", topic="a", topic_id="i", source_topic="a", why="w"), True),
        (copy(P0), True),
        (copy(P0, next_offset=None), True),
        (copy(P0, goal=None), True),
        (begun(align_to=95), True),
        (begun(align_to=90), False),
        (begun(lost_to=95), True),
        (building(), True),
        (AWAIT, True),
        (CLEAN, True),
        (refusal(P0), True),
        (PAUSE, False),
        (replace(PAUSE, anew=True), True),
        (LEAVE, False),
    ],
)
def test_to_do_is_what_is_not_as_the_run_would_leave_it(action: Action, to_do: bool) -> None:
    assert is_to_do(action) is to_do


@pytest.mark.parametrize(
    ("action", "state", "lag"),
    [
        (copy(P0), PartitionState.COPYING, 100),
        (begun(), PartitionState.COPYING, 10),
        (begun(next_offset=100), PartitionState.CAUGHT_UP, 0),
        (begun(align_to=95), PartitionState.ALIGNING, 5),
        (building(), PartitionState.ALIGNING, 10),
        (copy(P0, next_offset=None), PartitionState.UNKNOWN, None),
        (AWAIT, PartitionState.PENDING, 60),
        (replace(AWAIT, goal=None), PartitionState.PENDING, None),
        (PAUSE, PartitionState.PAUSED, 10),
        (replace(PAUSE, next_offset=None), PartitionState.PAUSED, None),
        (CLEAN, PartitionState.ALIGNING, 0),
        (LEAVE, PartitionState.UNKNOWN, 10),
        (refusal(P0), PartitionState.STOPPED, None),
    ],
)
def test_an_action_says_how_its_partition_will_stand(
    action: PartitionAction, state: PartitionState, lag: int | None
) -> None:
    assert (state_by(action), lag_of_action(action)) == (state, lag)


@pytest.mark.parametrize(
    ("wish", "number", "to_do"), [(Wish.PAUSE, 0, False), (Wish.REMIRROR, WHOLE_TOPIC, True)]
)
def test_a_pause_is_as_it_was_wanted_and_a_topic_to_be_mirrored_anew_is_not_yet(
    wish: Wish, number: int, to_do: bool
) -> None:
    subject, wishes = (
        Subject(source_cluster_id=SF_ID, target_topic="orders", partition=number),
        CommandState(),
    )
    at = datetime(2026, 3, 1, tzinfo=UTC)
    wishes.take(*encode_command(Command(id="1", wish=wish, subject=subject, at=at, author="ann")))
    sight = mirrored_sight(source_end=100, target_end=90)
    seen = snapshot(source_topic(sights=[sight]), targets=[target_topic()])
    (action,) = plan([seen], recorded_of=lambda _seen: Recorded(LedgerState(), wishes, SF_ID)).actions
    assert isinstance(action, PausePartition)
    assert is_to_do(action) is to_do
