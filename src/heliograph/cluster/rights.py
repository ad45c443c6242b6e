"""What this client may do, as the brokers tell it.

The questions write nothing. Brokers look at rights before anything else, so a request that cannot succeed (a heartbeat
of nobody, a topic that is not there) tells all the same whether it would have been allowed. Must not know what a link
needs: that is the controller's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeConfigsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    IncrementalAlterConfigsResponse,
)
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.protocol.producer import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

from heliograph.cluster import group_requests
from heliograph.cluster.admin import (
    TOPIC_RESOURCE,
    call_any,
    call_controller,
    configs_change,
    configs_request,
    creatable,
    in_portions,
)
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.messages import raise_for, unpacking
from heliograph.model.errors import BrokerRefused
from heliograph.wire.error_codes import ErrorCode

BROKER_ENDPOINT = 1  # whom DescribeCluster is to describe
NO_TOPIC = "heliograph: no topic"  # Kafka takes neither colons nor spaces in a name
TRIAL_TIMEOUT_MS = 3000  # a broker that hangs must not hold up a run that takes over
NO_TRANSACTION_MS = 0  # a transaction timeout that no broker takes: INVALID_TRANSACTION_TIMEOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRights:
    """`error`: the broker's code for the topic itself. `held` None: the broker does not say what is allowed."""

    error: int
    held: frozenset[int] | None


async def read_topic_rights(client: ClusterClient, topics: Iterable[str]) -> dict[str, TopicRights]:
    """A topic that may not be seen has the error TOPIC_AUTHORIZATION_FAILED, whether it is there or not. Brokers before
    Kafka 2.3 say nothing of rights."""
    found: dict[str, TopicRights] = {}
    for names in in_portions(topics):
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
        try:
            response = await call_any(client, request, MetadataResponse)
        except BrokerRefused as refused:
            if refused.code != ErrorCode.UNSUPPORTED_VERSION:
                raise
            seen = await client.read_metadata(names)
            found |= {name: TopicRights(error=topic.error, held=None) for name, topic in seen.topics.items()}
            continue
        with unpacking("rights on topics"):
            for topic in response.topics:
                held = _held(topic.authorized_operations)
                found[topic.name] = TopicRights(error=int(topic.error_code), held=held)
    return found


async def read_cluster_rights(client: ClusterClient) -> frozenset[int] | None:
    """None: the broker does not say. It says nothing, an empty set, to who may not DESCRIBE the cluster."""
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=True,
        endpoint_type=BROKER_ENDPOINT,
        include_fenced_brokers=False,
    )
    response = await call_any(client, request, DescribeClusterResponse)
    with unpacking("rights on the cluster"):
        raise_for(int(response.error_code), "rights on the cluster")
        return _held(response.authorized_operations)


def _held(operations: Any) -> frozenset[int] | None:
    return frozenset(int(each) for each in operations) if isinstance(operations, set) else None


async def try_reading_producers(client: ClusterClient, topics: Iterable[str]) -> dict[str, int]:
    """For each topic the broker's code: TOPIC_AUTHORIZATION_FAILED without READ, also of a topic that is not there."""
    found: dict[str, int] = {}
    for names in in_portions(topics):
        asked = [DescribeProducersRequest.TopicRequest(name=name, partition_indexes=[0]) for name in names]
        response = await call_any(client, DescribeProducersRequest(topics=asked), DescribeProducersResponse)
        with unpacking("producers of topics"):
            found |= {topic.name: int(topic.partitions[0].error_code) for topic in response.topics}
    return found


async def try_reading_configs(client: ClusterClient, topics: Iterable[str]) -> dict[str, int]:
    """For each topic the broker's code: TOPIC_AUTHORIZATION_FAILED without DESCRIBE_CONFIGS, as above."""
    found: dict[str, int] = {}
    for names in in_portions(topics):
        response = await call_any(
            client, configs_request(TOPIC_RESOURCE, names, ["compression.type"]), DescribeConfigsResponse
        )
        with unpacking("configs of topics"):
            found |= {result.resource_name: int(result.error_code) for result in response.results}
    return found


