"""A quota on what the mirror may read of each broker, or write to it: as slow on a quick machine as on a slow one.

Owns the quota of the mirror's own client id on one cluster. Must not know why the copy has to take its time.
"""

from __future__ import annotations

import asyncio

from kafka.protocol.admin import AlterClientQuotasRequest, AlterClientQuotasResponse

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.properties import ClientProperties, parse_properties

READ, WRITE = "consumer_byte_rate", "producer_byte_rate"


def set_read_quota(bootstrap: str, bytes_per_s: float | None) -> None:
    """For each broker and second; None takes it away."""
    asyncio.run(_alter(bootstrap, READ, bytes_per_s))


def set_write_quota(bootstrap: str, bytes_per_s: float | None) -> None:
    asyncio.run(_alter(bootstrap, WRITE, bytes_per_s))


async def _alter(bootstrap: str, rate: str, bytes_per_s: float | None) -> None:
    entry = AlterClientQuotasRequest.EntryData
    mirror = entry.EntityData(
        entity_type="client-id",
        entity_name=ClientProperties(bootstrap_servers=()).client_id,
    )
    change = entry.OpData(key=rate, value=bytes_per_s or 0.0, remove=bytes_per_s is None)
    request = AlterClientQuotasRequest(entries=[entry(entity=[mirror], ops=[change])], validate_only=False)
    client = ClusterClient("quota", parse_properties({"bootstrap.servers": bootstrap, "client.id": "quota"}))
    try:
        await client.connect()
        node = min(client.metadata.brokers)
        response = await client.call(node, request, AlterClientQuotasResponse)
        assert [each.error_code for each in response.entries] == [0], response
    finally:
        await client.aclose()
