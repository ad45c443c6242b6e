"""Fillers: batches of minimal records, made quickly, known again exactly."""

from __future__ import annotations

import gzip

import pytest
from cramjam import zstd
from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.errors import CorruptBatch
from heliograph.wire.batch import Codec, read_header, verify_crc
from heliograph.wire.filler import MOST_RECORDS, filler_batch, is_filler

from .batches import TRANSACTIONAL, Record, make_batch
from .sparse_logs import EMPTY, marked

NOW_MS = 1_700_000_000_000
COUNTS = (1, 2, 63, 64, 65, 8_191, 8_192, 8_193, 99_999, 100_000)


def made(count: int) -> memoryview:
    return memoryview(
        filler_batch(count, producer_id=0x48 << 56, producer_epoch=3, base_sequence=17, timestamp_ms=NOW_MS)
    )


def known(batch: bytes | bytearray | memoryview) -> bool:
    view = memoryview(batch)
    return is_filler(read_header(view), view)


def built(records: list[Record], **changed: object) -> bytearray:
    """By the independent builder."""
    settings: dict[str, object] = {"codec": Codec.ZSTD, "compress": pack, "timestamp": NOW_MS, **changed}
    return make_batch(records, **settings)  # type: ignore[arg-type]


def pack(payload: bytes) -> bytes:
    return bytes(zstd.compress(payload, level=1))


@pytest.mark.parametrize("count", COUNTS)
def test_a_filler_holds_so_many_records_without_key_value_or_headers(count: int) -> None:
    batch = made(count)
    header = read_header(batch)
    verify_crc(header, batch)
    assert header.size_bytes == len(batch)
    assert (header.base_offset, header.leader_epoch, header.codec) == (0, -1, Codec.ZSTD)
    assert (header.records_count, header.is_dense) == (count, True)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (0x48 << 56, 3, 17)
    assert (header.base_timestamp, header.max_timestamp) == (NOW_MS, NOW_MS)
    assert not header.is_transactional
    assert not header.is_control
    records = bytes(zstd.decompress(batch[61:]))
    assert records == b"".join(marked(delta) for delta in range(count))
    assert known(batch)


def test_a_hundred_thousand_fillers_take_less_than_a_byte_each() -> None:
    assert len(made(MOST_RECORDS)) < MOST_RECORDS


@given(count=st.integers(1, 300))
def test_fillers_that_somebody_else_compressed_are_known(count: int) -> None:
    batch = bytearray(made(count)[:61]) + pack(bytes(zstd.decompress(made(count)[61:])))
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    assert known(batch)


@pytest.mark.parametrize(
    "batch",
    [
        built([EMPTY] * 3),  # somebody's own records, which hold nothing
        built([EMPTY, EMPTY, (None, b"", ())]),
        built([(b"", None, ()), EMPTY]),
        built([EMPTY, (None, None, [("h", None)])]),
        built([(None, b"x" * 100_000, ())]),
        built([EMPTY] * 3, timestamps=[NOW_MS, NOW_MS, NOW_MS + 1]),
        built([EMPTY] * 3, offset_deltas=[0, 1, 3], last_offset_delta=3),
        built([EMPTY] * 3, offset_deltas=[0, 2, 1]),
        built([EMPTY] * 3, attributes=TRANSACTIONAL),
        built([], last_offset_delta=0),
        built([EMPTY] * 3, codec=Codec.GZIP, compress=gzip.compress),
        make_batch([EMPTY] * 3),
    ],
)
def test_any_other_batch_is_no_filler(batch: bytearray) -> None:
    assert not known(batch)


def test_a_batch_that_says_another_number_of_records_than_it_holds_is_no_filler() -> None:
    for said in (2, 4):
        batch = made(3).tobytes()
        batch = (
            batch[:23] + (said - 1).to_bytes(4, "big") + batch[27:57] + said.to_bytes(4, "big") + batch[61:]
        )
        assert not known(batch)
    too_many = (MOST_RECORDS + 1).to_bytes(4, "big")
    batch = made(3).tobytes()
    assert not known(batch[:23] + MOST_RECORDS.to_bytes(4, "big") + batch[27:57] + too_many + batch[61:])


def test_bytes_that_zstd_did_not_make_are_corrupt() -> None:
    batch = bytearray(made(1000))
    batch[61:65] = b"\0\0\0\0"
    with pytest.raises(CorruptBatch):
        known(batch)


@pytest.mark.parametrize("count", [0, MOST_RECORDS + 1])
def test_no_batch_is_empty_or_larger_than_a_broker_likes(count: int) -> None:
    with pytest.raises(AssertionError):
        made(count)
