"""Which versions of which APIs a broker speaks: it is asked, or, where it is too old to answer, a release is assumed.

Brokers before Kafka 0.10 do not know the question (ApiVersions): they close the connection, or say nothing. Then the
property `broker.version.fallback` names the release whose versions to use.

Owns how a connection becomes one whose versions are known. Must not know what is asked over it.
"""

from __future__ import annotations

import asyncio

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from heliograph.cluster.bootstrap_servers import Address
from heliograph.cluster.connection import Connection
from heliograph.cluster.messages import call, raise_for, unpacking
from heliograph.cluster.open_connection import open_connection
from heliograph.cluster.properties import ClientProperties
from heliograph.cluster.security.cluster_locks import ClusterLocks
from heliograph.model.errors import Disconnected, RequestTimedOut
from heliograph.wire.api_keys import ApiKey

Versions = dict[int, tuple[int, int]]

# Of a broker that says nothing at all; one that knows the question answers in milliseconds.
MUTE_AFTER_MS = 3_000
MUTE_LASTS_S = 300.0  # then it is asked again: it may have been upgraded
# A broker that stops or starts closes connections, too. One that is taken for an older release than it has gives
# records without their timestamps, so it is asked twice; and one that has answered once is never taken for another.
ASKED_BEFORE_ASSUMED = 2

# What a source is asked, in the versions of each release.
_RELEASES: tuple[tuple[tuple[int, ...], Versions], ...] = (
    ((0, 8), {ApiKey.FETCH: (0, 0), ApiKey.LIST_OFFSETS: (0, 0), ApiKey.METADATA: (0, 0)}),
    ((0, 9), {ApiKey.FETCH: (0, 1), ApiKey.LIST_OFFSETS: (0, 0), ApiKey.METADATA: (0, 0)}),
    ((0, 10), {ApiKey.FETCH: (0, 2), ApiKey.LIST_OFFSETS: (0, 0), ApiKey.METADATA: (0, 1)}),
)


def versions_of(release: str) -> Versions:
    """Those that a broker of this release speaks at least. `release`: as `broker.version.fallback` has it."""
    number = tuple(map(int, release.split(".")))
    return dict([versions for since, versions in _RELEASES if since <= number][-1])


class BrokerVersions:
    """Of one cluster."""

    def __init__(self, properties: ClientProperties, locks: ClusterLocks) -> None:
        self._properties = properties
        self._locks = locks
        self._fallback = properties.broker_version_fallback
        self._mute: dict[Address, float] = {}  # by address: until when it is not asked again
        self._answered: set[Address] = set()

    async def open(self, host: str, port: int, *, unacknowledged_ms: int = 0) -> Connection:
        """A connection whose API versions are known, or the reason why there is none."""
        address = (host, port)
        loop = asyncio.get_running_loop()
        if self._mute.get(address, 0.0) <= loop.time():
            connection = await self._answering(address, unacknowledged_ms)
            if connection is not None:
                return connection
            self._mute[address] = loop.time() + MUTE_LASTS_S
        assumed = await self._connect(address, unacknowledged_ms)
        assumed.versions = versions_of(self._fallback)
        return assumed

    async def _answering(self, address: Address, unacknowledged_ms: int) -> Connection | None:
        """None: it does not answer, and may be taken for the fallback."""
        may_assume = bool(self._fallback) and address not in self._answered
        for _ in range(ASKED_BEFORE_ASSUMED):
            connection = await self._connect(address, unacknowledged_ms)
            try:
                connection.versions = await self._ask(connection)
            except (Disconnected, RequestTimedOut) as failed:
                connection.close()
                if not may_assume:
                    raise _without_fallback(failed) from failed
                if isinstance(failed, RequestTimedOut):
                    return None  # that took long enough
            except BaseException:  # also when nobody waits for it any more
                connection.close()
                raise
            else:
                self._answered.add(address)
                return connection
        return None

    async def _connect(self, address: Address, unacknowledged_ms: int) -> Connection:
        tls = await self._locks.tls(address[0])
        return await open_connection(*address, self._properties, tls=tls, unacknowledged_ms=unacknowledged_ms)

    async def _ask(self, connection: Connection) -> Versions:
        # Version 0 is offered by every broker since 0.10 and its answer's layout never changed.
        connection.versions = {ApiKey.API_VERSIONS: (0, 0)}
        timeout_ms = min(
            self._properties.socket_connection_setup_timeout_ms, self._properties.request_timeout_ms
        )
        if self._fallback:
            timeout_ms = min(timeout_ms, MUTE_AFTER_MS)
        response = await call(connection, ApiVersionsRequest(), ApiVersionsResponse, timeout_ms=timeout_ms)
        raise_for(response.error_code, f"{connection.address} ApiVersions")
        with unpacking(f"versions from {connection.address}"):
            return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}


def _without_fallback(failed: Disconnected | RequestTimedOut) -> Disconnected | RequestTimedOut:
    words = f"{failed.message}, asked for the versions that it speaks"
    hint = (
        failed.hint
        or "if its brokers are older than Kafka 0.10, set broker.version.fallback and cluster.id (docs/VERSIONS.md)"
    )
    return type(failed)(words, hint=hint)
