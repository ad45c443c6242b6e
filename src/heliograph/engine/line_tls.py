"""TLS 1.3 on the control line: a stream that seals what is written, and how a lane knows the driver's certificate.

Owns the TLS of one connection, at either end, over plain streams. Must not know what is said on it.

asyncio's own TLS is not used. It does the handshake before it tells of a peer, and peers must wait for their turn first
(control_server.py); it takes 256 KB for each connection, and a driver may have hundreds; and when it closes it waits
for the peer's last word, half a minute if that hangs.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ssl
from typing import cast

from heliograph.model.errors import Disconnected, ProtocolError

ROOM_BYTES = 1 << 16  # what is received at a time
# Ours take 3 KB. OpenSSL has limits of its own for most of what a hostile peer may send, the highest of them 128 KB.
HANDSHAKE_LIMIT_BYTES = 1 << 15
# What TLS may say by itself after that: some 30 bytes whenever the peer wants new keys, which OpenSSL never does by
# itself. Who asks without end, and does not read our answers, would fill our memory with them, also before any proof.
OWN_WORDS_LIMIT_BYTES = 1 << 15


def fingerprint_of(certificate: bytes) -> bytes:
    """Of a certificate in DER."""
    return hashlib.sha256(certificate).digest()


def lane_context() -> ssl.SSLContext:
    """No authority vouches for the driver and no name is compared: the lane looks at the fingerprint."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class SealedStream:
    """Reads and writes as the plain streams below it do, once the handshake is done. It ends as they end: TLS's own
    last word (close_notify) is neither sent nor awaited, because frames say how long they are."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        context: ssl.SSLContext,
        *,
        server_side: bool,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._transport = cast(asyncio.Transport, writer.transport)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side)
        self._own_bytes = 0

    def pause(self) -> None:
        """What the peer sends stays with the kernel, which bounds it, until `resume`."""
        self._transport.pause_reading()

    def resume(self) -> None:
        self._transport.resume_reading()

    async def handshake(self) -> None:
        """ProtocolError if the peer does not speak TLS 1.3, or leaves. How long it may take is up to the caller."""
        received_bytes = 0
        while not self._handshake_is_done():
            if received_bytes > HANDSHAKE_LIMIT_BYTES:
                raise ProtocolError(f"the TLS handshake has not ended after {received_bytes} bytes")
            try:
                received_bytes += await self._receive()
            except (asyncio.IncompleteReadError, ConnectionError):
                raise ProtocolError("the peer left during the TLS handshake") from None
            except OSError as problem:
                raise Disconnected(f"the network was cut: {problem}") from problem

    def _handshake_is_done(self) -> bool:
        """Go on as far as what was received allows."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as problem:
            raise ProtocolError(f"the peer does not speak TLS 1.3: {problem.reason}") from None
        finally:
            self._send()  # also the alert that tells the peer what was wrong
        return True

    def check_fingerprint(self, fingerprint: bytes) -> None:
        """ProtocolError if the peer has another certificate. To be called before anything is written."""
        certificate = self._tls.getpeercert(binary_form=True)
        if certificate is None or fingerprint_of(certificate) != fingerprint:
            raise ProtocolError("the certificate at the driver's address is not the one of this run")

    async def readexactly(self, size: int) -> bytes:
        """As asyncio.StreamReader's. What somebody has changed on its way is an ssl.SSLError, an OSError. ProtocolError
        if the peer wants new keys without end."""
        plain = bytearray()
        while len(plain) < size:
            try:
                part = self._tls.read(min(size - len(plain), ROOM_BYTES))
            except ssl.SSLWantReadError:
                self._send_own_words()
                await self._receive()
                continue
            self._send_own_words()
            if not part:
                raise asyncio.IncompleteReadError(bytes(plain), size)
            plain += part
        return bytes(plain)

    def write(self, data: bytes) -> None:
        with contextlib.suppress(ssl.SSLError):  # it has failed before: whoever reads learns of it
            self._tls.write(data)
        self._send()

    async def drain(self) -> None:
        await self._writer.drain()

    def close(self) -> None:
        """After what was written."""
        self._writer.close()

    def abort(self) -> None:
        """At once."""
        self._transport.abort()

    def _send_own_words(self) -> None:
        """What TLS itself has to answer, new keys for example: all else is sent when it is written."""
        self._own_bytes += self._outgoing.pending
        if self._own_bytes > OWN_WORDS_LIMIT_BYTES:
            self.abort()  # to close it would wait until the peer has read all
            raise ProtocolError("the peer asks for new TLS keys without end")
        self._send()

    def _send(self) -> None:
        if self._outgoing.pending:
            self._writer.write(self._outgoing.read())

    async def _receive(self) -> int:
        sealed = await self._reader.read(ROOM_BYTES)
        if not sealed:
            raise asyncio.IncompleteReadError(b"", None)
        return self._incoming.write(sealed)
