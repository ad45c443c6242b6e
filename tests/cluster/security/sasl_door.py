"""The way in to a played broker that asks who we are, as a cluster's client takes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from heliograph.cluster.broker_versions import BrokerVersions
from heliograph.cluster.connection import Connection
from heliograph.cluster.gate import Permit
from heliograph.cluster.security.attempts import Attempts
from heliograph.cluster.security.cluster_locks import ClusterLocks
from heliograph.cluster.security.settings import (
    KerberosSettings,
    SaslMechanism,
    SaslSettings,
    Security,
    SecurityProtocol,
)
from tests.cluster.peers import peer, properties_for

from .sasl_peer import OTHER_API, SaslPeer

PASSWORD = "open-sesame-4711"
ALICE = SaslSettings(mechanism=SaslMechanism.PLAIN, username="alice", password=PASSWORD)
BOB = SaslSettings(mechanism=SaslMechanism.PLAIN, username="bob", password="another-4712")
SCRAM = SaslSettings(mechanism=SaslMechanism.SCRAM_SHA_256, username="alice", password=PASSWORD)
KERBEROS = SaslSettings(mechanism=SaslMechanism.GSSAPI, kerberos=KerberosSettings(service_name="kafka"))


def secured(sasl: SaslSettings) -> Security:
    return Security(protocol=SecurityProtocol.SASL_PLAINTEXT, sasl=sasl)


class Door:
    """Opens connections to one played broker as a cluster's client does. `choices`: of its locks."""

    def __init__(self, port: int, sasl: SaslSettings, **choices: Any) -> None:
        self.port = port
        chosen = {"timeout_ms": 500, "attempts": Attempts(), **choices}
        self.locks = ClusterLocks(secured(sasl), **chosen)
        self._versions = BrokerVersions(properties_for(port, security=secured(sasl)), self.locks)

    async def open(self) -> Connection:
        connection = await self._versions.open("127.0.0.1", self.port)
        try:
            await self.locks.authenticate(connection, "127.0.0.1")
        except BaseException:
            connection.close()
            raise
        return connection


@asynccontextmanager
async def door(broker: SaslPeer, sasl: SaslSettings = ALICE, **choices: Any) -> AsyncIterator[Door]:
    async with peer(broker.behave) as port:
        opened = Door(port, sasl, **choices)
        yield opened
        await opened.locks.aclose()


def ask(
    connection: Connection, body: bytes, *, permit: Permit | None = None, timeout_ms: int = 2000
) -> asyncio.Future[memoryview]:
    return connection.request(OTHER_API, 0, [body], flexible=False, timeout_ms=timeout_ms, permit=permit)


async def until(happened: Callable[[], bool], limit_s: float = 2.0) -> None:
    """For what sets no event."""
    async with asyncio.timeout(limit_s):
        while not happened():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
