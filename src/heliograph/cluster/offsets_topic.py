"""Whether a cluster's groups can work: its offsets topic, which it makes by itself when the first group is looked for.

It cannot make it with more replicas than it has brokers. Then no group finds its coordinator, ever, and nothing but the
controller's log says why. Reads only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from heliograph.cluster.admin import BROKERS_AT_ONCE, read_broker_configs
from heliograph.cluster.at_most import at_most
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.registered_brokers import read_registered_brokers
from heliograph.cluster.rights import read_topic_rights
from heliograph.model.errors import RequestFailed
from heliograph.wire.error_codes import ErrorCode

OFFSETS_TOPIC = "__consumer_offsets"
REPLICATION_FACTOR = "offsets.topic.replication.factor"
_EXISTENCE: dict[int, bool] = {0: True, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: False}


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsTopic:
    """`exists` None: this client may not see it. `brokers`: all that are registered, as far as brokers tell (from 4.0
    on also those that are down)."""

    replication_factor: int
    exists: bool | None
    brokers: int

    @property
    def can_be_made(self) -> bool:
        return self.replication_factor <= self.brokers


async def read_offsets_topic(client: ClusterClient) -> OffsetsTopic | None:
    """None: no broker lets us read its configs."""
    nodes = client.metadata.brokers
    answers = await at_most(BROKERS_AT_ONCE, (partial(_read_factor, client, node) for node in nodes))
    factors = [factor for factor in answers if factor is not None]
    if not factors:
        return None
    # Whichever broker is asked for a coordinator first makes the topic, by its own config.
    factor = max(factors)
    if factor <= len(nodes):
        return OffsetsTopic(replication_factor=factor, exists=None, brokers=len(nodes))
    seen = (await read_topic_rights(client, [OFFSETS_TOPIC]))[OFFSETS_TOPIC]
    registered = await read_registered_brokers(client)
    return OffsetsTopic(replication_factor=factor, exists=_EXISTENCE.get(seen.error), brokers=registered)


async def _read_factor(client: ClusterClient, node: int) -> int | None:
    try:
        values = await read_broker_configs(client, node, [REPLICATION_FACTOR])
    except RequestFailed:
        return None
    return int(values[REPLICATION_FACTOR]) if REPLICATION_FACTOR in values else None
