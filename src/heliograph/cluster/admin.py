"""Reading and making topics, and what brokers are configured to: the admin calls the controller needs, as values of our
own. What this client may do is rights.py's to ask."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from sys import intern
from typing import Any
from uuid import UUID

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

from heliograph.cluster.at_most import at_most
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.messages import raise_for, unpacking
from heliograph.model.errors import BrokerRefused, Disconnected, RequestFailed
from heliograph.wire.error_codes import ErrorCode

_SET, _UNSET = 0, 1  # what is to be done with a config
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
DYNAMIC_TOPIC_CONFIG = 1  # config_source of a value that was set on the topic itself
UNSAID_SOURCE = -1  # brokers before 1.1 do not say where a value comes from
DESCRIBE_AT_ONCE = 100  # topics in a request
PORTIONS_AT_ONCE = 4
BROKER_CONFIGS_TIMEOUT_MS = 3000  # a broker that hangs must not hold up a run that takes over
BROKERS_AT_ONCE = 16
PRODUCER_EXPIRY = "producer.id.expiration.ms"
OLDER_EXPIRY = "transactional.id.expiration.ms"  # before there was the other, it was for producer ids, too
DEFAULT_EXPIRY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """`own`: values set on the topic itself. `effective`: all values, with the broker's defaults.

    `problem`: why they could not be read. `untold`: the brokers cannot be asked for any (before Kafka 0.11).
    """

    own: Mapping[str, str]
    effective: Mapping[str, str]
    problem: str | None = None
    untold: bool = False


UNTOLD = TopicConfig(own={}, effective={}, untold=True)


async def describe_topic_configs(
    client: ClusterClient, topics: Iterable[str], keys: list[str] | None = None
) -> dict[str, TopicConfig]:
    """`keys` None: all of them."""
    portions = [partial(_describe, client, names, keys) for names in in_portions(topics)]
    found: dict[str, TopicConfig] = {}
    for described in await at_most(PORTIONS_AT_ONCE, portions):
        found |= described
    return found


async def _describe(
    client: ClusterClient, topics: list[str], keys: list[str] | None
) -> dict[str, TopicConfig]:
    request = configs_request(TOPIC_RESOURCE, topics, keys)
    try:
        response = await call_any(client, request, DescribeConfigsResponse)
    except BrokerRefused as refused:
        if refused.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        return dict.fromkeys(topics, UNTOLD)
    return read_configs(response)


def read_configs(response: Any) -> dict[str, TopicConfig]:
    """By topic, from an answer to `configs_request`."""
    with unpacking("configs of topics"):
        return {result.resource_name: _config(result) for result in response.results}


def _config(result: Any) -> TopicConfig:
    if result.error_code:
        problem = f"its configs cannot be read: {ErrorCode.name_of(result.error_code)}"
        return TopicConfig(own={}, effective={}, problem=problem)
    values = [c for c in result.configs if c.value is not None]
    # Thousands of topics have the same names and values, and are remembered (config_reads.py).
    texts = {c.name: (intern(c.name), intern(c.value)) for c in values}
    return TopicConfig(
        own=dict(texts[c.name] for c in values if _is_own(c)),
        effective=dict(texts.values()),
    )


def _is_own(config: Any) -> bool:
    """Brokers before 1.1 say of each value only whether it is a default. Later ones say where it comes from, and no
    longer that."""
    if config.config_source == UNSAID_SOURCE:
        return not config.is_default
    return bool(config.config_source == DYNAMIC_TOPIC_CONFIG)


async def create_topic(
    client: ClusterClient, name: str, *, partitions: int, replication_factor: int, configs: Mapping[str, str]
) -> bool:
    """Create one topic; `BrokerRefused` carries the broker's own words. False: it is there already, which is fine."""
    request = CreateTopicsRequest(
        topics=[creatable(name, partitions, replication_factor, configs)],
        timeout_ms=client.properties.request_timeout_ms,
        validate_only=False,
    )
    response = await call_controller(client, request, CreateTopicsResponse)
    with unpacking(f"creation of topic {name}"):
        result = response.topics[0]
    if result.error_code not in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
        code = ErrorCode.name_of(result.error_code)
        detail = f" ({result.error_message})" if result.error_message else ""
        raise BrokerRefused(f"topic {name} cannot be created: {code}{detail}", code=result.error_code)
    return not result.error_code


async def add_partitions(client: ClusterClient, topic: str, to: int) -> bool:
    """So that it has `to` in all; `BrokerRefused` carries the broker's own words. False: it has that many already."""
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=to, assignments=None)],
        timeout_ms=client.properties.request_timeout_ms,
        validate_only=False,
    )
    response = await call_controller(client, request, CreatePartitionsResponse)
    with unpacking(f"new partitions of topic {topic}"):
        result = response.results[0]
        code, detail = int(result.error_code), result.error_message
    if code == ErrorCode.INVALID_PARTITIONS:
        found = (await client.read_metadata([topic])).topics.get(topic)
        if found is not None and found.partitions >= to:
            return False
    if code:
        words = f"topic {topic} cannot be given more partitions: {ErrorCode.name_of(code)}"
        raise BrokerRefused(f"{words} ({detail})" if detail else words, code=code)
    return True


async def alter_topic_configs(
    client: ClusterClient, topic: str, changes: Mapping[str, str | None], *, validate_only: bool = False
) -> None:
    """Set these configs of a topic, and no others; None: the brokers' default. `BrokerRefused` carries the broker's
    own words."""
    request = configs_change([(topic, changes)], validate_only=validate_only)
    response = await call_any(client, request, IncrementalAlterConfigsResponse)
    with unpacking(f"configs of topic {topic}"):
        result = response.responses[0]
        code, detail = int(result.error_code), result.error_message
    if code:
        words = f"topic {topic}: its configs cannot be changed: {ErrorCode.name_of(code)}"
        raise BrokerRefused(f"{words} ({detail})" if detail else words, code=code)


