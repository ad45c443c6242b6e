"""The workloads of the copy as a table: what their records and batches are like."""

from __future__ import annotations

from functools import partial

from bench import values
from bench.fill import fill_batches
from bench.fill_singles import fill_singles
from bench.fill_transactions import fill_transactions
from bench.workload import Recipe

BIG = Recipe(
    name="big",
    about="JSON of 725 bytes, lz4, 270 records a batch",
    partitions=4,
    records_per_batch=270,
    codec="lz4",
    values=values.orders,
    fill=fill_batches,
)
TINY = Recipe(
    name="tiny",
    about="200 bytes, not compressed, one record a batch",
    partitions=16,  # a request carries one batch a partition: fewer would take minutes to fill
    records_per_batch=1,
    codec="none",
    values=partial(values.random_text, 200),
    fill=fill_singles,
)
UNCOMPRESSED = Recipe(
    name="uncompressed",
    about="1 KB, not compressed, 64 KB a batch",
    partitions=4,
    records_per_batch=64,
    codec="none",
    values=partial(values.random_text, 1000),
    fill=fill_batches,
)
TRANSACTIONAL = Recipe(
    name="transactional",
    about="200 bytes, not compressed, 100 records a transaction, a tenth of them aborted",
    partitions=4,
    records_per_batch=100,
    codec="none",
    values=partial(values.random_text, 200),
    fill=fill_transactions,
    transactional=True,
)
MEMORY = Recipe(
    name="memory",
    about="900 KB, not compressed, one record a batch, 500 partitions: the memory of a lane",
    partitions=500,
    records_per_batch=1,
    codec="none",
    values=partial(values.random_bytes, 900 * 1024),
    fill=fill_batches,
    ours_only=True,
)
RECIPES = {each.name: each for each in (BIG, TINY, UNCOMPRESSED, TRANSACTIONAL, MEMORY)}
