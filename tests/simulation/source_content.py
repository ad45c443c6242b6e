"""What the simulated source holds: small batches, built once per kind and used by every seed.

Kinds differ in the time of their records, which decides whether brokers forget us, and in whether neighbours are alike.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from heliograph.wire.batch import BatchHeader, read_header
from tests.wire.batches import make_batch

from .raw_batch import HOUR_MS

EPOCH_MS = 1_790_000_000_000  # the wall clock's reading when a simulation begins
BATCHES = 64  # of a partition, where a plan does not say more
BIG_AT = {"big": 0, "big and old": 7}  # which batch is too large for the target
BIG_BYTES = 400

AGES_HOURS: dict[str, Callable[[int], int]] = {
    "fresh": lambda _at: 0,
    "old": lambda _at: 72,
    "half a day": lambda _at: 13,
    "older, then fresh": lambda at: 72 if at < BATCHES // 2 else 0,
    "old and fresh in turn": lambda at: 72 if at // 3 % 2 else 0,
    "fresh, then older": lambda at: 72 if at >= 24 else 0,
    "alike": lambda _at: 0,
    "big": lambda _at: 0,
    "big and old": lambda _at: 72,
    "future": lambda at: -2 if at == 9 else 0,
}
KINDS = tuple(AGES_HOURS)


class Made(NamedTuple):
    header: BatchHeader
    data: bytes


@cache
def made(kind: str, at: int, version: int = 0) -> Made:
    """`version`: another history of the same topic has other records and, partly, other boundaries."""
    count = 1 if kind == "alike" else (1, 2, 1, 3)[(at + version) % 4]
    data = _batch(kind, version, at, count)
    return Made(read_header(memoryview(data)), bytes(data))


def _batch(kind: str, version: int, at: int, count: int) -> bytearray:
    value = b"same" if kind == "alike" and version == 0 else b"%d.%d" % (at, version)
    if at == BIG_AT.get(kind):
        value = value.ljust(BIG_BYTES, b".")
    timestamp = EPOCH_MS - AGES_HOURS[kind](at) * HOUR_MS
    return make_batch([(None, value, ())] * count, timestamp=timestamp)
