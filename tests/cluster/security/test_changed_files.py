"""Files of certificates that change while a client has connections: the next one is opened with what they hold then."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.metadata import Broker, ClusterMetadata
from heliograph.cluster.security.settings import (
    KeyStore,
    Security,
    SecurityProtocol,
    StoreKind,
    TlsSettings,
    TrustStore,
)
from heliograph.cluster.security.tls_context import LOOK_INTERVAL_S
from heliograph.model.errors import SecurityFailed
from tests.cluster.peers import peer, properties_for
from tests.support.certificates import write_pem

from .sasl_peer import SaslPeer
from .tls_ends import HOST, authority, server_context

NODE = 1


class Scene:
    """A broker that demands a certificate, and a client of it. `shown`: the serial number of each that it was shown."""

    def __init__(self, directory: Path) -> None:
        self.trust = write_pem(directory / "trust.pem", trusted=[authority()])
        self.identity = directory / "client.pem"
        self.shown: list[int] = []
        self.told: list[SecurityFailed] = []
        self.renew()

    def renew(self) -> int:
        """The client's file gets another certificate; its serial number."""
        issued = authority().issue(["mirror"], client=True)
        write_pem(self.identity, issued=issued)
        return issued.certificates[0].serial_number

    def client(self, port: int) -> ClusterClient:
        trust = TrustStore(kind=StoreKind.PEM, location=str(self.trust))
        identity = KeyStore(kind=StoreKind.PEM, location=str(self.identity))
        tls = TlsSettings(trust=trust, identity=identity)
        security = Security(protocol=SecurityProtocol.SSL, tls=tls)
        client = ClusterClient("sf", properties_for(port, security=security))
        brokers = {NODE: Broker(NODE, HOST, port)}
        client.metadata = ClusterMetadata(cluster_id="sf-id", controller=NODE, brokers=brokers)
        client.on_refused = self.told.append
        return client

    async def behave(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        certificate = writer.get_extra_info("peercert")
        self.shown.append(int(certificate["serialNumber"], 16))
        await SaslPeer().behave(reader, writer)


@asynccontextmanager
async def connected(scene: Scene) -> AsyncIterator[ClusterClient]:
    context = server_context()
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority().certificate_pem.decode())
    async with peer(scene.behave, context) as port:
        client = scene.client(port)
        await client.connection(NODE, "before")
        yield client
        await client.aclose()


async def test_a_renewed_certificate_is_shown_by_the_next_connection(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    first = scene.renew()
    async with connected(scene) as client:
        second = scene.renew()
        await asyncio.sleep(LOOK_INTERVAL_S)
        before = await client.connection(NODE, "before")
        await client.connection(NODE, "after")
        assert not before.closed
    assert scene.shown == [first, second]
    assert not scene.told


async def test_a_changed_file_that_is_of_no_use_is_told_and_what_it_held_before_stays_in_use(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    first = scene.renew()
    async with connected(scene) as client:
        scene.identity.write_text("not a certificate")
        await asyncio.sleep(LOOK_INTERVAL_S)
        for purpose in ("after", "and after that"):
            await client.connection(NODE, purpose)
    assert scene.shown == [first] * 3
    (problem,) = scene.told
    assert str(scene.identity) in problem.message
    assert "stays in use" in problem.message
    assert problem.hint
