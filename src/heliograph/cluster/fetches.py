"""One Fetch request to one broker, for whoever needs records: the copier's stream or a single batch.

Brokers before Kafka 0.10.1 (Fetch below version 3) know no limit for an answer as a whole, and cut a message that is
larger than its partition's limit. Both are made up for here: each partition is given its share of the limit, and a
message that was cut is asked for again, by itself and with its own size.
"""

from __future__ import annotations

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.connection import Connection
from heliograph.cluster.messages import common_version
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.cut_message import whole_bytes
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.fetch import (
    FETCH_BY_ID_FROM,
    FETCH_FLEXIBLE_FROM,
    FETCH_LIMITED_FROM,
    FETCH_VERSIONS,
    FetchedPartition,
    FetchReply,
    FetchWant,
    decode_fetch,
)
from heliograph.wire.fetch_request import FetchAsk, encode_fetch
from heliograph.wire.topic_ids import NO_NAMES

# Of a partition, where the limit is for all: less than a usual message would be asked for twice.
LEAST_SHARE_BYTES = 1 << 16
MOST_MESSAGE_BYTES = 64 << 20  # no answer may be larger (open_connection.py)


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
    """On the connection of this purpose; the answer's records are views into its one buffer, but for messages that had
    to be asked for again."""
    connection = await client.connection(node, purpose)
    version = common_version(connection, ApiKey.FETCH, "Fetch", FETCH_VERSIONS)
    if ask.names is None:
        version = min(version, FETCH_BY_ID_FROM - 1)
    if version < FETCH_LIMITED_FROM:
        return await _fetch_unlimited(
            client,
            connection,
            version,
            ask,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            max_wait_ms=max_wait_ms,
        )
    body = encode_fetch(
        version,
        ask,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        read_committed=read_committed,
    )
    return await _send(client, connection, version, body, ask, max_wait_ms)


async def _send(
    client: ClusterClient, connection: Connection, version: int, body: bytes, ask: FetchAsk, max_wait_ms: int
) -> FetchReply:
    answer = await connection.request(
        ApiKey.FETCH,
        version,
        [body],
        flexible=version >= FETCH_FLEXIBLE_FROM,
        timeout_ms=client.properties.request_timeout_ms + max_wait_ms,
    )
    return decode_fetch(version, answer, ask.names or NO_NAMES)


async def _fetch_unlimited(
    client: ClusterClient,
    connection: Connection,
    version: int,
    ask: FetchAsk,
    *,
    min_bytes: int,
    max_bytes: int,
    max_wait_ms: int,
) -> FetchReply:
    async def send(wants: list[FetchWant], least_bytes: int, wait_ms: int) -> FetchReply:
        asked = FetchAsk(wants, [])
        body = encode_fetch(
            version,
            asked,
            max_wait_ms=wait_ms,
            min_bytes=least_bytes,
            max_bytes=max_bytes,
            read_committed=False,
        )
        return await _send(client, connection, version, body, asked, wait_ms)

    shares = in_shares(ask.wants, max_bytes)
    reply = await send(shares, min_bytes, max_wait_ms)
    wants = {(want.topic, want.partition): want for want in shares}
    partitions: list[FetchedPartition] = []
    for fetched in reply.partitions:
        want = wants.get((fetched.topic, fetched.partition))
        while want is not None and (needed_bytes := whole_bytes(fetched.records)) is not None:
            if not want.max_bytes < needed_bytes <= MOST_MESSAGE_BYTES:
                # Too large to be read at all; or a broker that gives less than it was asked for.
                fetched = fetched._replace(error=int(ErrorCode.MESSAGE_TOO_LARGE), records=memoryview(b""))
                break
            want = want._replace(max_bytes=needed_bytes)
            again = await send([want], 0, 0)
            fetched = again.partitions[0] if again.partitions else fetched._replace(records=memoryview(b""))
        partitions.append(fetched)
    return reply._replace(partitions=partitions)


def in_shares(wants: list[FetchWant], max_bytes: int) -> list[FetchWant]:
    """Each with its part of a limit for all of them."""
    share = max(max_bytes // max(len(wants), 1), LEAST_SHARE_BYTES)
    return [want._replace(max_bytes=max(min(want.max_bytes, share), LEAST_SHARE_BYTES)) for want in wants]
