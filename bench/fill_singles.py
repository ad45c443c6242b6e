"""Fills a topic with batches of one record each, by requests of our own: a client sends each batch in a request of its
own, this sends one batch for each partition at once.

Owns the connections and what is in flight. Records repeat after some thousands: nobody compresses them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from bench.clusters import BenchCluster, Leader
from bench.raw_produce import begin, confirm, connection_to, produce_request
from bench.single_batch import single_batch
from bench.workload import Produced, Recipe, Say, Value
from heliograph.wire.produce import ProduceEntry

CONNECTIONS = 2  # to a broker, which handles one request of a connection at a time
IN_FLIGHT = 16
DISTINCT = 256  # requests of a connection before its records repeat
SAY_EVERY_S = 5.0


def fill_singles(cluster: BenchCluster, recipe: Recipe, records: int, say: Say) -> Produced:
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
    return Produced(records, records * len(value(0)))


def _produce(
    leader: Leader, recipe: Recipe, partitions: Sequence[int], records: int, value: Value, say: Say
) -> None:
    requests = [_request(recipe.name, partitions, value) for _ in range(DISTINCT)]
    each, over = divmod(records, recipe.partitions)
    assert each > 0, f"{records} records are fewer than {recipe.partitions} partitions"
    last = [partition for partition in partitions if partition < over]  # these have one more record
    in_flight = 0
    spoken_at = time.monotonic()
    with connection_to(leader) as connection:
        begin(connection, partitions, lambda some: _request(recipe.name, some, value))
        for number in range(1, each):
            connection.sendall(requests[number % DISTINCT])
            in_flight += 1
            if in_flight == IN_FLIGHT:
                confirm(connection)
                in_flight -= 1
            if time.monotonic() - spoken_at > SAY_EVERY_S:
                spoken_at = time.monotonic()
                say(f"{number:,} of {each:,} records in each of {len(partitions)} partitions produced")
        if last:
            connection.sendall(_request(recipe.name, last, value))
            in_flight += 1
        for _ in range(in_flight):
            confirm(connection)


def _request(topic: str, partitions: Sequence[int], value: Value) -> bytes:
    now_ms = time.time_ns() // 1_000_000  # an old record would be deleted while it is measured
    entries = [
        ProduceEntry(topic, partition, memoryview(single_batch(value(0), timestamp_ms=now_ms)))
        for partition in partitions
    ]
    return produce_request(entries)
