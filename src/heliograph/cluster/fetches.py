"""One Fetch request to one broker, for whoever needs records: the copier's stream or a single batch."""

from __future__ import annotations

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.messages import common_version
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.fetch import (
    FETCH_BY_ID_FROM,
    FETCH_FLEXIBLE_FROM,
    FETCH_VERSIONS,
    FetchReply,
    decode_fetch,
)
from heliograph.wire.fetch_request import FetchAsk, encode_fetch
from heliograph.wire.topic_ids import NO_NAMES


async def fetch(
    client: ClusterClient,
    node: int,
    purpose: str,
    ask: FetchAsk,
    *,
    min_bytes: int,
    max_bytes: int,
    max_wait_ms: int,
    read_committed: bool,
) -> FetchReply:
    """On the connection of this purpose; the answer's records are views into its one buffer."""
    connection = await client.connection(node, purpose)
    version = common_version(connection, ApiKey.FETCH, "Fetch", FETCH_VERSIONS)
    if ask.names is None:
        version = min(version, FETCH_BY_ID_FROM - 1)
    body = encode_fetch(
        version,
        ask,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        read_committed=read_committed,
    )
    answer = await connection.request(
        ApiKey.FETCH,
        version,
        [body],
        flexible=version >= FETCH_FLEXIBLE_FROM,
        timeout_ms=client.properties.request_timeout_ms + max_wait_ms,
    )
    return decode_fetch(version, answer, ask.names or NO_NAMES)
