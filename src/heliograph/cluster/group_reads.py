"""Who is in a consumer group, and which groups have commits on a topic, as somebody asks who is in none. Reads only.

Groups are asked of their coordinators: a broker lists those that it coordinates itself, and answers for these.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kafka.protocol.admin import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from heliograph.cluster.admin import BROKERS_AT_ONCE, call_any
from heliograph.cluster.at_most import at_most
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.group_requests import PROTOCOL_TYPE
from heliograph.cluster.messages import raise_for, unpacking
from heliograph.model.errors import BrokerRefused, ProtocolError, RequestFailed
from heliograph.wire.error_codes import ErrorCode

COORDINATOR_LIMIT_S = 10.0
AGAIN_S = 0.2
GROUPS_AT_ONCE = 16
GROUPS_MOST = 5000  # beyond that a question per group would take minutes; said, never silently left out
_GROUP_KEY_TYPE = 0
_NOBODY: frozenset[int] = frozenset(
    {ErrorCode.GROUP_ID_NOT_FOUND}
)  # of brokers from 4.0 on; others: no members
_AGAIN: frozenset[int] = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """`metadata`: what it says of itself; empty while the group rebalances."""

    member: str
    host: str
    metadata: bytes


async def read_members(client: ClusterClient, group: str) -> tuple[GroupMember, ...]:
    """None in a group that is not there. DESCRIBE on the group is needed, which READ includes. A coordinator that is on
    its way is waited for: the first question for one makes the cluster's offsets topic."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + COORDINATOR_LIMIT_S
    while True:
        try:
            return await _members(client, group)
        except BrokerRefused as refused:
            if refused.code not in _AGAIN or loop.time() >= give_up_at:
                raise
        await asyncio.sleep(AGAIN_S)


async def _members(client: ClusterClient, group: str) -> tuple[GroupMember, ...]:
    node = await _coordinator(client, group)
    request = DescribeGroupsRequest(groups=[group], include_authorized_operations=False)
    response = await client.call(node, request, DescribeGroupsResponse)
    what = f"members of group {group}"
    with unpacking(what):
        found = response.groups[0]
        if int(found.error_code) in _NOBODY:
            return ()
        raise_for(int(found.error_code), what)
        return tuple(
            GroupMember(
                member=str(each.member_id),
                host=str(each.client_host).lstrip("/"),
                metadata=bytes(each.member_metadata or b""),
            )
            for each in found.members
        )


async def _coordinator(client: ClusterClient, group: str) -> int:
    request = FindCoordinatorRequest(key=group, key_type=_GROUP_KEY_TYPE, coordinator_keys=[group])
    response = await call_any(client, request, FindCoordinatorResponse)
    what = f"the coordinator of group {group}"
    with unpacking(what):
        found = response.coordinators[0] if response.coordinators else response  # a list from version 4 on
        raise_for(int(found.error_code), what)
        return int(found.node_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicGroups:
    """`partitions`: by group, the partitions of the topic on which it has commits. `problem`: why some, or all, groups
    could not be asked."""

    partitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    problem: str | None = None


async def read_topic_groups(client: ClusterClient, topics: Collection[str]) -> dict[str, TopicGroups]:
    """By topic: the groups with commits on it, but for Heliograph's own. DESCRIBE on the groups is needed: of others
    brokers say nothing at all."""
    try:
        listed = await at_most(
            BROKERS_AT_ONCE, (partial(_listed, client, node) for node in client.metadata.brokers)
        )
    except (RequestFailed, ProtocolError) as problem:
        return dict.fromkeys(topics, TopicGroups(problem=problem.message))
    coordinated = sorted({each for some in listed for each in some})
    asked = coordinated[:GROUPS_MOST]
    found = await at_most(GROUPS_AT_ONCE, (partial(_commits, client, *each, topics) for each in asked))
    problems = [each for each in found if isinstance(each, str)]
    if len(coordinated) > GROUPS_MOST:
        problems.append(f"the cluster has {len(coordinated)} groups; {GROUPS_MOST} of them were asked")
    by_group = [
        (group, each) for (group, _), each in zip(asked, found, strict=True) if not isinstance(each, str)
    ]
    return {
        topic: TopicGroups(
            partitions={group: commits[topic] for group, commits in by_group if commits.get(topic)},
            problem=problems[0] if problems else None,
        )
        for topic in topics
    }


async def _listed(client: ClusterClient, node: int) -> list[tuple[str, int]]:
    """The groups that this broker coordinates."""
    request = ListGroupsRequest(states_filter=[], types_filter=[])
    response = await client.call(node, request, ListGroupsResponse)
    what = f"groups of broker {node}"
    with unpacking(what):
        raise_for(int(response.error_code), what)
        return [(str(each.group_id), node) for each in response.groups if each.protocol_type != PROTOCOL_TYPE]


async def _commits(
    client: ClusterClient, group: str, node: int, topics: Collection[str]
) -> dict[str, tuple[int, ...]] | str:
    """By topic the partitions with a commit of the group; why that cannot be said, if it cannot."""
    request: Any = OffsetFetchRequest(group_id=group, topics=None, require_stable=False)
    what = f"commits of group {group}"
    try:
        response = await client.call(node, request, OffsetFetchResponse)
        with unpacking(what):
            raise_for(int(response.error_code), what)
            return {
                topic.name: tuple(
                    sorted(
                        int(each.partition_index) for each in topic.partitions if each.committed_offset >= 0
                    )
                )
                for topic in response.topics
                if topic.name in topics
            }
    except (RequestFailed, ProtocolError) as problem:
        return problem.message
