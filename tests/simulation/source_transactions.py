"""How the producers of a source partition write: who writes which batch, and how transactions end.

Owns the styles, and every choice: drawn from the partition's story and the number of the batch, so that it is the same
whenever it is told. A transaction that a truncated log has opened again ends as it did. Must not know logs: what is
open is told.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from crc32c import crc32c

from heliograph.wire.batch import BatchHeader

from .control_batch import TRANSACTIONAL, EndMarker

NO_TRANSACTIONS = ""
PRODUCERS = (7001, 7002, 7003)
HOLDER = 7009  # keeps one transaction open for long
HELD_FROM = 20  # by which batch it begins
COORDINATOR_EPOCH = 3
_CRC, _CRC_AT = struct.Struct(">I"), 17
_ATTRIBUTES, _ATTRIBUTES_AT = struct.Struct(">h"), 21
_PRODUCER, _PRODUCER_AT = struct.Struct(">qhi"), 43


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """`plain`: of how many batches nobody is a transaction's. `ends`: how often an open one ends behind a batch.
    `empty`: how often one ends that holds nothing. `held_s`: how long one stays open, at times for ever."""

    producers: tuple[int, ...] = PRODUCERS
    plain: float = 0.0
    ends: float = 0.4
    aborts: float = 0.3
    empty: float = 0.0
    held_s: tuple[float, float] | None = None
    for_ever: bool = False


STYLES = {
    "one after the other": Style(producers=PRODUCERS[:1], aborts=0.0),
    "some aborted": Style(),
    "all aborted": Style(aborts=1.0, ends=0.6),
    "beside plain ones": Style(plain=0.5, empty=0.1),
    "long ones": Style(ends=0.1, aborts=0.5),
    "one held open": Style(plain=0.3, held_s=(5.0, 40.0)),
    "one for ever": Style(plain=0.3, for_ever=True),
}


@dataclass(slots=True)
class SourceProducers:
    """`story`: what its chances are drawn from, beside the number of a batch."""

    style: Style
    story: str
    _outcomes: dict[tuple[int, int], bool] = field(default_factory=dict)

    def writer(self, at: int) -> int | None:
        """Who writes this batch in a transaction; None: it is of none."""
        if at == HELD_FROM and (self.style.held_s or self.style.for_ever):
            return HOLDER
        chance = self._chance(at, "writer")
        return None if chance.random() < self.style.plain else chance.choice(self.style.producers)

    def held_s(self) -> float | None:
        """How long the transaction of HOLDER stays open; None: for ever."""
        return self._chance(HELD_FROM, "held").uniform(*self.style.held_s) if self.style.held_s else None

    def ends(self, at: int, open_at: Mapping[int, int], *, last: bool) -> Iterator[EndMarker]:
        """What ends behind this batch, of all that is open; behind the last one all but HOLDER's."""
        chance = self._chance(at, "ends")
        for number in self.style.producers:
            draws = chance.random(), chance.random()
            if number in open_at and (last or draws[0] < self.style.ends):
                yield self.end(number, open_at[number])
            elif number not in open_at and draws[1] < self.style.empty:
                yield EndMarker(number, 0, COORDINATOR_EPOCH)

    def end(self, number: int, first_offset: int) -> EndMarker:
        chance = self._chance(first_offset, f"outcome for {number}")
        commits = self._outcomes.setdefault((number, first_offset), chance.random() >= self.style.aborts)
        return EndMarker(number, 0, COORDINATOR_EPOCH, commits)

    def _chance(self, at: int, what: str) -> random.Random:
        return random.Random(f"{self.story} {at} {what}")


def in_transaction(
    header: BatchHeader, batch: bytes, number: int, sequence: int
) -> tuple[BatchHeader, bytes]:
    """The same records, as a transactional producer sends them."""
    data = bytearray(batch)
    attributes = header.attributes | TRANSACTIONAL
    _ATTRIBUTES.pack_into(data, _ATTRIBUTES_AT, attributes)
    _PRODUCER.pack_into(data, _PRODUCER_AT, number, 0, sequence)
    crc = crc32c(data[_ATTRIBUTES_AT:])
    _CRC.pack_into(data, _CRC_AT, crc)
    return (
        header._replace(
            attributes=attributes, producer_id=number, producer_epoch=0, base_sequence=sequence, crc=crc
        ),
        bytes(data),
    )
