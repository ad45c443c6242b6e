"""A connection under TLS against peers on loopback: whole frames both ways, one clear error for each way to fail."""

from __future__ import annotations

import asyncio
import ssl
import time

import pytest

from heliograph.cluster.connection import Connection
from heliograph.cluster.open_connection import open_connection
from heliograph.cluster.security.settings import KeyStore, StoreKind, TlsSettings, TrustStore
from heliograph.cluster.security.tls_stream import HANDSHAKE_LIMIT_BYTES, TlsStream
from heliograph.model.errors import Disconnected, HeliographError, SecurityFailed
from tests.cluster.peers import Behaviour, close_at_once, echo, never_answer, peer, properties_for
from tests.support.certificates import Authority

from .tls_ends import HOST, TlsEnds, authority, client_context, identify, refusing_server, server_context

TRUST = TlsSettings(trust=TrustStore(kind=StoreKind.PEM, location="/etc/mirror/ca.pem"))


async def connected(port: int, stream: TlsStream, **changed: int) -> Connection:
    return await open_connection(HOST, port, properties_for(port, **changed), tls=stream)


def ask(connection: Connection, body: bytes, timeout_ms: int = 5000) -> asyncio.Future[memoryview]:
    return connection.request(18, 0, [body[:7], memoryview(body)[7:]], flexible=False, timeout_ms=timeout_ms)


async def failure(
    server: ssl.SSLContext | None,
    client: ssl.SSLContext,
    settings: TlsSettings = TRUST,
    behaviour: Behaviour = never_answer,
    host: str = HOST,
) -> HeliographError:
    """What opening a connection and asking once ends in."""
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # the peer's own complaints
    async with peer(behaviour, server) as port:
        return await failure_at(port, client, settings, host)


async def failure_at(
    port: int, client: ssl.SSLContext, settings: TlsSettings = TRUST, host: str = HOST
) -> HeliographError:
    async def open_and_ask() -> None:
        await ask(await connected(port, TlsStream(client, settings, host)), b"anybody there?")

    with pytest.raises(HeliographError) as raised:
        await open_and_ask()
    assert f"{HOST}:{port}" in raised.value.message
    return raised.value


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("size", [1, 16_384, 16_385, 5_000_000])
async def test_frames_of_any_size_pass_both_ways(version: ssl.TLSVersion, size: int) -> None:
    server = server_context()
    server.maximum_version = server.minimum_version = version
    async with peer(echo, server) as port:
        connection = await connected(port, TlsEnds.made().stream())
        bodies = [bytes([n]) * size for n in range(5)]
        answers = [ask(connection, body) for body in bodies]
        for body, answered in zip(bodies, answers, strict=True):
            assert bytes(await answered) == body
        connection.close()


async def test_connections_share_the_room_for_sealed_bytes_and_not_what_is_in_it() -> None:
    async with peer(echo, server_context()) as port:
        lines = [await connected(port, TlsEnds.made().stream()) for _ in range(4)]
        bodies = [bytes([at]) * 1_000_000 for at in range(len(lines))]
        answers = [ask(line, body) for _ in range(5) for line, body in zip(lines, bodies, strict=True)]
        for at, answered in enumerate(answers):
            assert bytes(await answered) == bodies[at % len(lines)]
        for line in lines:
            line.close()


async def test_an_authority_that_is_not_trusted_is_told_with_the_truststore() -> None:
    problem = await failure(server_context(), client_context(Authority.make("another")))
    assert isinstance(problem, SecurityFailed)
    assert "/etc/mirror/ca.pem" in problem.message
    assert "ssl.truststore.location" in problem.hint


async def test_an_expired_certificate_is_told_as_that() -> None:
    expired = server_context(authority().issue([HOST], expired=True))
    problem = await failure(expired, client_context())
    assert isinstance(problem, SecurityFailed)
    assert "has expired" in problem.message


