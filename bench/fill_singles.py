"""Fills a topic with batches of one record each, by requests of our own: a client sends each batch in a request of its
own, this sends one batch for each partition at once.

Owns the connections and what is in flight. Records repeat after some thousands: nobody compresses them.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from bench.clusters import BenchCluster, Leader
from bench.single_batch import single_batch
from bench.workload import Recipe, Say, Value
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.frame import decode_response_header, encode_request_header
from heliograph.wire.produce import ProducedPartition, ProduceEntry, decode_produce, encode_produce

VERSION = 8  # the last one before flexible headers
CONNECTIONS = 2  # to a broker, which handles one request of a connection at a time
IN_FLIGHT = 16
DISTINCT = 256  # requests of a connection before its records repeat
TIMEOUT_MS = 30_000
SAY_EVERY_S = 5.0
AGAIN_S = 0.05
# A broker names itself the leader of a new partition a moment before it takes records for it.
NOT_YET = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def fill_singles(cluster: BenchCluster, recipe: Recipe, records: int, say: Say) -> int:
    assert recipe.records_per_batch == 1
    assert recipe.codec == "none"
    value = recipe.values()
    shares = [
        (leader, partitions[first::CONNECTIONS])
        for leader, partitions in cluster.leaders(recipe.name).items()
        for first in range(CONNECTIONS)
    ]
    with ThreadPoolExecutor(len(shares)) as pool:
        work = [
            pool.submit(_produce, leader, recipe, partitions, records, value, say)
            for leader, partitions in shares
            if partitions
        ]
        for each in work:
            each.result()
    return records * len(value(0))


def _produce(
    leader: Leader, recipe: Recipe, partitions: Sequence[int], records: int, value: Value, say: Say
) -> None:
    requests = [_request(recipe.name, partitions, value) for _ in range(DISTINCT)]
    each, over = divmod(records, recipe.partitions)
    assert each > 0, f"{records} records are fewer than {recipe.partitions} partitions"
    last = [partition for partition in partitions if partition < over]  # these have one more record
    in_flight = 0
    spoken_at = time.monotonic()
    with socket.create_connection((leader.host, leader.port), timeout=TIMEOUT_MS / 1000) as connection:
        _begin(connection, recipe.name, partitions, value)
        for number in range(1, each):
            connection.sendall(requests[number % DISTINCT])
            in_flight += 1
            if in_flight == IN_FLIGHT:
                _confirm(connection)
                in_flight -= 1
            if time.monotonic() - spoken_at > SAY_EVERY_S:
                spoken_at = time.monotonic()
                say(f"{number:,} of {each:,} records in each of {len(partitions)} partitions produced")
        if last:
            connection.sendall(_request(recipe.name, last, value))
            in_flight += 1
        for _ in range(in_flight):
            _confirm(connection)


def _begin(connection: socket.socket, topic: str, partitions: Sequence[int], value: Value) -> None:
    """The first record of each partition, sent until it is taken."""
    while partitions:
        connection.sendall(_request(topic, partitions, value))
        answers = _answers(connection)
        assert all(answer.error in (0, *NOT_YET) for answer in answers), answers
        partitions = [answer.partition for answer in answers if answer.error]
        time.sleep(AGAIN_S if partitions else 0.0)


def _request(topic: str, partitions: Sequence[int], value: Value) -> bytes:
    now_ms = time.time_ns() // 1_000_000  # an old record would be deleted while it is measured
    entries = [
        ProduceEntry(topic, partition, memoryview(single_batch(value(0), timestamp_ms=now_ms)))
        for partition in partitions
    ]
    header = encode_request_header(ApiKey.PRODUCE, VERSION, 0, "bench", flexible=False)
    body = b"".join([header, *encode_produce(VERSION, entries, timeout_ms=TIMEOUT_MS)])
    return struct.pack(">i", len(body)) + body


def _confirm(connection: socket.socket) -> None:
    for answer in _answers(connection):
        assert answer.error == 0, answer


def _answers(connection: socket.socket) -> list[ProducedPartition]:
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
