"""Records of the kinds that a wild topic mixes: fresh, days old, and as large as brokers take by default.

Owns what is in them. All have keys, most of which come again soon: a topic that is compacted takes them too, and loses
most of them. Must not know who sends them.
"""

from __future__ import annotations

import random
import time

from .records import HEADERS, LARGE_BYTES, Record

HOT_KEYS = 50
LIVE_EVERY = 20  # of so many records one has a key of its own: compaction leaves it, amid holes
TOMBSTONE_EVERY = 37
LARGE_KEYS = 3  # so that a compacted topic does not grow by each
LARGE_EVERY = 150  # of the records of transactions
OLD_EVERY = 7
DAY_MS = 86_400_000
DAYS_OLD = range(2, 6)  # brokers forget producers after one, and delete after seven


def fresh(number: int) -> Record:
    return Record(
        key=_key(b"fresh", number),
        value=None if number % TOMBSTONE_EVERY == 0 else b'{"number": %d, "city": "sf"}' % number,
        headers=HEADERS[number % len(HEADERS)],
        timestamp_ms=_now_ms(),
    )


def old(number: int) -> Record:
    days = DAYS_OLD[number % len(DAYS_OLD)]
    return Record(
        key=_key(b"old", number),
        value=b"%d, %d days ago" % (number, days),
        timestamp_ms=_now_ms() - days * DAY_MS,
    )


def large(number: int) -> Record:
    """Of random bytes: no codec makes it smaller."""
    return Record(
        key=b"large %d" % (number % LARGE_KEYS),
        value=random.Random(number).randbytes(LARGE_BYTES),
        timestamp_ms=_now_ms(),
    )


def any_kind(number: int) -> Record:
    if number % LARGE_EVERY == 0:
        return large(number)
    return old(number) if number % OLD_EVERY == 0 else fresh(number)


def _key(kind: bytes, number: int) -> bytes:
    if number % LIVE_EVERY == 0:
        return b"%s live %d" % (kind, number)
    return b"%s hot %d" % (kind, number % HOT_KEYS)


def _now_ms() -> int:
    return int(time.time() * 1000)