@pytest.mark.parametrize(("names", "host"), [(["elsewhere"], HOST), ([HOST], "localhost")])
async def test_a_certificate_for_another_host_is_told_with_the_name_that_was_used(
    names: list[str], host: str
) -> None:
    problem = await failure(server_context(authority().issue(names)), client_context(), host=host)
    assert isinstance(problem, SecurityFailed)
    assert repr(host) in problem.message
    assert "subject alternative name" in problem.hint


async def test_the_host_is_not_compared_where_that_is_switched_off_but_the_authority_is() -> None:
    context = client_context()
    context.check_hostname = False
    async with peer(echo, server_context(authority().issue(["elsewhere"]))) as port:
        connection = await connected(port, TlsStream(context, TlsSettings(checks_host=False), HOST))
        assert bytes(await ask(connection, b"0123456789")) == b"0123456789"
        connection.close()
    other = client_context(Authority.make("another"))
    other.check_hostname = False
    assert "authority" in (await failure(server_context(), other)).message


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("location", ["", "/etc/mirror/client.p12"])
async def test_a_client_certificate_that_is_missing_or_refused_is_told_as_that(
    version: ssl.TLSVersion, location: str
) -> None:
    server = server_context()
    server.maximum_version = server.minimum_version = version
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(cadata=authority().certificate_pem.decode())
    client = client_context()
    settings = TRUST
    if location:
        stranger = Authority.make("a stranger").issue(["mirror"], client=True)
        identify(client, stranger)
        settings = TlsSettings(identity=KeyStore(kind=StoreKind.PKCS12, location=location))
    with refusing_server(server) as port:
        problem = await failure_at(port, client, settings)
    # With TLS 1.3 the connection is over before the server judges; what it said of it may be lost in the reset.
    assert isinstance(problem, SecurityFailed if version == ssl.TLSVersion.TLSv1_2 else HeliographError)
    words = problem.message + problem.hint
    if location:
        assert location in words
    else:
        assert "client certificate" in words
        assert "ssl.keystore.location" in words


@pytest.mark.parametrize("behaviour", [close_at_once, never_answer])
async def test_a_listener_without_tls_is_told_in_bounded_time(behaviour: Behaviour) -> None:
    began = time.monotonic()
    problem = await failure(None, client_context(), behaviour=behaviour)
    assert isinstance(problem, SecurityFailed)
    assert "TLS handshake" in problem.message
    assert time.monotonic() - began < 2.0


async def test_text_in_place_of_a_handshake_is_told_as_no_tls() -> None:
    async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await asyncio.sleep(1)

    problem = await failure(None, client_context(), behaviour=speak)
    assert isinstance(problem, SecurityFailed)
    assert "does not speak TLS" in problem.message


async def test_a_peer_without_a_common_version_is_told_with_ours() -> None:
    server, client = server_context(), client_context()
    server.minimum_version = ssl.TLSVersion.TLSv1_3
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    with refusing_server(server) as port:
        problem = await failure_at(port, client, TlsSettings(protocols=("TLSv1.2",)))
    assert "TLSv1.2" in problem.message
    assert "ssl.enabled.protocols" in problem.hint


async def test_a_handshake_that_never_ends_is_given_up_by_size() -> None:
    """Empty handshake messages, each well formed: the peer says nothing wrong, and never comes to an end."""
    request = b"\x16\x03\x03\x00\x04\x00\x00\x00\x00"  # HelloRequest, which clients pass over

    async def speak(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(4 * HANDSHAKE_LIMIT_BYTES // (len(request) * 1000)):
            writer.write(request * 1000)
            await writer.drain()
        await asyncio.sleep(2)

    problem = await failure(None, client_context(), behaviour=speak)
    assert isinstance(problem, SecurityFailed)


async def test_a_peer_that_leaves_after_the_handshake_is_a_disconnect() -> None:
    problem = await failure(server_context(), client_context(), behaviour=close_at_once)
    assert isinstance(problem, Disconnected)
