"""Whether a cluster still has a topic, by the word of single brokers: each answers for itself, by what it knows now.

A topic is asked for twice, and each answer says what the other one hides:

    by its id     UNKNOWN_TOPIC_ID: the broker knows no such topic, whoever asks; ids are never used again.
                  TOPIC_AUTHORIZATION_FAILED: it is there, and this client may not see it
    by its name   UNKNOWN_TOPIC_OR_PARTITION: there is none of that name, and this client would see one.
                  TOPIC_AUTHORIZATION_FAILED: this client may not see such a topic, whether it is there or not

Brokers understand ids in this request from Kafka 3.1 on. Must not know what follows from the answers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from heliograph.cluster.client import CONTROL, METADATA_ANSWER_MS, ClusterClient
from heliograph.cluster.messages import call, common_version, raise_for, unpacking
from heliograph.cluster.metadata import request_for
from heliograph.model.errors import ProtocolError, RequestFailed
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.error_codes import ErrorCode

WITNESSES = 2
BY_ID_VERSIONS = range(12, MetadataRequest.max_version + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """What one broker says. `by_id`, `by_name`: an error code for each topic; 0: it knows the topic. `brokers`: how
    many there are by its word."""

    node: int
    cluster_id: str
    brokers: int
    by_id: Mapping[str, int]
    by_name: Mapping[str, int]


async def ask_witnesses(
    client: ClusterClient, topics: Mapping[str, str], first: Collection[int] = ()
) -> tuple[Witness, ...]:
    """Two brokers, different ones; the only one of a cluster is asked twice. Fewer, if others do not answer. `topics`:
    ids by name. `first`: whom to ask before others."""
    nodes = sorted(client.metadata.brokers, key=lambda node: (node not in first, node))
    found: list[Witness] = []
    problem: RequestFailed | ProtocolError | None = None
    for node in nodes * WITNESSES if len(nodes) == 1 else nodes:
        try:
            found.append(await ask_witness(client, node, topics))
        except (RequestFailed, ProtocolError) as failed:
            problem = failed
        if len(found) == WITNESSES:
            break
    if problem is not None and not found:
        raise problem
    return tuple(found)


async def ask_witness(client: ClusterClient, node: int, topics: Mapping[str, str]) -> Witness:
    """`BrokerRefused` (UNSUPPORTED_VERSION) by a broker that does not understand ids."""
    connection = await client.connection(node, CONTROL)
    common_version(connection, ApiKey.METADATA, "Metadata by topic id", BY_ID_VERSIONS)

    async def ask(request: Any) -> Any:
        response = await call(connection, request, MetadataResponse, timeout_ms=METADATA_ANSWER_MS)
        raise_for(int(getattr(response, "error_code", 0) or 0), f"metadata from broker {node}")
        return response

    by_id, by_name = await ask(_by_id(topics.values())), await ask(request_for(topics))
    with unpacking(f"metadata from broker {node}"):
        cluster_ids = {str(response.cluster_id) for response in (by_id, by_name)}
        codes = {str(each.topic_id): int(each.error_code) for each in by_id.topics}
        names = {str(each.name): int(each.error_code) for each in by_name.topics}
        brokers = max(len(response.brokers) for response in (by_id, by_name))
    # What it says nothing of may be anything.
    unsaid = ErrorCode.UNKNOWN_SERVER_ERROR
    return Witness(
        node=node,
        cluster_id=cluster_ids.pop() if len(cluster_ids) == 1 else "",
        brokers=brokers,
        by_id={topic_id: codes.get(topic_id, unsaid) for topic_id in topics.values()},
        by_name={name: names.get(name, unsaid) for name in topics},
    )


def _by_id(topic_ids: Collection[str]) -> Any:
    asked = [MetadataRequest.MetadataRequestTopic(topic_id=UUID(each), name=None) for each in topic_ids]
    return MetadataRequest(topics=asked, allow_auto_topic_creation=False)
