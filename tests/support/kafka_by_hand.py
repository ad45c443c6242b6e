"""Kafka's frames over a plain or an encrypted socket, one request at a time: for tests that look at a single answer.

Owns frames and headers. kafka-python has the bytes of each message.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

CLIENT_ID = "by-hand"


def read_exactly(connection: socket.socket, size_bytes: int) -> bytes:
    received = bytearray()
    while len(received) < size_bytes:
        piece = connection.recv(size_bytes - len(received))
        if not piece:
            raise EOFError(f"closed after {len(received)} of {size_bytes} bytes")
        received += piece
    return bytes(received)


def read_frame(connection: socket.socket) -> bytes:
    (size_bytes,) = struct.unpack(">i", read_exactly(connection, 4))
    return read_exactly(connection, size_bytes)


def ask(connection: socket.socket, request: Any, response_class: Any, version: int) -> Any:
    request.with_header(correlation_id=1, client_id=CLIENT_ID)
    connection.sendall(request.encode(version=version, header=True, framed=True))
    return response_class.decode(read_frame(connection), version=version, header=True)


def begin_sasl(connection: socket.socket, mechanism: str) -> Any:
    return ask(connection, SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse, 1)


def send_token(connection: socket.socket, token: bytes, *, version: int = 1) -> Any:
    return ask(connection, SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse, version)
