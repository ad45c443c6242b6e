"""Servers that speak Kafka well up to SASL, and then ask too much of their client: behaviours of a hostile peer.

Owns how a false broker answers ApiVersions, SaslHandshake and SaslAuthenticate; its challenges are up to the test. It
may be inside of TLS or not, as the peer is.

    FalseBroker(vast_challenge(100_000_000))        a challenge of 100 MB
    FalseBroker(scram_challenge(1))                 SCRAM with one iteration: its answer makes a password cheap to guess
    FalseBroker(scram_challenge(8192, b",i=1"))     the same, hidden behind a number that looks good
    FalseBroker(scram_challenge(2_000_000_000))     SCRAM with iterations for hours of the client's CPU
    FalseBroker(slow_challenge(0.1))                a challenge byte by byte, without end
    FalseBroker(empty_challenge)                    round after round, without end; PLAIN takes it for a welcome
    FalseBroker(empty_challenge, vast_answer(...))  and what is asked after that is answered with so many bytes
"""

from __future__ import annotations

import base64
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest, SaslHandshakeResponse

from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.writer import uvarint

from .kafka_by_hand import read_frame

CHUNK_BYTES = 1_000_000
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """In pieces: what is vast to the client should not be so in our memory."""

    size_bytes: int
    pieces: Iterable[bytes]


Challenger = Callable[[bytes], Challenge]  # by what the client has said
Answerer = Callable[[socket.socket, int], None]  # by the correlation id


class FalseBroker:
    """Answers each token of a client with a challenge, and by `answerer` what it asks besides. `mechanisms`: those that
    it offers. `tokens`: all that clients have sent."""

    def __init__(
        self,
        challenger: Challenger,
        answerer: Answerer | None = None,
        *,
        mechanisms: Sequence[str] = MECHANISMS,
    ) -> None:
        self._challenger = challenger
        self._answerer = answerer
        self._mechanisms = list(mechanisms)
        self.tokens: list[bytes] = []

    def __call__(self, connection: socket.socket) -> None:
        while True:
            frame = read_frame(connection)
            api_key, version, correlation_id = struct.unpack_from(">hhi", frame)
            if api_key == SaslAuthenticateRequest.API_KEY:
                request = SaslAuthenticateRequest.decode(frame, version=version, header=True)
                self.tokens.append(request.auth_bytes)
                challenge = self._challenger(request.auth_bytes)
                _send_challenge(connection, correlation_id, version, challenge)
            elif api_key == ApiVersionsRequest.API_KEY:
                _send(connection, correlation_id, _versions().encode(version=version))
            elif api_key == SaslHandshakeRequest.API_KEY:
                asked = SaslHandshakeRequest.decode(frame, version=version, header=True).mechanism
                _send(connection, correlation_id, self._handshake(asked).encode(version=version))
            elif self._answerer is not None:
                self._answerer(connection, correlation_id)

    def _handshake(self, asked: str) -> Any:
        code = 0 if asked in self._mechanisms else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        return SaslHandshakeResponse(error_code=code, mechanisms=self._mechanisms)


def vast_challenge(size_bytes: int) -> Challenger:
    """`size_bytes`: a multiple of a million."""
    chunks = [bytes(CHUNK_BYTES)] * (size_bytes // CHUNK_BYTES)  # one and the same, again and again
    return lambda _token: Challenge(size_bytes=size_bytes, pieces=chunks)


def slow_challenge(pause_s: float) -> Challenger:
    """A client whose patience begins anew with every byte waits for ever."""

    def dribble() -> Iterator[bytes]:
        while True:
            time.sleep(pause_s)
            yield b"r"

    return lambda _token: Challenge(size_bytes=CHUNK_BYTES, pieces=dribble())


def scram_challenge(iterations: int, extensions: bytes = b"") -> Challenger:
    """What a server of SCRAM says first, with the nonce that the client has sent."""

    def challenge(token: bytes) -> Challenge:
        nonce = token.partition(b",r=")[2].partition(b",")[0]
        salt = base64.b64encode(b"salt of the lab")
        text = b"r=%bserver,s=%b,i=%d" % (nonce, salt, iterations) + extensions
        return Challenge(size_bytes=len(text), pieces=[text])

    return challenge


def empty_challenge(_token: bytes) -> Challenge:
    return Challenge(size_bytes=0, pieces=[])


def vast_answer(size_bytes: int, sent_bytes: int) -> Answerer:
    """So many bytes are announced, and so many of them sent."""

    def answer(connection: socket.socket, correlation_id: int) -> None:
        connection.sendall(struct.pack(">ii", size_bytes, correlation_id))
        for _ in range(sent_bytes // CHUNK_BYTES):
            connection.sendall(bytes(CHUNK_BYTES))

    return answer


def _send_challenge(
    connection: socket.socket, correlation_id: int, version: int, challenge: Challenge
) -> None:
    """The answer without an error, written by hand because of its size; the lifetime of the session ends it."""
    if SaslAuthenticateRequest.flexible_version_q(version):
        head = struct.pack(">ibhb", correlation_id, 0, 0, 0) + uvarint(challenge.size_bytes + 1)
        tail = struct.pack(">qb", 0, 0)
    else:
        head = struct.pack(">ihhi", correlation_id, 0, -1, challenge.size_bytes)
        tail = struct.pack(">q", 0) if version else b""
    connection.sendall(struct.pack(">i", len(head) + challenge.size_bytes + len(tail)) + head)
    for piece in challenge.pieces:
        connection.sendall(piece)
    connection.sendall(tail)


def _send(connection: socket.socket, correlation_id: int, body: bytes) -> None:
    connection.sendall(struct.pack(">ii", 4 + len(body), correlation_id) + body)


def _versions() -> Any:
    spoken = (ApiVersionsRequest, SaslHandshakeRequest, SaslAuthenticateRequest, MetadataRequest)
    ranges = [
        ApiVersionsResponse.ApiVersion(api_key=each.API_KEY, min_version=0, max_version=each.max_version)
        for each in spoken
    ]
    return ApiVersionsResponse(error_code=0, api_keys=ranges, throttle_time_ms=0)
