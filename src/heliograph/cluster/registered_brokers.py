"""How many brokers a cluster has, those that are down among them.

A topic may have as many replicas as brokers are registered: one that is down gets its own when it is back. Metadata
shows only those that are up. Reads only.
"""

from __future__ import annotations

from kafka.protocol.admin import DescribeClusterRequest, DescribeClusterResponse

from heliograph.cluster.admin import call_any
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.messages import raise_for, unpacking
from heliograph.cluster.rights import BROKER_ENDPOINT
from heliograph.model.errors import ProtocolError, RequestFailed


async def read_registered_brokers(client: ClusterClient) -> int:
    """As far as brokers tell: from 4.0 on also those that are down."""
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False,
        endpoint_type=BROKER_ENDPOINT,
        include_fenced_brokers=True,
    )
    response = await call_any(client, request, DescribeClusterResponse)
    with unpacking("brokers of the cluster"):
        raise_for(int(response.error_code), "brokers of the cluster")
        return len(response.brokers)


async def brokers_for(client: ClusterClient, replicas: int) -> int:
    """Asked only where fewer are up than one topic is to have replicas; those that are up count where nobody tells."""
    up = len(client.metadata.brokers)
    if up >= replicas:
        return up
    try:
        return max(up, await read_registered_brokers(client))
    except (RequestFailed, ProtocolError):
        return up
