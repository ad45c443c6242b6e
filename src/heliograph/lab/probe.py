"""Asks a broker which brokers of its cluster are alive: the lab's condition for "it is up".

Owns one Metadata request (v1, which every Kafka from 0.10 to 4.x answers) in plain text. Must not know
processes. A port that opens is not enough: a broker listens before it is registered and serves.
"""

from __future__ import annotations

import socket
import struct

METADATA_V1_NO_TOPICS = struct.pack(">hhihi", 3, 1, 0, -1, 0)  # key, version, correlation, client, topics
ANSWER_TIMEOUT_S = 2.0


def live_brokers(port: int) -> frozenset[int]:
    """Ids of the brokers that the one on this loopback port sees alive; empty if it does not answer."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_TIMEOUT_S) as connection:
            connection.sendall(struct.pack(">i", len(METADATA_V1_NO_TOPICS)) + METADATA_V1_NO_TOPICS)
            (size_bytes,) = struct.unpack(">i", _read_exactly(connection, 4))
            return _broker_ids(_read_exactly(connection, size_bytes))
    except OSError:
        return frozenset()


def _broker_ids(answer: bytes) -> frozenset[int]:
    (count,) = struct.unpack_from(">i", answer, 4)
    at = 8
    ids = []
    for _ in range(count):
        node_id, host_length = struct.unpack_from(">ih", answer, at)
        at += 6 + host_length + 4  # id and length, host, port
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
