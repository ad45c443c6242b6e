"""What the simulated source holds: small batches, built once per kind and used by every seed.

Kinds differ in the time of their records, which decides whether brokers forget us, in whether neighbours are alike, and
in what stops a partition. Codecs are another matter: any kind may have any.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

from heliograph.wire.batch import BatchHeader, Codec, read_header
from heliograph.wire.codecs import compress
from tests.wire.batches import Record, make_batch

from .raw_batch import HOUR_MS

EPOCH_MS = 1_790_000_000_000  # the wall clock's reading when a simulation begins
BATCHES = 64  # of a partition, where a plan does not say more
BIG_AT = {"big": 0, "big and old": 7}  # which batch is too large for the target
BIG_BYTES = 400
LOG_APPEND_TIME = 0x08
MOST_BYTES = 140  # of all batches but big ones: a topic that takes less takes nothing

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
    "hole": lambda _at: 0,
    "compacted": lambda _at: 0,
    "built": lambda _at: 0,
    "built, old": lambda _at: 72,
    "built, old in turn": lambda at: 72 if at // 6 % 2 else 0,
    "built, of today": lambda _at: 5,
}
# Of compacted topics: their targets are built. Not drawn for other worlds.
BUILT_KINDS = ("built", "built, old", "built, old in turn", "built, of today")
KINDS = tuple(kind for kind in AGES_HOURS if kind not in BUILT_KINDS)

PLAIN = "plain"
_EACH = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
CODECS: dict[str, Callable[[int], Codec]] = {
    PLAIN: lambda _at: Codec.NONE,
    "gzip in between": lambda at: Codec.GZIP if at % 7 in (3, 4) else Codec.NONE,
    "lz4": lambda _at: Codec.LZ4,
    "each in turn": lambda at: _EACH[at // 3 % len(_EACH)],
}

# Of a partition's records, one after the other: neither in order nor of one time in a batch.
_LATER_MS = (0, -40, 7, 2900, -1300)


def hole_before(kind: str, at: int) -> int:
    """How many offsets are missing before a batch."""
    if kind == "compacted":
        return 3 if at % 11 == 5 else 0
    if kind in BUILT_KINDS:
        return 9 if at % 11 == 5 else 0
    return 2 if (kind, at) == ("hole", 40) else 0


class Made(NamedTuple):
    header: BatchHeader
    data: bytes


@cache
def made(kind: str, at: int, version: int = 0, codecs: str = PLAIN) -> Made:
    """`version`: another history of the same topic has other records and, partly, other boundaries."""
    count = 1 if kind == "alike" else (1, 2, 1, 3)[(at + version) % 4]
    codec = Codec.NONE if at == BIG_AT.get(kind) else CODECS[codecs](at)
    data = _batch(kind, version, at, count, codec)
    return Made(read_header(memoryview(data)), bytes(data))


def _batch(kind: str, version: int, at: int, count: int, codec: Codec) -> bytearray:
    base = EPOCH_MS - AGES_HOURS[kind](at) * HOUR_MS
    records: list[Record] = [(None, b"same", ())]
    times = [base]
    if kind != "alike" or version:
        records = [_record(kind, version, at, nth) for nth in range(count)]
        times = [base + _LATER_MS[(2 * at + nth) % len(_LATER_MS)] for nth in range(count)]
    return make_batch(
        records,
        timestamp=times[0],
        timestamps=times,
        codec=codec,
        compress=partial(compress, codec),
        **_form(kind, at, len(records)),
    )


def _form(kind: str, at: int, count: int) -> dict[str, Any]:
    """What a cleaner leaves of some batches, and what a topic with log append time holds."""
    if kind != "compacted" and kind not in BUILT_KINDS:
        return {}
    form: dict[str, Any] = {"attributes": LOG_APPEND_TIME if at % 7 == 3 else 0}
    if at % 5 in (1, 2) and (kind == "compacted" or at % 12 < 6):  # and long stretches without a hole
        form |= {
            "offset_deltas": [1 + 2 * nth for nth in range(count)],
            "last_offset_delta": 2 * count + at % 2,
        }
    return form


def _record(kind: str, version: int, at: int, nth: int) -> Record:
    value = b"%d.%d.%d" % (at, version, nth)
    if at == BIG_AT.get(kind):
        value = value.ljust(BIG_BYTES, b".")
    key = None if at % 3 else b"k"
    if kind in BUILT_KINDS:  # a cleaner takes all that have none, and all but the last of each
        key = b"%d.%d.%d" % (version, at, nth)
    return key, value, (("h", b"x"),) if at % 5 == nth else ()
