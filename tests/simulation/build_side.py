"""In the place of cluster/admin.py and controller/cleaning.py, for topics that are built: settings that are changed,
and whether brokers have removed the fillers. What follows from it is production's (controller/builds.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from heliograph.cluster.admin import TopicConfig
from heliograph.cluster.client import ClusterClient
from heliograph.controller.cleaning import Cleaning
from heliograph.model.errors import BrokerRefused
from heliograph.wire.error_codes import ErrorCode

from .log_cleaner import holds_filler
from .sim_client import NOWHERE, SimClient

LOOK_S = 0.5


async def alter_topic_configs(
    client: ClusterClient, topic: str, changes: Mapping[str, str | None], *, validate_only: bool = False
) -> None:
    """All brokers have them at once, and refuse none."""
    sim = cast(SimClient, client)
    found = sim.cluster.topics[topic]

    def alter() -> None:
        if not found.exists:
            raise BrokerRefused(f"no topic {topic}", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not validate_only:
            sim.cluster.world.tell("topic", topic, "is set to", changes)
            found.alter(changes)
            sim.cluster.world.settings_changed(found)

    nodes = sim.cluster.answering
    await sim.ask(nodes[0] if nodes else NOWHERE, alter)


async def describe_topic_configs(client: ClusterClient, topics: Sequence[str]) -> dict[str, TopicConfig]:
    sim = cast(SimClient, client)
    nodes = sim.cluster.answering
    found: dict[str, dict[str, str]] = await sim.ask(
        nodes[0] if nodes else NOWHERE, lambda: {topic: sim.cluster.topics[topic].configs for topic in topics}
    )
    return {topic: TopicConfig(own=configs, effective=configs) for topic, configs in found.items()}


class SimCleaning:
    """Every replica of every partition is asked, at its broker."""

    def __init__(self, client: ClusterClient, topic: str, *_what: Any) -> None:
        self._client = cast(SimClient, client)
        self._topic = self._client.cluster.topics[topic]

    async def prepare(self) -> None:
        return

    async def until_clean(self, show: Callable[[int, int], None], *_told: Any) -> bool:
        while True:
            dirty = 0
            for number in range(len(self._topic.logs)):
                nodes = self._nodes(number)
                clean = [
                    await self._client.ask(node, partial(self._is_clean, number, node)) for node in nodes
                ]
                show(number, sum(clean))
                dirty += not all(clean)
            if not dirty:
                return True
            await asyncio.sleep(LOOK_S)

    def _nodes(self, number: int) -> list[int]:
        partition = self._topic.logs[number].partition
        return list(partition.replicas) if partition is not None else []

    def _is_clean(self, number: int, node: int) -> bool:
        partition = self._topic.logs[number].partition
        return partition is None or not any(map(holds_filler, partition.replicas[node].batches))


def make_cleaning(client: ClusterClient, topic: str, *what: Any) -> Cleaning:
    return cast(Cleaning, SimCleaning(client, topic, *what))
