"""A cluster reached in bounded time, or the reason why it cannot be."""

from __future__ import annotations

import asyncio

from heliograph.cluster.client import ClusterClient
from heliograph.model.errors import ClusterUnreachable

CONNECT_LIMIT_S = 12.0


async def reach(client: ClusterClient) -> None:
    """Connected on return. `ClusterUnreachable` names each address that was tried."""
    try:
        async with asyncio.timeout(CONNECT_LIMIT_S):
            await client.connect()
    except TimeoutError:
        servers = ", ".join(f"{host}:{port}" for host, port in client.properties.bootstrap_servers)
        raise ClusterUnreachable(
            f"cluster {client.name!r} cannot be reached: {servers} did not answer in {CONNECT_LIMIT_S:.0f} s",
            hint=f"check clusters.{client.name}.bootstrap.servers",
        ) from None
