"""Produce requests of the harness's own, on a blocking connection to one broker.

Owns their bytes. Must not know what the batches hold, nor how many requests are in flight: answers come in order.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence

from bench.clusters import Leader
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.frame import decode_response_header, encode_request_header
from heliograph.wire.produce import ProducedPartition, ProduceEntry, decode_produce, encode_produce

VERSION = 8  # the last one before flexible headers
TIMEOUT_MS = 30_000
AGAIN_S = 0.05
# A broker names itself the leader of a new partition a moment before it takes records for it.
NOT_YET = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def connection_to(leader: Leader) -> socket.socket:
    return socket.create_connection((leader.host, leader.port), timeout=TIMEOUT_MS / 1000)


def produce_request(entries: Sequence[ProduceEntry]) -> bytes:
    header = encode_request_header(ApiKey.PRODUCE, VERSION, 0, "bench", flexible=False)
    body = b"".join([header, *encode_produce(VERSION, entries, timeout_ms=TIMEOUT_MS)])
    return struct.pack(">i", len(body)) + body


def begin(
    connection: socket.socket, partitions: Sequence[int], request: Callable[[Sequence[int]], bytes]
) -> None:
    """The first batch of each partition, sent until it is taken."""
    while partitions:
        connection.sendall(request(partitions))
        answers = answers_of(connection)
        assert all(answer.error in (0, *NOT_YET) for answer in answers), answers
        partitions = [answer.partition for answer in answers if answer.error]
        time.sleep(AGAIN_S if partitions else 0.0)


def confirm(connection: socket.socket) -> None:
    for answer in answers_of(connection):
        assert answer.error == 0, answer


def answers_of(connection: socket.socket) -> list[ProducedPartition]:
    (size_bytes,) = struct.unpack(">i", _read(connection, 4))
    _, body = decode_response_header(_read(connection, size_bytes), flexible=False)
    return decode_produce(VERSION, body).partitions


def _read(connection: socket.socket, size_bytes: int) -> memoryview:
    return memoryview(b"".join(_parts(connection, size_bytes)))


def _parts(connection: socket.socket, size_bytes: int) -> Iterator[bytes]:
    while size_bytes:
        part = connection.recv(size_bytes)
        assert part, "the broker closed the connection"
        size_bytes -= len(part)
        yield part
