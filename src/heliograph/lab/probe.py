"""Asks a broker which brokers of its cluster are alive: the lab's condition for "it is up".

Owns one Metadata request in plain text: version 1, which every Kafka from 0.10 to 4.x answers, or 0 for those before.
Must not know processes. A port that opens is not enough: a broker listens before it is registered and serves.
"""

from __future__ import annotations

import socket
import struct

ANSWER_TIMEOUT_S = 2.0


def live_brokers(port: int, version: int = 1) -> frozenset[int]:
    """Ids of the brokers that the one on this loopback port sees alive; empty if it does not answer."""
    answer = _ask(port, version)
    return frozenset() if answer is None else _broker_ids(answer, version)


def answers(port: int, version: int = 1) -> bool:
    """Whether the broker on this loopback port answers, whatever it says."""
    return _ask(port, version) is not None


def _ask(port: int, version: int) -> bytes | None:
    # key, version, correlation, client, topics: none, which in version 0 means all
    request = struct.pack(">hhihi", 3, version, 0, -1, 0)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_TIMEOUT_S) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size_bytes,) = struct.unpack(">i", _read_exactly(connection, 4))
            return _read_exactly(connection, size_bytes)
    except OSError:
        return None


def _broker_ids(answer: bytes, version: int) -> frozenset[int]:
    (count,) = struct.unpack_from(">i", answer, 4)
    at = 8
    ids = []
    for _ in range(count):
        node_id, host_length = struct.unpack_from(">ih", answer, at)
        at += 6 + host_length + 4  # id and length, host, port
        if version >= 1:
            (rack_length,) = struct.unpack_from(">h", answer, at)
            at += 2 + max(rack_length, 0)
        ids.append(node_id)
    return frozenset(ids)


def _read_exactly(connection: socket.socket, size_bytes: int) -> bytes:
    received = bytearray()
    while len(received) < size_bytes:
        piece = connection.recv(size_bytes - len(received))
        if not piece:
            raise ConnectionError("closed in the middle of an answer")
        received += piece
    return bytes(received)