async def try_changing_configs(
    client: ClusterClient, changes: Mapping[str, Mapping[str, str | None]]
) -> dict[str, tuple[int, str]]:
    """For each topic what a broker would say to these changes: code and words."""
    found: dict[str, tuple[int, str]] = {}
    for names in in_portions(changes):
        request = configs_change([(name, changes[name]) for name in names], validate_only=True)
        response = await call_any(client, request, IncrementalAlterConfigsResponse)
        with unpacking("a trial of changing configs"):
            found |= {
                each.resource_name: (int(each.error_code), each.error_message or "")
                for each in response.responses
            }
    return found


async def try_deleting_records(client: ClusterClient, topics: Iterable[str]) -> dict[str, int]:
    """For each topic the broker's code: TOPIC_AUTHORIZATION_FAILED without DELETE, also of a topic that is not there.

    Deletes nothing: a log that is there after all is told to start at 0 or later, which it does.
    """
    found: dict[str, int] = {}
    asked = DeleteRecordsRequest.DeleteRecordsTopic
    first = asked.DeleteRecordsPartition(partition_index=0, offset=0)
    for names in in_portions(topics):
        request = DeleteRecordsRequest(
            topics=[asked(name=name, partitions=[first]) for name in names],
            timeout_ms=client.properties.request_timeout_ms,
        )
        response = await call_any(client, request, DeleteRecordsResponse)
        with unpacking("a trial of deleting records"):
            found |= {topic.name: int(topic.partitions[0].error_code) for topic in response.topics}
    return found


async def try_writing_markers(client: ClusterClient, node: int) -> int:
    """This broker's code for a marker: CLUSTER_AUTHORIZATION_FAILED without ALTER or CLUSTER_ACTION on the cluster.

    Writes nothing: there is no topic of such a name, and never can be.
    """
    marker = WriteTxnMarkersRequest.WritableTxnMarker
    nowhere = marker.WritableTxnMarkerTopic(name=NO_TOPIC, partition_indexes=[0])
    asked = marker(
        producer_id=0, producer_epoch=0, transaction_result=False, topics=[nowhere], coordinator_epoch=0
    )
    request = WriteTxnMarkersRequest(markers=[asked])
    response = await client.call(node, request, WriteTxnMarkersResponse, timeout_ms=TRIAL_TIMEOUT_MS)
    with unpacking(f"a trial of writing markers by broker {node}"):
        return int(response.markers[0].topics[0].partitions[0].error_code)


async def try_transactional_id(client: ClusterClient, node: int, transactional_id: str) -> int:
    """This broker's code for a producer of that transactional id: TRANSACTIONAL_ID_AUTHORIZATION_FAILED without WRITE.

    Any broker will do. None is made: transactions of 0 ms are refused before anybody looks for a coordinator.
    """
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=NO_TRANSACTION_MS
    )
    response = await client.call(node, request, InitProducerIdResponse, timeout_ms=TRIAL_TIMEOUT_MS)
    with unpacking(f"a trial of transactional id {transactional_id}"):
        return int(response.error_code)


async def try_creating(
    client: ClusterClient, shapes: Mapping[str, tuple[int, int, Mapping[str, str]]]
) -> dict[str, tuple[int, str]]:
    """Creates nothing: the broker only says, by a code and words, whether it would.

    A shape is (partitions, replication factor, configs).
    """
    found: dict[str, tuple[int, str]] = {}
    for names in in_portions(shapes):
        request = CreateTopicsRequest(
            topics=[creatable(name, *shapes[name]) for name in names],
            timeout_ms=client.properties.request_timeout_ms,
            validate_only=True,
        )
        response = await call_controller(client, request, CreateTopicsResponse)
        with unpacking("a trial of creating topics"):
            found |= {t.name: (int(t.error_code), str(t.error_message or "")) for t in response.topics}
    return found


async def try_heartbeat(client: ClusterClient, group: str) -> int:
    """The broker's code for a heartbeat of nobody: GROUP_AUTHORIZATION_FAILED without READ on the group.

    Any broker will do, the group need not exist, and no member of it notices.
    """
    ask = group_requests.heartbeat(group, "nobody", 0, timeout_s=0)
    response = await call_any(client, ask.message, ask.response_class)
    with unpacking(f"a heartbeat to group {group}"):
        return int(response.error_code)
