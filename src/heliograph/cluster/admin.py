"""Reading and making topics: the few admin calls the controller needs, as values of our own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.messages import unpacking
from heliograph.model.errors import BrokerRefused, Disconnected, RequestFailed
from heliograph.wire.error_codes import ErrorCode

TOPIC_RESOURCE = 2
DYNAMIC_TOPIC_CONFIG = 1  # config_source of a value that was set on the topic itself
DESCRIBE_AT_ONCE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """`own`: values set on the topic itself. `effective`: all values, with the broker's defaults.

    `problem`: why they could not be read.
    """

    own: Mapping[str, str]
    effective: Mapping[str, str]
    problem: str | None = None


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
    response = await _call_any(client, request, DescribeConfigsResponse)
    found = {}
    with unpacking("configs of topics"):
        for result in response.results:
            found[result.resource_name] = _config(result)
    return found


def _config(result: Any) -> TopicConfig:
    if result.error_code:
        problem = f"its configs cannot be read: {ErrorCode.name_of(result.error_code)}"
        return TopicConfig(own={}, effective={}, problem=problem)
    values = [c for c in result.configs if c.value is not None]
    return TopicConfig(
        own={c.name: c.value for c in values if c.config_source == DYNAMIC_TOPIC_CONFIG},
        effective={c.name: c.value for c in values},
    )


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
    if controller in client.metadata.brokers:
        response = await client.call(controller, request, CreateTopicsResponse)
    else:
        response = await _call_any(client, request, CreateTopicsResponse)
    with unpacking(f"creation of topic {name}"):
        result = response.topics[0]
    if result.error_code not in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
        code = ErrorCode.name_of(result.error_code)
        detail = f" ({result.error_message})" if result.error_message else ""
        raise BrokerRefused(f"topic {name} cannot be created: {code}{detail}", code=result.error_code)


async def _call_any(client: ClusterClient, request: Any, response_class: type[Any]) -> Any:
    """Ask one broker after another until one answers."""
    problem: RequestFailed | None = None
    for node in client.metadata.brokers:
        try:
            return await client.call(node, request, response_class)
        except RequestFailed as failed:
            problem = failed
    raise problem or Disconnected(f"no broker of cluster {client.name!r} is known")
