"""One action of a plan as plain values, for JSON and YAML: its only encoder. Pure.

`action` is the kind: scripts compare it, so a name that was published never changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

from heliograph.controller.outlook import is_to_do, lag_of_action, partition_of, state_by
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
from heliograph.model.hints import hint_for
from heliograph.model.partition import MirrorPartition
from heliograph.model.policy import LinkPolicy
from heliograph.model.states import BuildPhase

Document = dict[str, Any]
PolicyOf = Callable[[MirrorPartition], LinkPolicy]


def encode_action(action: Action, policy_of: PolicyOf) -> Document:
    match action:
        case CreateTopic():
            return {
                "action": "create_topic",
                "link": action.link,
                "target_topic": action.topic,
                "to_do": is_to_do(action),
                "partitions": action.shape.partitions,
                "replication_factor": action.shape.replication_factor,
                "configs": dict(action.shape.configs),
            }
        case AddPartitions():
            return {
                "action": "add_partitions",
                "link": action.link,
                "target_topic": action.topic,
                "to_do": is_to_do(action),
                "partitions": action.to,
                "added": action.to - action.there,
            }
        case ChangeConfigs():
            return {
                "action": "change_configs",
                "link": action.link,
                "target_topic": action.topic,
                "to_do": is_to_do(action),
                "configs": dict(action.changes),
                "before": dict(action.before),
            }
        case KeepConfigs():
            return {
                "action": "keep_configs",
                "link": action.link,
                "target_topic": action.topic,
                "to_do": is_to_do(action),
                "drift": {
                    name: {"source": each.source, "target": each.target}
                    for name, each in action.drift.items()
                },
                "unknown": dict(action.unknown),
            }
        case DeleteTopic():
            return {
                "action": "delete_topic",
                "link": action.link,
                "source_topic": action.source_topic,
                "target_topic": action.topic,
                "to_do": is_to_do(action),
                "topic_id": action.topic_id,
                "held": action.held,
                "message": action.why,
            }
        case CopyPartition():
            return {
                "action": "copy_partition",
                **_about(action, policy_of),
                "next_offset": action.next_offset,
                "source_end": action.goal,
                "align_to": action.align_to,
                "lost_to": action.lost_to,
                "build": str(BuildPhase.FILLING) if action.spec.builds else None,
            }
        case AwaitPartition():
            return {
                "action": "await_partition",
                **_about(action, policy_of),
                "next_offset": 0,
                "source_end": action.goal,
                "align_to": action.align_to,
                "message": action.why,
                "hint": action.command,
            }
        case PausePartition():
            return {
                "action": "pause_partition",
                **_about(action, policy_of),
                "next_offset": action.next_offset,
                "source_end": action.goal,
                "message": action.words,
                "anew": action.anew,
            }
        case CleanPartition():
            return {
                "action": "clean_partition",
                **_about(action, policy_of),
                "next_offset": action.next_offset,
                "source_end": action.goal,
                "build": str(BuildPhase.CLEANING),
            }
        case LeavePartition():
            return {
                "action": "leave_partition",
                **_about(action, policy_of),
                "next_offset": action.next_offset,
                "source_end": action.goal,
                "message": f"it is held by {action.holder}",
            }
        case RefusePartition(partition=where, why=why):
            offsets = None if why.first_offset is None else [why.first_offset, why.next_offset]
            return {
                "action": "refuse_partition",
                **_about(action, policy_of),
                "code": str(why.reason),
                "stopped_at": offsets,
                "message": why.message,
                "hint": hint_for(where, why.hint),
            }
        case _:
            assert_never(action)


def _about(action: PartitionAction, policy_of: PolicyOf) -> Document:
    where = partition_of(action)
    return {
        "link": where.link,
        "source_topic": where.source_topic,
        "target_topic": where.target_topic,
        "partition": where.partition,
        "state": str(state_by(action)),
        "to_do": is_to_do(action),
        "lag_records": lag_of_action(action),
        "policy": policy_of(where).texts(),
    }
