"""Records as columns: judged by what went in, and by kafka-python."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from heliograph.model.errors import CorruptBatch, DecompressionLimit
from heliograph.wire.batch import Codec
from heliograph.wire.codecs import compress
from heliograph.wire.decode import decode
from heliograph.wire.kernels.loading import Kernels

from .batches import DEFAULT_TIMESTAMP, Record, make_batch
from .logs import Batch, Seen, batches, expected, seen

ONE: Record = (b"key", b"value", [("name", b"content")])


@given(batch=batches(list(Codec)), base_offset=st.integers(0, 2**60))
def test_columns_say_what_the_builder_put_in(kernels: Kernels, batch: Batch, base_offset: int) -> None:
    columns = decode(kernels, memoryview(batch.encode(base_offset)))
    assert seen(columns) == expected([batch], base_offset)


@given(batch=batches([Codec.NONE, Codec.GZIP]), base_offset=st.integers(0, 2**60))
def test_columns_say_what_kafka_python_says(kernels: Kernels, batch: Batch, base_offset: int) -> None:
    encoded = batch.encode(base_offset)
    peers = [
        Seen(peer.offset, peer.timestamp, peer.key, peer.value, tuple(peer.headers))
        for peer in DefaultRecordBatch(bytes(encoded))
    ]
    assert seen(decode(kernels, memoryview(encoded))) == peers


def test_with_log_append_time_every_record_has_the_batchs(kernels: Kernels) -> None:
    batch = make_batch([ONE, ONE], timestamps=[5, 9], timestamp=5, attributes=0x08)
    assert decode(kernels, memoryview(batch)).timestamp.tolist() == [9, 9]


def test_holes_between_offsets_are_kept(kernels: Kernels) -> None:
    batch = make_batch([ONE, ONE], base_offset=10, offset_deltas=[1, 7], last_offset_delta=9)
    assert [each.offset for each in seen(decode(kernels, memoryview(batch)))] == [11, 17]


def test_an_empty_batch_that_a_cleaner_kept_has_no_columns(kernels: Kernels) -> None:
    assert len(decode(kernels, memoryview(make_batch([], last_offset_delta=3)))) == 0


@pytest.mark.parametrize("count", [0, 2, 1000, 2**31 - 1])
def test_another_count_than_there_are_records_is_corrupt(kernels: Kernels, count: int) -> None:
    batch = make_batch([ONE])
    struct.pack_into(">i", batch, 57, count)
    with pytest.raises(CorruptBatch, match="does not hold the records"):
        decode(kernels, memoryview(batch))


def test_a_batch_that_holds_too_much_is_refused(kernels: Kernels) -> None:
    payload = make_batch([(None, bytes(50_000), [])])[61:]
    batch = make_batch([ONE], codec=Codec.ZSTD, compress=lambda _: compress(Codec.ZSTD, payload))
    with pytest.raises(DecompressionLimit):
        decode(kernels, memoryview(batch), limit_bytes=50_000)
    assert decode(kernels, memoryview(batch), limit_bytes=len(payload)).value_size.tolist() == [50_000]


def test_more_or_less_than_one_batch_is_refused(kernels: Kernels) -> None:
    batch = make_batch([ONE], timestamp=DEFAULT_TIMESTAMP)
    for wrong in (batch + batch, batch[:-1]):
        with pytest.raises(CorruptBatch):
            decode(kernels, memoryview(wrong))
