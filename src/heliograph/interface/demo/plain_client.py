"""One connection to the only broker of a lab cluster, for writing batches; shared by the backlog and the live records.

kafka-python's own producer and consumer take 0.8 of a core for 500 live records a second, and 60 ms at the 99th
percentile with no mirror between them: they would measure themselves. So records travel by Heliograph's connections,
in batches that kafka-python's builder makes and its parser reads.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from heliograph.cluster.batch_target import AppendLine, BatchTarget
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.line_name import LineName
from heliograph.cluster.properties import parse_properties
from heliograph.interface.demo.workload import TOPICS
from heliograph.model.errors import BrokerRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainClient:
    client: ClusterClient
    node: int
    line: AppendLine


@asynccontextmanager
async def connected(name: str, bootstrap_servers: str) -> AsyncIterator[PlainClient]:
    client = ClusterClient(name, parse_properties({"bootstrap.servers": bootstrap_servers}))
    client.follow(TOPICS)
    await client.connect()
    try:
        (node,) = client.metadata.brokers
        line = await BatchTarget(client, "demo").line_to(node, LineName(0))
        yield PlainClient(client=client, node=node, line=line)
    finally:
        await client.aclose()


def refused(line: AppendLine, answer: memoryview, allowed: Sequence[int] = ()) -> set[tuple[str, int]]:
    """The partitions whose batch was refused with an error that is allowed; any other raises."""
    found = [each for each in line.decode(answer).partitions if each.error]
    for each in found:
        if each.error not in allowed:
            raise BrokerRefused(f"{each.topic}:{each.partition}: {each.message}", code=each.error)
    return {(each.topic, each.partition) for each in found}
