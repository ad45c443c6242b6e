"""What a member of a classic consumer group asks its coordinator, as kafka-python's messages. No I/O.

Owns the group's protocol name and the JSON that members tell each other. Fields that only some versions have are all
filled in: kafka-python leaves out what the version on the wire has not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

PROTOCOL_TYPE = "heliograph"
PROTOCOL_NAME = "heliograph/1"
CONFIG = "config"  # in a member's description: the fingerprint of its config


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    message: Any
    response_class: type[Any]
    timeout_s: float


def join(group: str, member_id: str, describe: Mapping[str, Any], *, session_s: int, timeout_s: float) -> Ask:
    """Rebalance and session timeout are one: the lease rests on it."""
    ours = JoinGroupRequest.JoinGroupRequestProtocol(name=PROTOCOL_NAME, metadata=_to_json(describe))
    message = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_s * 1000,
        rebalance_timeout_ms=session_s * 1000,
        member_id=member_id,
        group_instance_id=None,
        protocol_type=PROTOCOL_TYPE,
        protocols=[ours],
        reason=None,
    )
    return Ask(message=message, response_class=JoinGroupResponse, timeout_s=timeout_s)


def sync(
    group: str, member_id: str, generation: int, assignments: Iterable[tuple[str, bytes]], *, timeout_s: float
) -> Ask:
    """`assignments` come from the leader; another member has none."""
    to_member = SyncGroupRequest.SyncGroupRequestAssignment
    message = SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=None,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=PROTOCOL_NAME,
        assignments=[to_member(member_id=member, assignment=said) for member, said in assignments],
    )
    return Ask(message=message, response_class=SyncGroupResponse, timeout_s=timeout_s)


def heartbeat(group: str, member_id: str, generation: int, *, timeout_s: float) -> Ask:
    message = HeartbeatRequest(
        group_id=group, generation_id=generation, member_id=member_id, group_instance_id=None
    )
    return Ask(message=message, response_class=HeartbeatResponse, timeout_s=timeout_s)


def leave(group: str, member_id: str, *, timeout_s: float) -> Ask:
    member = LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=None, reason=None)
    message = LeaveGroupRequest(group_id=group, member_id=member_id, members=[member])
    return Ask(message=message, response_class=LeaveGroupResponse, timeout_s=timeout_s)


def active_member(member_id: str, describe: Mapping[str, Any]) -> bytes:
    """What the leader assigns to every member: who is active."""
    return _to_json({**describe, "member": member_id})


def is_alike(assignment: bytes, describe: Mapping[str, Any]) -> bool:
    """Whether the active one's config is ours, as far as both tell."""
    try:
        theirs = json.loads(bytes(assignment)).get(CONFIG)
    except (ValueError, AttributeError):
        return True
    return theirs is None or CONFIG not in describe or theirs == describe[CONFIG]


def active_in_words(assignment: bytes) -> str | None:
    """None if whoever leads the group wrote what we cannot read."""
    try:
        active = json.loads(bytes(assignment))
        return f"{active['host']} (pid {active['pid']})"
    except (ValueError, KeyError, TypeError):
        return None


def _to_json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode()
