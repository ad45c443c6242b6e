"""Fills a topic with transactions of several producers, each of as many records as the recipe has in a batch.

A transaction goes to one partition, and one in ten is aborted. Producers write to all partitions in turn, so their
transactions lie mixed in each.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from bench.clusters import BenchCluster
from bench.transactions import TransactionalProducer
from bench.workload import Produced, Recipe, Say, Value

PRODUCERS = 8  # a transaction is mostly waiting for the broker
ABORTED_OF = 10  # one of so many is
SAY_EVERY_S = 5.0


def is_aborted(transaction: int) -> bool:
    return transaction % ABORTED_OF == ABORTED_OF - 1


def committed_records(transactions: int, records_each: int) -> int:
    return sum(not is_aborted(each) for each in range(transactions)) * records_each


def partition_of(transaction: int, partitions: int) -> int:
    """In turn; each round begins with another one, or the aborted ones would all be in some of the partitions."""
    return (transaction + transaction // ABORTED_OF) % partitions


def fill_transactions(cluster: BenchCluster, recipe: Recipe, records: int, say: Say) -> Produced:
    each = recipe.records_per_batch
    transactions = records // each
    assert transactions, f"{records} records are no transaction of {each}"
    value = recipe.values()
    with ThreadPoolExecutor(PRODUCERS) as pool:
        work = [
            pool.submit(_produce, cluster, recipe, nth, transactions, value, say) for nth in range(PRODUCERS)
        ]
        for one in work:
            one.result()
    committed = committed_records(transactions, each)
    return Produced(committed, committed * len(value(0)))


def _produce(
    cluster: BenchCluster, recipe: Recipe, first: int, transactions: int, value: Value, say: Say
) -> None:
    producer = TransactionalProducer(cluster.bootstrap_servers)
    spoken_at = time.monotonic()
    for number in range(first, transactions, PRODUCERS):
        values = (value(nth) for nth in range(recipe.records_per_batch))
        partition = partition_of(number, recipe.partitions)
        producer.write(recipe.name, partition, values, abort=is_aborted(number))
        if first == 0 and time.monotonic() - spoken_at > SAY_EVERY_S:
            spoken_at = time.monotonic()
            say(f"about {number:,} of {transactions:,} transactions produced")
