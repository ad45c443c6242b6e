"""Records of every kind that a mirror must carry unchanged, made from a seed.

Owns what is in a record. Must not know who sends it: librdkafka and Kafka's Java client send the same ones.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

LARGE_BYTES = 900_000  # random, so no codec makes it smaller; fits the broker's default limit of 1,048,588
LARGE_RECORDS = 4
HOUR_MS = 3_600_000

# Recent, because retention and the expiry of producer state go by record timestamps; fixed for a session.
FIRST_MS = int(time.time() * 1000) - HOUR_MS

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int = FIRST_MS


HEADERS: tuple[tuple[Header, ...], ...] = (
    (),
    (("trace", b"4bf92f35"),),
    (("hop", b"sf"), ("hop", b"nyc"), ("hop", b"sf")),
    (("null", None), ("empty", b"")),
    (("", b"a name may be empty"), ("größe", "größer".encode()), ("binary", bytes(range(256)))),
)


def mixed_records(seed: int, count: int, *, first_ms: int = FIRST_MS) -> Iterator[Record]:
    """`count` records, the same for the same arguments; a few large ones when there are a hundred or more."""
    chance = random.Random(seed)
    large = (
        {count * nth // (LARGE_RECORDS + 1) for nth in range(1, LARGE_RECORDS + 1)} if count >= 100 else set()
    )
    for number in range(count):
        yield Record(
            key=_key(chance, number),
            value=chance.randbytes(LARGE_BYTES) if number in large else _value(chance, number),
            headers=HEADERS[chance.randrange(len(HEADERS))],
            timestamp_ms=first_ms + number % HOUR_MS // 2 - chance.randrange(60_000),  # not in order
        )


def _key(chance: random.Random, number: int) -> bytes | None:
    kind = chance.randrange(5)
    if kind == 0:
        return None
    if kind == 1:
        return b""
    return b"key-%d" % chance.randrange(50) if kind == 2 else b"%016d" % number


def _value(chance: random.Random, number: int) -> bytes | None:
    kind = chance.randrange(12)
    if kind == 0:
        return None
    if kind == 1:
        return b""
    if kind == 2:
        return chance.randbytes(chance.randrange(1, 2_000))
    if kind == 3:
        return b"again and " * chance.randrange(1, 300)
    return b'{"number": %d, "city": "sf", "amount": %d}' % (number, chance.randrange(10**6))
