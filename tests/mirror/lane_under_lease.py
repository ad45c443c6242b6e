"""A lane in a process of its own, to be frozen: `python -m tests.mirror.lane_under_lease PORT LASTS_S [TRUSTSTORE]`.

It copies fresh records from a cluster in memory to whatever listens at the port, over real connections and under a real
lease, which it renews by itself until a line comes in. Then it says until when the lease lasts, and renews no more.
It never looks whether its lease has lapsed: what must not leave then is the connection's to keep back. With a
truststore, in PEM, it speaks TLS.
"""

from __future__ import annotations

import asyncio
import sys

import uvloop

from heliograph.cluster.batch_target import AppendLine, BatchTarget
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.flight import flight_s
from heliograph.cluster.line_name import LineName
from heliograph.cluster.metadata import Broker, ClusterMetadata
from heliograph.cluster.properties import ClientProperties
from heliograph.cluster.security.settings import (
    NO_SECURITY,
    Security,
    SecurityProtocol,
    StoreKind,
    TlsSettings,
    TrustStore,
)
from heliograph.copier.lane import Lane
from heliograph.copier.lease import ALIVE_S, Lease
from heliograph.copier.workers import LaneLink
from heliograph.model.clock import clock_of_suspended_time
from tests.copier.lane_world import LINK, mirror, place, write
from tests.copier.memory_cluster import MemoryCluster
from tests.copier.source_batches import spec_of

NODE = 1
PARTITIONS = 4
BATCHES = 60  # of 250 to 750 KB: more than the peer reads before the freeze
RENEWED_EVERY_S = 0.1


class TargetWithLines(MemoryCluster):
    """Answers questions from memory (nothing is there yet); its lines are real."""

    def __init__(self, port: int, properties: ClientProperties) -> None:
        super().__init__()
        client = ClusterClient("target", properties)
        brokers = {NODE: Broker(NODE, "127.0.0.1", port)}
        client.metadata = ClusterMetadata(cluster_id="nyc-id", controller=NODE, brokers=brokers)
        self._real = BatchTarget(client, LINK)

    async def line_to(self, node: int, name: LineName) -> AppendLine:  # type: ignore[override]
        return await self._real.line_to(node, name)


def security_of(truststore: str) -> Security:
    tls = TlsSettings(trust=TrustStore(kind=StoreKind.PEM, location=truststore))
    return Security(protocol=SecurityProtocol.SSL, tls=tls)


async def copy(port: int, lasts_s: float, security: Security) -> None:
    properties = ClientProperties(
        bootstrap_servers=(("127.0.0.1", port),),
        send_buffer_bytes=1 << 16,
        max_request_size=1 << 21,
        security=security,
    )
    source, target, lease = MemoryCluster(), TargetWithLines(port, properties), Lease()
    lane = Lane(64 << 20, _fail)
    lane.link(LINK, LaneLink(source, target, properties, properties, lease, flight_s=flight_s(properties)))
    for partition in range(PARTITIONS):
        write(source.create(place(partition)), BATCHES, value_bytes=250_000)
        target.create(place(partition))
        lane.assign(spec_of(mirror(partition)))
    told = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    while not told.done():
        # As if the driver's last word were that old: then the lease lasts no longer than this.
        asked_at = clock_of_suspended_time() + lasts_s - ALIVE_S
        lane.renew(LINK, asked_at, 0)
        await asyncio.wait([told], timeout=RENEWED_EVERY_S)
    sys.stdout.write(f"{asked_at + ALIVE_S}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


def _fail(problem: BaseException) -> None:
    raise problem


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        port, lasts_s, *truststore = sys.argv[1:]
        runner.run(copy(int(port), float(lasts_s), security_of(truststore[0]) if truststore else NO_SECURITY))
