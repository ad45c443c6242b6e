"""Configs of many topics, read again and again; they hardly ever change.

Asked in portions, of which each remembers its last answer: what is said as before is not decoded again, and is the same
object. Must not know what the configs are for.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

from kafka.protocol.admin import DescribeConfigsResponse

from heliograph.cluster.admin import (
    TOPIC_RESOURCE,
    UNTOLD,
    TopicConfig,
    configs_request,
    in_portions,
    read_configs,
)
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.repeated_call import RepeatedCall
from heliograph.model.errors import BrokerRefused, Disconnected, RequestFailed
from heliograph.wire.error_codes import ErrorCode

Configs = Mapping[str, TopicConfig]
KEPT = 128  # portions of 100 topics: some 3 KB each topic


class ConfigReads:
    """Of one cluster. `kept`: how many portions are remembered."""

    def __init__(self, client: ClusterClient, *, kept: int = KEPT) -> None:
        self._client = client
        self._kept = kept
        self._calls: dict[tuple[str, ...], RepeatedCall[Configs]] = {}

    async def read(self, topics: Iterable[str]) -> Configs:
        """By topic. Who is given it must not change it."""
        found: dict[str, TopicConfig] = {}
        for names in in_portions(topics):
            found |= await self._read(tuple(names))
        return found

    async def _read(self, names: tuple[str, ...]) -> Configs:
        call = self._calls.pop(names, None) or RepeatedCall(DescribeConfigsResponse, read_configs)
        self._calls[names] = call  # the last one
        if len(self._calls) > self._kept:
            del self._calls[next(iter(self._calls))]
        try:
            return await self._ask(call, names)
        except BrokerRefused as refused:
            if refused.code != ErrorCode.UNSUPPORTED_VERSION:
                raise
            return dict.fromkeys(names, UNTOLD)

    async def _ask(self, call: RepeatedCall[Configs], names: tuple[str, ...]) -> Configs:
        """One broker after another, not always the same one first: it may be the one that hangs."""
        client, problem = self._client, None
        nodes = sorted(client.metadata.brokers)
        for node in random.sample(nodes, len(nodes)):
            try:
                return await client.call_again(
                    node, call, names, lambda: configs_request(TOPIC_RESOURCE, names, None)
                )
            except RequestFailed as failed:
                problem = failed
        raise problem or Disconnected(f"no broker of cluster {client.name!r} is known")
