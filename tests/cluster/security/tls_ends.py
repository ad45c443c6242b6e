"""Both ends of TLS for tests with peers on loopback: a server's context, and the stream of a client that trusts it."""

from __future__ import annotations

import contextlib
import socket
import ssl
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

from heliograph.cluster.security.settings import TlsSettings
from heliograph.cluster.security.tls_stream import TlsStream
from tests.support.certificates import Authority, Issued, write_pem

HOST = "127.0.0.1"


@cache
def authority() -> Authority:
    return Authority.make("authority of the tests")


def server_context(issued: Issued | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    identify(context, issued or authority().issue([HOST]))
    return context


def identify(context: ssl.SSLContext, issued: Issued) -> None:
    """Who the context's side is."""
    with tempfile.TemporaryDirectory() as place:
        context.load_cert_chain(write_pem(Path(place) / "own.pem", issued=issued))


def client_context(trusted: Authority | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=(trusted or authority()).certificate_pem.decode())
    return context


@dataclass(frozen=True)
class TlsEnds:
    server: ssl.SSLContext
    client: ssl.SSLContext

    @classmethod
    @cache
    def made(cls) -> Self:
        return cls(server_context(), client_context())

    def stream(self, host: str = HOST) -> TlsStream:
        return TlsStream(self.client, TlsSettings(), host)


@contextlib.contextmanager
def refusing_server(context: ssl.SSLContext) -> Iterator[int]:
    """The port of a server that tells why it ends a handshake, as Java's does, and asyncio's does not. It takes one
    connection, and reads it to its end."""

    def serve() -> None:
        accepted, _ = listener.accept()
        with (
            accepted,
            contextlib.suppress(OSError),
            context.wrap_socket(accepted, server_side=True) as wrapped,
        ):
            while wrapped.recv(1 << 16):
                pass

    with socket.create_server((HOST, 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(10)
        assert not thread.is_alive()
