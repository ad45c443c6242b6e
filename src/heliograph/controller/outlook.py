"""What an action of a plan amounts to: how its partition stands by it, and whether a run has anything to do. Pure.

A mirror that is running and in step has nothing to do: new records are copied, and that is no change of plan.
"""

from __future__ import annotations

from typing import assert_never

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
    RefusePartition,
)
from heliograph.model.partition import MirrorPartition
from heliograph.model.states import PartitionState


def is_to_do(action: Action) -> bool:
    """Whether something on the target is not as this run would leave it, or waits for an operator."""
    match action:
        case CreateTopic() | AddPartitions() | ChangeConfigs() | DeleteTopic():
            return True
        case RefusePartition() | AwaitPartition() | CleanPartition():
            return True
        case CopyPartition():
            return not _has_begun(action)
        case PausePartition():
            return action.anew
        case LeavePartition() | KeepConfigs():
            return False
        case _:
            assert_never(action)


def _has_begun(copy: CopyPartition) -> bool:
    """The target holds what comes before the next record to copy. What cannot be read may be anything."""
    if copy.next_offset is None or copy.goal is None or copy.spec.builds:
        return False
    if copy.next_offset < max(copy.align_to or 0, copy.lost_to or 0):
        return False
    return copy.next_offset > 0 or copy.goal == 0


def partition_of(action: PartitionAction) -> MirrorPartition:
    return action.spec.partition if isinstance(action, CopyPartition) else action.partition


def state_by(action: PartitionAction) -> PartitionState:
    """The state that a run begins with; of what it copies, the one that this comes to next."""
    match action:
        case CopyPartition():
            return _state_of_copy(action)
        case AwaitPartition():
            return PartitionState.PENDING
        case PausePartition():
            return PartitionState.PAUSED
        case CleanPartition():
            return PartitionState.ALIGNING
        case LeavePartition():
            return PartitionState.UNKNOWN
        case RefusePartition():
            return PartitionState.STOPPED
        case _:
            assert_never(action)


def _state_of_copy(copy: CopyPartition) -> PartitionState:
    lag = lag_of_action(copy)
    if copy.spec.builds or (copy.align_to or 0) > (copy.next_offset or 0):
        return PartitionState.ALIGNING
    if lag is None:
        return PartitionState.UNKNOWN
    return PartitionState.COPYING if lag else PartitionState.CAUGHT_UP


def lag_of_action(action: PartitionAction) -> int | None:
    """How many records are to be copied as of now, by offsets; None: the ends of its logs are not known."""
    match action:
        case RefusePartition():
            return None
        case CopyPartition():
            return None if None in (action.next_offset, action.goal) else action.backlog
        case AwaitPartition():
            return None if action.goal is None else action.backlog
        case PausePartition() | CleanPartition() | LeavePartition():
            if action.goal is None or action.next_offset is None:
                return None
            return max(action.goal - action.next_offset, 0)
        case _:
            assert_never(action)
