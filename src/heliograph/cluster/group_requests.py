"""What a member of a classic consumer group asks its coordinator, as kafka-python's messages. No I/O.

What members tell each other is their protocol's (group_protocol.py). Fields that only some versions have are all filled
in: kafka-python leaves out what the version on the wire has not.
"""

from __future__ import annotations

from collections.abc import Iterable
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    message: Any
    response_class: type[Any]
    timeout_s: float


def join(
    group: str, member_id: str, protocol: str, metadata: bytes, *, session_s: int, timeout_s: float
) -> Ask:
    """Rebalance and session timeout are one: the lease rests on it."""
    ours = JoinGroupRequest.JoinGroupRequestProtocol(name=protocol, metadata=metadata)
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
    group: str,
    member_id: str,
    generation: int,
    protocol: str,
    assignments: Iterable[tuple[str, bytes]],
    *,
    timeout_s: float,
) -> Ask:
    """`assignments` come from the leader; another member has none."""
    to_member = SyncGroupRequest.SyncGroupRequestAssignment
    message = SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=None,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol,
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
