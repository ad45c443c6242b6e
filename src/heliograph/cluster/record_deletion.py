"""Moves the start of a partition's log: DeleteRecords, to its leader.

The answer comes when every follower has moved its start as well, or after the timeout. So it has a connection of its
own: nothing else may wait behind it.
"""

from __future__ import annotations

from kafka.protocol.admin import DeleteRecordsRequest, DeleteRecordsResponse

from heliograph.cluster.by_leader import leader_of
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.grants import Resource, Right, grant_line
from heliograph.cluster.messages import call, raise_for, unpacking
from heliograph.model.errors import BrokerRefused
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

ANSWER_SLACK_MS = 1000  # the broker gives up first and says so; only a dead one is cut off


async def delete_records(
    client: ClusterClient, where: TopicPartition, before_offset: int, *, purpose: str
) -> None:
    """All records below `before_offset` are gone; `BrokerRefused` with the broker's code if not. REQUEST_TIMED_OUT says
    that a follower is slow: the leader's log starts there already."""
    assert before_offset >= 0, before_offset  # -1 would mean all of them to the broker
    leader = leader_of(client, where)
    topic = DeleteRecordsRequest.DeleteRecordsTopic
    asked = topic.DeleteRecordsPartition(partition_index=where.partition, offset=before_offset)
    timeout_ms = client.properties.request_timeout_ms
    request = DeleteRecordsRequest(
        topics=[topic(name=where.topic, partitions=[asked])], timeout_ms=timeout_ms
    )
    connection = await client.connection(leader.node, purpose)
    response = await call(connection, request, DeleteRecordsResponse, timeout_ms=timeout_ms + ANSWER_SLACK_MS)
    what = f"deleting the records of {where} below {before_offset} on broker {leader.node}"
    with unpacking(what):
        code = int(response.topics[0].partitions[0].error_code)
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        raise _denied(client, where, what)
    raise_for(code, what)


def _denied(client: ClusterClient, where: TopicPartition, what: str) -> BrokerRefused:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    line = grant_line(client.properties, Right.DELETE, Resource.TOPIC, [where.topic])
    return BrokerRefused(f"{what}: {code.name}", code=code, hint=f"grant DELETE on the topic: {line}")