async def delete_topic(client: ClusterClient, topic_id: str) -> None:
    """Delete the topic of this id, whatever it is called, and no other; one that is gone already is fine. It may be
    seen for a moment after that."""
    topic = DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=UUID(topic_id))
    request = DeleteTopicsRequest(topics=[topic], timeout_ms=client.properties.request_timeout_ms)
    response = await call_controller(client, request, DeleteTopicsResponse)
    what = f"deletion of topic {topic_id}"
    with unpacking(what):
        code = int(response.responses[0].error_code)
    if code != ErrorCode.UNKNOWN_TOPIC_ID:
        raise_for(code, what)


async def read_state_lasts_ms(target: ClusterClient) -> int | None:
    """How long brokers remember a producer id: the least of all brokers. None: they do not let us read it.

    A broker that does not answer counts with Kafka's default.
    """

    async def read(node: int) -> int | RequestFailed:
        try:
            return await _read_expiry(target, node)
        except RequestFailed as failed:
            return failed

    answers = await at_most(BROKERS_AT_ONCE, (partial(read, node) for node in target.metadata.brokers))
    if any(isinstance(answer, BrokerRefused) for answer in answers):
        return None
    known = [answer for answer in answers if isinstance(answer, int)]
    if not known:
        failures = [answer for answer in answers if isinstance(answer, RequestFailed)]
        raise failures[0] if failures else Disconnected(f"no broker of cluster {target.name!r} is known")
    return min(known) if len(known) == len(answers) else min(*known, DEFAULT_EXPIRY_MS)


async def _read_expiry(client: ClusterClient, node: int) -> int:
    values = await read_broker_configs(client, node, [PRODUCER_EXPIRY, OLDER_EXPIRY])
    return int(values.get(PRODUCER_EXPIRY) or values.get(OLDER_EXPIRY) or DEFAULT_EXPIRY_MS)


async def read_broker_configs(client: ClusterClient, node: int, keys: list[str]) -> dict[str, str]:
    """A broker's own configs must be asked of the broker itself. What it does not know is left out."""
    request = configs_request(BROKER_RESOURCE, [str(node)], keys)
    response = await client.call(node, request, DescribeConfigsResponse, timeout_ms=BROKER_CONFIGS_TIMEOUT_MS)
    what = f"configs of broker {node}"
    with unpacking(what):
        result = response.results[0]
        raise_for(int(result.error_code), what)
        return {config.name: config.value for config in result.configs if config.value is not None}


# -- what requests are made of, and whom they are asked


def creatable(name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> Any:
    topic = CreateTopicsRequest.CreatableTopic
    return topic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[],
        configs=[topic.CreatableTopicConfig(name=k, value=v) for k, v in sorted(configs.items())],
    )


def configs_request(kind: int, names: Iterable[str], keys: list[str] | None) -> Any:
    """`keys` None: all of them."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    asked = [resource(resource_type=kind, resource_name=name, configuration_keys=keys) for name in names]
    return DescribeConfigsRequest(resources=asked, include_synonyms=False, include_documentation=False)


def configs_change(
    changes: Iterable[tuple[str, Mapping[str, str | None]]], *, validate_only: bool = False
) -> Any:
    """By topic. Of each topic all changes are made, or none."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    wanted = [
        resource(
            resource_type=TOPIC_RESOURCE,
            resource_name=topic,
            configs=[
                resource.AlterableConfig(
                    name=key, config_operation=_UNSET if value is None else _SET, value=value
                )
                for key, value in sorted(of_topic.items())
            ],
        )
        for topic, of_topic in changes
    ]
    return IncrementalAlterConfigsRequest(resources=wanted, validate_only=validate_only)


def in_portions(topics: Iterable[str]) -> list[list[str]]:
    names = sorted(topics)
    return [names[first : first + DESCRIBE_AT_ONCE] for first in range(0, len(names), DESCRIBE_AT_ONCE)]


async def call_controller(client: ClusterClient, request: Any, response_class: type[Any]) -> Any:
    """With ZooKeeper the controller alone makes and deletes topics; with KRaft any broker passes it on. A broker that
    is the controller no longer refuses, and has done nothing: then the one that is it now is asked."""
    response = await _call_known_controller(client, request, response_class)
    if ErrorCode.NOT_CONTROLLER in _topic_codes(response):
        await client.refresh()
        response = await _call_known_controller(client, request, response_class)
    return response


async def _call_known_controller(client: ClusterClient, request: Any, response_class: type[Any]) -> Any:
    controller = client.metadata.controller
    if controller in client.metadata.brokers:
        return await client.call(controller, request, response_class)
    return await call_any(client, request, response_class)


def _topic_codes(response: Any) -> set[int]:
    with unpacking("an answer of the controller"):
        answers = (getattr(response, each, None) for each in ("responses", "topics", "results"))
        return {int(topic.error_code) for topic in next(each for each in answers if each is not None)}


async def call_any(client: ClusterClient, request: Any, response_class: type[Any]) -> Any:
    """Ask one broker after another until one answers; not always the same one first: it may be the one that hangs."""
    problem: RequestFailed | None = None
    for node in random.sample(sorted(client.metadata.brokers), len(client.metadata.brokers)):
        try:
            return await client.call(node, request, response_class)
        except RequestFailed as failed:
            problem = failed
    raise problem or Disconnected(f"no broker of cluster {client.name!r} is known")
