"""Act: do what the plan says to the target cluster before lanes copy into it."""

from __future__ import annotations

import asyncio
import contextlib
import re
from dataclasses import dataclass

from heliograph.cluster.admin import add_partitions, create_topic
from heliograph.cluster.client import ClusterClient
from heliograph.controller.build_settings import is_build_setting
from heliograph.controller.plan import AddPartitions, CreateTopic
from heliograph.model.errors import BrokerRefused, ProtocolError, RequestFailed
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

LEADERS_TIMEOUT_S = 15.0
LEADERS_POLL_S = 0.1
_UNKNOWN_CONFIG = re.compile(r"[Uu]nknown (?:topic )?config(?:uration)? (?:name|key)?:? ?'?([\w.]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """`new`: nobody else had created the topic meanwhile."""

    new: bool
    warnings: tuple[str, ...] = ()


async def create(client: ClusterClient, creation: CreateTopic) -> Made:
    """Create the topic and wait for its leaders. Configs the target does not know are left out, with a
    warning, but for those that a compacted topic is built with."""
    configs, warnings = dict(creation.shape.configs), []
    while True:
        try:
            new = await create_topic(
                client,
                creation.topic,
                partitions=creation.shape.partitions,
                replication_factor=creation.shape.replication_factor,
                configs=configs,
            )
            break
        except BrokerRefused as refused:
            unknown = _unknown_config(refused)
            if unknown not in configs or (creation.builds and is_build_setting(unknown)):
                raise
            warnings.append(f"{creation.topic}: the target does not know the config {unknown}: left out")
            del configs[unknown]
    await _await_leaders(client, creation.topic, creation.shape.partitions, new=new)
    return Made(new=new, warnings=tuple(warnings))


def _unknown_config(refused: BrokerRefused) -> str:
    found = _UNKNOWN_CONFIG.search(refused.message)
    return found.group(1) if refused.code == ErrorCode.INVALID_CONFIG and found else ""


async def grow(client: ClusterClient, growth: AddPartitions) -> bool:
    """Add partitions and wait for their leaders. False: somebody else has added them."""
    new = await add_partitions(client, growth.topic, growth.to)
    await _await_leaders(client, growth.topic, growth.to, new=new)
    return new


async def _await_leaders(client: ClusterClient, topic: str, count: int, *, new: bool) -> None:
    """Of a topic that somebody else has made: of the partitions that it has."""
    client.follow([topic])
    if not new:
        with contextlib.suppress(RequestFailed, ProtocolError):
            await client.refresh()
        known = client.metadata.topics.get(topic)
        count = len(known.leaders) if known is not None and known.leaders else count
    partitions = [TopicPartition(topic, p) for p in range(count)]
    problem: RequestFailed | ProtocolError | None = None
    try:
        async with asyncio.timeout(LEADERS_TIMEOUT_S):
            while not all(client.leader(where) for where in partitions):
                try:
                    await client.refresh()
                    problem = None
                except (RequestFailed, ProtocolError) as failed:
                    problem = failed
                await asyncio.sleep(LEADERS_POLL_S)
    except TimeoutError:
        raise problem or BrokerRefused(
            f"topic {topic} was created but has no leaders after {LEADERS_TIMEOUT_S:.0f} s",
            code=ErrorCode.LEADER_NOT_AVAILABLE,
        ) from None
