"""Logs as tests want them: batches with what is in them, by the independent builder of batches.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hypothesis import strategies as st

from heliograph.wire.batch import Codec
from heliograph.wire.codecs import compress
from heliograph.wire.decode import Columns

from .batches import DEFAULT_TIMESTAMP, Header, Record, make_batch

DELETE_HORIZON = 0x40

content = st.none() | st.binary(max_size=40)
record = st.tuples(content, content, st.lists(st.tuples(st.text(max_size=5), content), max_size=2))
moments = st.integers(DEFAULT_TIMESTAMP - 10**10, DEFAULT_TIMESTAMP + 10**10) | st.sampled_from(
    [-1, 0, 2**53]
)


class Seen(NamedTuple):
    """All that a consumer sees of a record."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """`base_timestamp` None: the first record's, as producers have it."""

    records: Sequence[tuple[Record, int]]
    codec: Codec = Codec.NONE
    base_timestamp: int | None = None
    attributes: int = 0
    leader_epoch: int = 0
    producer_id: int = -1

    def encode(self, base_offset: int) -> bytearray:
        times = [moment for _, moment in self.records]
        return make_batch(
            [record for record, _ in self.records],
            base_offset=base_offset,
            timestamp=times[0] if self.base_timestamp is None else self.base_timestamp,
            timestamps=times,
            codec=self.codec,
            attributes=self.attributes,
            leader_epoch=self.leader_epoch,
            producer_id=self.producer_id,
            compress=lambda payload: compress(self.codec, payload),
        )


def batches(codecs: Sequence[Codec] = (Codec.NONE,), *, max_size: int = 4) -> st.SearchStrategy[Batch]:
    """What producers write and cleaners leave: any order of timestamps, and delete horizons."""
    records = st.lists(st.tuples(record, moments), min_size=1, max_size=max_size)
    produced = st.builds(Batch, records=records, codec=st.sampled_from(codecs))
    cleaned = st.builds(
        Batch,
        records=records,
        codec=st.sampled_from(codecs),
        base_timestamp=moments,
        attributes=st.just(DELETE_HORIZON),
    )
    return produced | cleaned


def encode(log: Iterable[Batch], base_offset: int = 0) -> list[bytearray]:
    """One behind the other, with no offset left out."""
    encoded = []
    for batch in log:
        encoded.append(batch.encode(base_offset))
        base_offset += len(batch.records)
    return encoded


def view(encoded: Iterable[bytes | bytearray]) -> memoryview:
    return memoryview(bytearray(b"".join(encoded)))


def expected(log: Iterable[Batch], base_offset: int = 0) -> list[Seen]:
    everything = [pair for batch in log for pair in batch.records]
    return [
        Seen(offset, moment, key, value, tuple(headers))
        for offset, ((key, value, headers), moment) in enumerate(everything, base_offset)
    ]


def seen(columns: Columns) -> list[Seen]:
    """What `decode` says, as values."""

    def field(at: int, size: int) -> bytes | None:
        return None if size < 0 else bytes(columns.data[at : at + size])

    found = []
    for nth in range(len(columns)):
        headers = []
        for of in range(columns.first_header[nth], columns.first_header[nth + 1]):
            name = field(columns.header_key_at[of], columns.header_key_size[of])
            assert name is not None
            headers.append((name.decode(), field(columns.header_value_at[of], columns.header_value_size[of])))
        found.append(
            Seen(
                columns.base_offset + int(columns.offset_delta[nth]),
                int(columns.timestamp[nth]),
                field(columns.key_at[nth], columns.key_size[nth]),
                field(columns.value_at[nth], columns.value_size[nth]),
                tuple(headers),
            )
        )
    return found
