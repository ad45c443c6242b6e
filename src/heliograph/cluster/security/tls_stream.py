"""One connection's TLS, without its socket: sealed bytes in, plain bytes out, and back.

Owns the TLS session and the order of what it seals. Must not know sockets, event loops or Kafka. Whoever has the
socket sends what is sealed here in the order of the calls, so that the gate for the last byte (cluster/gate.py) holds
under TLS, too: a record of TLS that lacks its last byte cannot be opened, and the request in it is not whole. The
transports with TLS of asyncio and uvloop are of no use for that: they keep sealed bytes of their own unsaid.

    received(n) ─▶ incoming ─▶ TLS ─▶ read_into(room)
    seal(parts) ─▶ TLS ─▶ outgoing ─▶ sealed bytes        own_words(): what TLS itself says, handshake and new keys
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Sequence

from heliograph.cluster.security.settings import TlsSettings
from heliograph.cluster.security.tls_failures import explain, refused_after_handshake
from heliograph.model.errors import SecurityFailed

ROOM_BYTES = 1 << 18  # as much as a socket gives at once; smaller ones cost more calls
# What a handshake takes at most. OpenSSL refuses a chain of certificates above 100 KB by itself; this is for peers that
# say nothing wrong, and never come to an end.
HANDSHAKE_LIMIT_BYTES = 1 << 20
# What TLS may say by itself on one connection: our side of the handshake, and an answer of some 30 bytes whenever the
# peer wants new keys. Java's brokers want them after 2^37 bytes. Who asks without end, and does not read our answers,
# would fill our memory with them.
OWN_WORDS_LIMIT_BYTES = 1 << 18

Buffer = bytes | bytearray | memoryview


class _Rooms(threading.local):
    """Where sealed bytes are received: one for all connections of an event loop, because it is emptied at once."""

    def __init__(self) -> None:
        self.room = memoryview(bytearray(ROOM_BYTES))


_rooms = _Rooms()


class TlsStream:
    """`SecurityFailed`, of any method: nothing more can be read or sealed, the connection must be closed."""

    def __init__(self, context: ssl.SSLContext, settings: TlsSettings, host: str) -> None:
        self._settings = settings
        self._host = host
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._received_bytes = 0
        self._own_bytes = 0
        self._has_heard = False
        self.has_begun = False
        self.is_ready = False
        self.has_ended = False  # the peer has said that nothing more comes

    @property
    def hint_if_lost(self) -> str:
        """What it may mean that the peer has left: with TLS 1.3 it judges our certificate after the handshake, and what
        it said of it may be lost with the connection."""
        return "" if self._has_heard else refused_after_handshake(self._settings)

    def room(self) -> memoryview:
        """Where the next sealed bytes are to be received; `received` must follow before anybody else is given it."""
        return _rooms.room

    def received(self, nbytes: int) -> None:
        self._incoming.write(_rooms.room[:nbytes])
        if not self.is_ready:
            self._received_bytes += nbytes
            self.shake()

    def shake(self) -> None:
        """Go on with the handshake, as far as what was received allows."""
        self.has_begun = True
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            if self._received_bytes > HANDSHAKE_LIMIT_BYTES:
                raise SecurityFailed(
                    f"the TLS handshake has not ended after {self._received_bytes} bytes",
                    hint="is this the port of a Kafka listener with TLS?",
                ) from None
        except ssl.SSLError as problem:
            raise explain(problem, self._settings, self._host) from problem
        else:
            self.is_ready = True

    def read_into(self, room: memoryview) -> int:
        """How many plain bytes were put there; 0: no more for now, or at all (`has_ended`)."""
        try:
            # A record of TLS at a time, 16 KB: OpenSSL gives no more.
            nbytes = self._tls.read(len(room), room)
        except ssl.SSLWantReadError:
            return 0
        except ssl.SSLError as problem:
            # TLS 1.3: a client certificate that is refused shows here, after the handshake.
            raise explain(problem, self._settings, self._host) from problem
        self.has_ended, self._has_heard = not nbytes, True
        return int(nbytes)

    def seal(self, parts: Sequence[Buffer]) -> bytes:
        """The parts as one, sealed, behind all that TLS itself has to say before it."""
        try:
            # One call for all: small parts would be records of TLS of their own. In a profile of a lane the copy took
            # as long as the sealing; sealing part by part was slower still, by page faults.
            self._tls.write(b"".join(parts) if len(parts) > 1 else parts[0])
        except ssl.SSLError as problem:
            raise explain(problem, self._settings, self._host) from problem
        return self._outgoing.read()

    def own_words(self) -> bytes:
        """What TLS has to say by itself, to be sent behind all that was sealed before: nothing, nearly always."""
        if not self._outgoing.pending:
            return b""
        words = self._outgoing.read()
        self._own_bytes += len(words)
        if self._own_bytes > OWN_WORDS_LIMIT_BYTES:
            raise SecurityFailed(
                "the peer asks for new TLS keys without end", hint="is this the port of a Kafka broker?"
            )
        return words
