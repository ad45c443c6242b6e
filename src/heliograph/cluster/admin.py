"""Reading and making topics: the few admin calls the controller needs, as values of our own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafka.protocol.admin import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.messages import raise_for, unpacking
from heliograph.model.errors import BrokerRefused
from heliograph.wire.error_codes import ErrorCode

TOPIC_RESOURCE = 2
DYNAMIC_TOPIC_CONFIG = 1  # config_source of a value that was set on the topic itself
DESCRIBE_AT_ONCE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """`own`: values set on the topic itself. `effective`: all values, with the broker's defaults."""

    own: Mapping[str, str]
    effective: Mapping[str, str]


async def describe_topic_configs(client: ClusterClient, topics: Iterable[str]) -> dict[str, TopicConfig]:
    names = sorted(topics)
    found: dict[str, TopicConfig] = {}
    for first in range(0, len(names), DESCRIBE_AT_ONCE):
        found.update(await _describe(client, names[first : first + DESCRIBE_AT_ONCE]))
    return found


async def _describe(client: ClusterClient, topics: list[str]) -> dict[str, TopicConfig]:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    asked = [resource(resource_type=TOPIC_RESOURCE, resource_name=t, configuration_keys=None) for t in topics]
    request = DescribeConfigsRequest(resources=asked, include_synonyms=False, include_documentation=False)
    response = await client.call(_any_node(client), request, DescribeConfigsResponse)
    found = {}
    with unpacking("configs of topics"):
        for result in response.results:
            raise_for(result.error_code, f"configs of topic {result.resource_name}")
            values = [c for c in result.configs if c.value is not None]
            found[result.resource_name] = TopicConfig(
                own={c.name: c.value for c in values if c.config_source == DYNAMIC_TOPIC_CONFIG},
                effective={c.name: c.value for c in values},
            )
    return found


async def create_topic(
    client: ClusterClient, name: str, *, partitions: int, replication_factor: int, configs: Mapping[str, str]
) -> None:
    """Create one topic; `BrokerRefused` carries the broker's own words. A topic that is there already is fine."""
    topic = CreateTopicsRequest.CreatableTopic
    wanted = topic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[],
        configs=[topic.CreatableTopicConfig(name=k, value=v) for k, v in sorted(configs.items())],
    )
    request = CreateTopicsRequest(
        topics=[wanted], timeout_ms=client.properties.request_timeout_ms, validate_only=False
    )
    controller = client.metadata.controller
    node = controller if controller in client.metadata.brokers else _any_node(client)
    response = await client.call(node, request, CreateTopicsResponse)
    with unpacking(f"creation of topic {name}"):
        result = response.topics[0]
    if result.error_code not in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
        code = ErrorCode.name_of(result.error_code)
        detail = f" ({result.error_message})" if result.error_message else ""
        raise BrokerRefused(f"topic {name} cannot be created: {code}{detail}", code=result.error_code)


def _any_node(client: ClusterClient) -> int:
    return next(iter(client.metadata.brokers))
