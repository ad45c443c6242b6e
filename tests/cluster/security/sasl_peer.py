"""A broker that asks who we are: plays ApiVersions, SaslHandshake and SaslAuthenticate, and echoes all else."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from heliograph.model.errors import SecurityFailed
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.error_codes import ErrorCode
from tests.cluster.peers import answer, read_request

OTHER_API = 99
VERSIONS = {ApiKey.SASL_HANDSHAKE: (0, 1), ApiKey.SASL_AUTHENTICATE: (0, 2), OTHER_API: (0, 0)}
Judge = Callable[[bytes], "Said"]


@dataclass(frozen=True)
class Said:
    """What the broker makes of what it was told."""

    challenge: bytes = b""
    error: int = 0
    words: str | None = None


def accept(_: bytes) -> Said:
    return Said()


def refuse(_: bytes) -> Said:
    return Said(
        error=ErrorCode.SASL_AUTHENTICATION_FAILED,
        words="Authentication failed: Invalid username or password",
    )


@dataclass
class SaslPeer:
    """`judge`: of each token. `seen`: every request's api key, and of tokens the token. `delay_s`: of each answer, but
    those for whose api key there is another in `delays_s`."""

    judge: Judge = accept
    mechanisms: tuple[str, ...] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI")
    lasts_ms: int = 0
    handshake_error: int = 0
    delay_s: float = 0.0
    delays_s: dict[int, float] = field(default_factory=dict)
    versions: dict[int, tuple[int, int]] = field(default_factory=lambda: dict(VERSIONS))
    seen: list[tuple[int, bytes]] = field(default_factory=list)
    connections: int = 0

    @property
    def tokens(self) -> list[bytes]:
        return [token for api_key, token in self.seen if api_key == ApiKey.SASL_AUTHENTICATE]

    async def behave(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            api_key, version, correlation_id, body = await self.read(reader)
            said = self._say(api_key, version, body)
            await asyncio.sleep(self.delays_s.get(api_key, self.delay_s))
            writer.write(answer(correlation_id, said))

    async def read(self, reader: asyncio.StreamReader) -> tuple[int, int, int, bytes]:
        return await read_request(reader)

    def _say(self, api_key: int, version: int, body: bytes) -> bytes:
        if api_key == ApiKey.API_VERSIONS:
            rows = b"".join(struct.pack(">hhh", key, *span) for key, span in self.versions.items())
            return struct.pack(">hi", 0, len(self.versions)) + rows
        if api_key == ApiKey.SASL_HANDSHAKE:
            asked = SaslHandshakeRequest.decode(memoryview(body), version=version).mechanism
            self.seen.append((api_key, b""))
            unknown = asked not in self.mechanisms
            code = self.handshake_error or (ErrorCode.UNSUPPORTED_SASL_MECHANISM if unknown else 0)
            response: Any = SaslHandshakeResponse(error_code=code, mechanisms=list(self.mechanisms))
            return bytes(response.encode(version=version))
        if api_key == ApiKey.SASL_AUTHENTICATE:
            token = bytes(SaslAuthenticateRequest.decode(memoryview(body[1:]), version=version).auth_bytes)
            self.seen.append((api_key, token))
            said = self.judge(token)
            response = SaslAuthenticateResponse(
                error_code=said.error,
                error_message=said.words,
                auth_bytes=said.challenge,
                session_lifetime_ms=self.lasts_ms,
            )
            return b"\0" + bytes(response.encode(version=version))
        self.seen.append((api_key, b""))
        return body


class Ticket:
    """As Kerberos: what is said first may take its time, and a refusal is not for good."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.answers.set()
        self.asked = threading.Event()

    def first(self) -> bytes:
        self.asked.set()
        assert self.answers.wait(10)
        return b"ticket"

    def next(self, _: bytes) -> bytes | None:
        return None

    def refused(self, words: str) -> SecurityFailed:
        return SecurityFailed(words, hint="its clock")
