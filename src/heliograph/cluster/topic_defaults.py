"""What a topic gets that says nothing itself: its brokers' defaults, under the names that topics have for them.

Owns how brokers spell these. Must not know which of them a mirror carries (controller/topic_config.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from kafka.protocol.admin import DescribeConfigsResponse

from heliograph.cluster.admin import BROKER_RESOURCE, BROKERS_AT_ONCE, configs_request
from heliograph.cluster.at_most import at_most
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.messages import raise_for, unpacking
from heliograph.model.errors import ProtocolError, RequestFailed

ANSWER_LIMIT_MS = 3000  # without an answer everything is set: a broker that hangs must not hold up a plan
BROKER_NAMES: Mapping[str, str] = {
    "cleanup.policy": "log.cleanup.policy",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "retention.bytes": "log.retention.bytes",
}
# The first that is set decides, and a negative one means for ever.
RETENTION_TIMES = (
    ("log.retention.ms", 1),
    ("log.retention.minutes", 60_000),
    ("log.retention.hours", 3_600_000),
)


async def read_topic_defaults(client: ClusterClient) -> Mapping[str, str]:
    """Those on which all brokers agree. None at all where one broker cannot be asked, or does not let us read them:
    what is missing here is not known."""

    async def read(node: int) -> Mapping[str, str]:
        try:
            return topic_defaults(await _read_configs(client, node))
        except (RequestFailed, ProtocolError):
            return {}

    answers = await at_most(BROKERS_AT_ONCE, (partial(read, node) for node in client.metadata.brokers))
    agreed = set.intersection(*(set(answer.items()) for answer in answers)) if answers else set()
    return dict(agreed)


def topic_defaults(broker: Mapping[str, str]) -> dict[str, str]:
    """From one broker's configs, by their own names."""
    defaults = {topic: broker[name] for topic, name in BROKER_NAMES.items() if name in broker}
    times = (int(broker[name]) * unit_ms for name, unit_ms in RETENTION_TIMES if name in broker)
    retention_ms = next(times, None)
    if retention_ms is not None:
        defaults["retention.ms"] = str(max(retention_ms, -1))
    return defaults


async def _read_configs(client: ClusterClient, node: int) -> dict[str, str]:
    """A broker's own configs must be asked of the broker itself."""
    keys = [*BROKER_NAMES.values(), *(name for name, _ in RETENTION_TIMES)]
    request = configs_request(BROKER_RESOURCE, [str(node)], keys)
    response = await client.call(node, request, DescribeConfigsResponse, timeout_ms=ANSWER_LIMIT_MS)
    what = f"configs of broker {node}"
    with unpacking(what):
        result = response.results[0]
        raise_for(int(result.error_code), what)
        return {config.name: config.value for config in result.configs if config.value is not None}
