"""Servers that break TLS, or overdo it: behaviours of a hostile peer, below any Kafka.

Owns the bytes of a handshake that never gets anywhere. The records are written by hand: no library sends them.

    endless_handshake     a good ServerHello, then handshake messages without end, each of which a client must skip
    vast_message          a good ServerHello, then a Certificate message that announces 16 MB, and sends them
    endless_alerts        warnings without end
    endless_garbage       bytes that are no TLS, without end
    vast_chain            a good TLS server, but its chain of certificates has 10 MB
"""

from __future__ import annotations

import random
import socket
import ssl
import struct
import time
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from .certificates import Issued
from .hostile_peer import Behaviour, server_context
from .kafka_by_hand import read_exactly

ALERT, HANDSHAKE = 21, 22  # kinds of records
HELLO_REQUEST, SERVER_HELLO, CERTIFICATE = 0, 2, 11  # kinds of handshake messages
TLS_1_2 = 0x0303
RECORD_BYTES = 1 << 14  # the most that a record may hold
MESSAGE_BYTES = (1 << 24) - 1  # the most that a handshake message may announce
CHAIN_BYTES = 10_000_000
_CIPHER = 0xC02B  # ECDHE, ECDSA, AES-128-GCM: every client of today offers it
_WARNING, _NO_RENEGOTIATION = 1, 100
# An empty renegotiation_info, without which OpenSSL 3 goes no further.
_EXTENSIONS = struct.pack(">HHHB", 5, 0xFF01, 1, 0)


def endless_handshake(pause_s: float = 0.0) -> Behaviour:
    """A good ServerHello of TLS 1.2, then HelloRequests for ever. A client in the middle of a handshake has to ignore
    them, so it is never done and nothing is ever wrong. With a pause they come one at a time: a client whose patience
    begins anew with every byte waits for ever."""
    requests = _message(HELLO_REQUEST, b"") * (1 if pause_s else RECORD_BYTES // 4)

    def behave(connection: socket.socket) -> None:
        _answer_hello(connection)
        while True:
            connection.sendall(_record(HANDSHAKE, requests))
            time.sleep(pause_s)

    return behave


def vast_message(connection: socket.socket) -> None:
    """A good ServerHello of TLS 1.2, then a Certificate message of 16 MB, the most that can be announced."""
    _answer_hello(connection)
    head = struct.pack(">I", CERTIFICATE << 24 | MESSAGE_BYTES)
    connection.sendall(_record(HANDSHAKE, head))
    for _ in range(MESSAGE_BYTES // RECORD_BYTES):
        connection.sendall(_record(HANDSHAKE, bytes(RECORD_BYTES)))
    connection.sendall(_record(HANDSHAKE, bytes(MESSAGE_BYTES % RECORD_BYTES)))
    connection.recv(1)


def endless_alerts(connection: socket.socket) -> None:
    """Answers a ClientHello with warnings for ever: nothing that a client must end for."""
    read_client_hello(connection)
    warnings = _record(ALERT, bytes((_WARNING, _NO_RENEGOTIATION))) * 1000
    while True:
        connection.sendall(warnings)


def endless_garbage(connection: socket.socket) -> None:
    """Bytes by chance for ever, the same ones each time, whatever the client says."""
    chance = random.Random(1)
    while True:
        connection.sendall(chance.randbytes(1 << 16))


def vast_chain(names: tuple[str, ...] = ("localhost",)) -> ssl.SSLContext:
    """Of a server whose own certificate has 10 MB, in extensions that nobody knows and nobody must."""
    key = generate_private_key(SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, names[0])])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - timedelta(days=1),
        not_valid_after=now + timedelta(days=1),
    )
    vast = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.99999.1"), bytes(CHAIN_BYTES))
    certificate = builder.add_extension(vast, critical=False).sign(key, SHA256())
    issued = Issued(
        key_pem=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        chain_pem=certificate.public_bytes(Encoding.PEM),
    )
    return server_context(issued)


def read_client_hello(connection: socket.socket) -> bytes:
    """The message without its head of four bytes."""
    _, _, size_bytes = struct.unpack(">BHH", read_exactly(connection, 5))
    return read_exactly(connection, size_bytes)[4:]


def _answer_hello(connection: socket.socket) -> None:
    hello = read_client_hello(connection)
    session_bytes = hello[34]  # behind version and random; the session is sent back
    session = hello[34 : 35 + session_bytes]
    chosen = struct.pack(">HB", _CIPHER, 0)
    body = struct.pack(">H", TLS_1_2) + bytes(32) + session + chosen + _EXTENSIONS
    connection.sendall(_record(HANDSHAKE, _message(SERVER_HELLO, body)))


def _message(kind: int, body: bytes) -> bytes:
    return struct.pack(">I", kind << 24 | len(body)) + body


def _record(kind: int, content: bytes) -> bytes:
    return struct.pack(">BHH", kind, TLS_1_2, len(content)) + content
