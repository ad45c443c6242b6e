"""Configs of topics that are read again: asked in portions, and decoded when something is new."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse

from heliograph.cluster.admin import DYNAMIC_TOPIC_CONFIG, UNTOLD
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.config_reads import ConfigReads
from heliograph.cluster.repeated_call import RepeatedCall
from heliograph.model.errors import BrokerRefused, Disconnected, HeliographError
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.error_codes import ErrorCode

VERSION = 4
DEFAULT = 5  # config_source of a default


class Cluster:
    """Brokers that answer with `own` of each topic; `problems` by broker."""

    address = "sf:9092"

    def __init__(self, *brokers: int) -> None:
        self.versions = {ApiKey.DESCRIBE_CONFIGS: (1, VERSION)}
        self.metadata = SimpleNamespace(brokers=dict.fromkeys(brokers or (1,)))
        self.name = "sf"
        self.own: dict[str, dict[str, str]] = {}
        self.problems: dict[int, HeliographError] = {}
        self.asked: list[tuple[int, int]] = []  # broker, number of topics
        self._topics: tuple[str, ...] = ()

    async def call_again(
        self, node: int, call: RepeatedCall[Any], asked: tuple[str, ...], make: Callable[[], Any]
    ) -> Any:
        self.asked.append((node, len(asked)))
        if node in self.problems:
            raise self.problems[node]
        self._topics = asked
        return await call(cast(Any, self), asked, make, timeout_ms=1000)

    async def request(self, _key: int, version: int, _parts: Any, **_: Any) -> memoryview:
        entry = DescribeConfigsResponse.DescribeConfigsResult
        results = [
            entry(
                error_code=0,
                error_message=None,
                resource_type=2,
                resource_name=topic,
                configs=[
                    _config(entry, "retention.ms", "7", DEFAULT),
                    *(
                        _config(entry, name, value, DYNAMIC_TOPIC_CONFIG)
                        for name, value in self.own.get(topic, {}).items()
                    ),
                ],
            )
            for topic in self._topics
        ]
        answer = DescribeConfigsResponse(throttle_time_ms=0, results=results)
        return memoryview(bytes(answer.encode(version=version)))


def _config(entry: Any, name: str, value: str, source: int) -> Any:
    return entry.DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=False,
        config_source=source,
        is_sensitive=False,
        synonyms=[],
        config_type=0,
        documentation=None,
    )


def reads(cluster: Cluster, **options: Any) -> ConfigReads:
    return ConfigReads(cast(ClusterClient, cluster), **options)


async def test_what_is_answered_as_before_is_the_same_object_and_what_changed_is_new() -> None:
    cluster = Cluster()
    cluster.own["a"] = {"segment.ms": "1"}
    reading = reads(cluster)
    first = await reading.read(["b", "a"])
    assert (first["a"].own, first["b"].own) == ({"segment.ms": "1"}, {})
    assert first["a"].effective == {"retention.ms": "7", "segment.ms": "1"}
    assert (await reading.read(["a", "b"]))["a"] is first["a"]
    cluster.own["a"] = {"segment.ms": "2"}
    assert (await reading.read(["a", "b"]))["a"].own == {"segment.ms": "2"}


async def test_many_topics_are_asked_in_portions_that_are_remembered_up_to_a_limit() -> None:
    cluster = Cluster()
    reading = reads(cluster, kept=2)
    topics = [f"t{number:03}" for number in range(250)]
    assert len(await reading.read(topics)) == 250
    assert [count for _, count in cluster.asked] == [100, 100, 50]
    assert len(reading._calls) == 2


async def test_a_broker_that_is_away_is_passed_over_and_all_of_them_away_is_told() -> None:
    cluster = Cluster(1, 2)
    cluster.problems[1] = Disconnected("gone")
    for _ in range(10):
        assert set(await reads(cluster).read(["a"])) == {"a"}
    cluster.problems[2] = Disconnected("gone, too")
    with pytest.raises(Disconnected):
        await reads(cluster).read(["a"])


async def test_brokers_that_tell_no_configs_are_no_trouble() -> None:
    cluster = Cluster()
    cluster.problems[1] = BrokerRefused("too old", code=ErrorCode.UNSUPPORTED_VERSION)
    assert await reads(cluster).read(["a"]) == {"a": UNTOLD}


def test_the_version_that_is_played_is_one_that_says_where_values_come_from() -> None:
    assert DescribeConfigsRequest.min_version <= VERSION <= DescribeConfigsRequest.max_version
