"""What is copied, as values: the recipe of a workload, and the workload once a topic holds it.

Must not know who copies it nor how it is produced (fill.py, fill_singles.py, fill_transactions.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from bench.clusters import BenchCluster, TopicEnds

Say = Callable[[str], None]
Value = Callable[[int], bytes]  # the value of record n


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """`fill` produces so many records into an existing topic.

    `codec` is also what a contender has to compress with that makes batches of its own. `ours_only`: it is about the
    memory of our lanes, not a comparison. `transactional`: only those take part that leave aborted records out.
    """

    name: str
    about: str
    partitions: int
    records_per_batch: int
    codec: str
    values: Callable[[], Value]
    fill: Fill
    ours_only: bool = False
    transactional: bool = False


class Produced(NamedTuple):
    """What a consumer reads of it: what was aborted does not count."""

    records: int
    value_bytes: int


Fill = Callable[[BenchCluster, Recipe, int, Say], Produced]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A topic that was filled before anything is measured. `size_bytes` is what travels: batches as stored.

    `offsets`: the sum of its partitions' ends. Transactions take more of them than there are `records` to read.
    """

    name: str
    topic: str
    partitions: int
    records: int
    offsets: int
    codec: str
    value_bytes: int
    size_bytes: int


def filled(cluster: BenchCluster, recipe: Recipe, *, records: int, say: Say) -> Workload:
    """The recipe in a topic of its name."""
    cluster.create(recipe.name, partitions=recipe.partitions)
    produced = recipe.fill(cluster, recipe, records, say)
    return Workload(
        name=recipe.name,
        topic=recipe.name,
        partitions=recipe.partitions,
        records=produced.records,
        offsets=TopicEnds(cluster, recipe.name, recipe.partitions).read(),
        codec=recipe.codec,
        value_bytes=produced.value_bytes,
        size_bytes=cluster.size_bytes(recipe.name),
    )
