"""What a topic gets that says nothing, from what its brokers say of themselves; and what is a topic's own."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka.protocol.admin import DescribeConfigsResponse

from heliograph.cluster.admin import describe_topic_configs
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.topic_defaults import read_topic_defaults, topic_defaults
from heliograph.model.errors import Disconnected
from heliograph.wire.error_codes import ErrorCode

HOUR_MS = 3_600_000
BROKER = {"log.retention.hours": "168", "log.retention.bytes": "-1", "log.cleanup.policy": "delete"}
DEFAULTS = {"retention.ms": str(168 * HOUR_MS), "retention.bytes": "-1", "cleanup.policy": "delete"}

Said = Mapping[str, str | None] | int | Exception  # configs, an error code, or no answer


@pytest.mark.parametrize(
    ("times", "retention_ms"),
    [
        ({"hours": "24"}, 24 * HOUR_MS),
        ({"hours": "24", "minutes": "10"}, 600_000),
        ({"hours": "24", "minutes": "10", "ms": "5"}, 5),
        ({"hours": "24", "ms": "-1"}, -1),
        ({"hours": "-1"}, -1),
    ],
)
def test_of_three_retention_times_the_finest_that_is_set_decides(
    times: dict[str, str], retention_ms: int
) -> None:
    broker = {f"log.retention.{unit}": value for unit, value in times.items()}
    assert topic_defaults(broker) == {"retention.ms": str(retention_ms)}


def cluster(*brokers: Said) -> ClusterClient:
    async def call(node: int, request: Any, _response: Any, **_: Any) -> Any:
        (asked,) = request.resources
        assert asked.resource_name == str(node)
        said = brokers[node]
        if isinstance(said, Exception):
            raise said
        code, values = (said, {}) if isinstance(said, int) else (0, said)
        configs = [SimpleNamespace(name=name, value=value) for name, value in values.items()]
        return SimpleNamespace(results=[SimpleNamespace(error_code=code, configs=configs)])

    metadata = SimpleNamespace(brokers=dict.fromkeys(range(len(brokers))))
    return cast(ClusterClient, SimpleNamespace(metadata=metadata, call=call))


async def test_what_all_brokers_agree_on_is_a_default() -> None:
    unset = {**BROKER, "log.retention.ms": None, "log.retention.minutes": None}
    assert await read_topic_defaults(cluster(unset, BROKER)) == DEFAULTS
    other = await read_topic_defaults(cluster(BROKER, {**BROKER, "log.retention.ms": "5"}))
    assert other == {key: value for key, value in DEFAULTS.items() if key != "retention.ms"}


@pytest.mark.parametrize("said", [int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED), Disconnected("it is gone")])
async def test_nothing_is_known_where_a_broker_does_not_tell(said: Said) -> None:
    assert await read_topic_defaults(cluster(BROKER, said)) == {}
    assert await read_topic_defaults(cluster()) == {}


@pytest.mark.parametrize("version", [0, 1, 4])
async def test_what_is_set_on_a_topic_is_its_own_also_where_brokers_only_say_what_is_a_default(
    version: int,
) -> None:
    result = DescribeConfigsResponse.DescribeConfigsResult
    config = result.DescribeConfigsResourceResult

    def said(name: str, *, own: bool) -> Any:
        origin = {"is_default": not own} if version == 0 else {"config_source": 1 if own else 4}
        return config(name=name, value="1", read_only=False, is_sensitive=False, synonyms=[], **origin)

    topic = result(
        error_code=0,
        error_message=None,
        resource_type=2,
        resource_name="orders",
        configs=[said("retention.ms", own=True), said("segment.bytes", own=False)],
    )
    encoded = DescribeConfigsResponse(throttle_time_ms=0, results=[topic]).encode(version=version)

    async def call(*_: Any, **__: Any) -> Any:
        return DescribeConfigsResponse.decode(encoded, version=version)

    metadata = SimpleNamespace(brokers={0: None})
    client = cast(ClusterClient, SimpleNamespace(metadata=metadata, call=call))
    found = (await describe_topic_configs(client, ["orders"]))["orders"]
    assert found.own == {"retention.ms": "1"}
    assert found.effective == {"retention.ms": "1", "segment.bytes": "1"}
