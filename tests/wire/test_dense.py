"""Batches of records and fillers: dense over a range of offsets, with every record as it was."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from heliograph.model.errors import CorruptBatch, DecompressionLimit
from heliograph.wire.batch import BatchHeader, Codec, read_header, verify_crc
from heliograph.wire.codecs import decompress
from heliograph.wire.dense import MOST_OFFSETS, PLAIN_BYTES, Dense, dense_batch
from heliograph.wire.filler import last_filler_offset
from heliograph.wire.kernels.loading import Kernels
from heliograph.wire.recode import TooLarge

from .batches import Record, make_batch
from .logs import Seen
from .sparse_logs import (
    EMPTY,
    SparseBatch,
    batches_of,
    dense_payload,
    held_by,
    holes_of,
    marked,
    sparse_logs,
)

NOW_MS = 1_700_000_500_000
ONE: Record = (b"key", b"value", [("h", b"1")])


def made(
    kernels: Kernels,
    batches: Iterable[tuple[BatchHeader, memoryview]],
    first_offset: int,
    next_offset: int,
    **changed: Any,
) -> Dense | TooLarge:
    asked: dict[str, Any] = {
        "filler_time_ms": NOW_MS,
        "codec": Codec.NONE,
        "limit_bytes": 1 << 20,
        "producer_id": 0x48 << 56,
        "producer_epoch": 3,
        "base_sequence": 17,
        **changed,
    }
    return dense_batch(kernels, batches, first_offset=first_offset, next_offset=next_offset, **asked)


def certainly(dense: Dense | TooLarge) -> Dense:
    assert isinstance(dense, Dense)
    return dense


def at(*offsets: int, codec: Codec = Codec.NONE, value: bytes = b"value") -> list[SparseBatch]:
    """A batch for each."""
    return [
        SparseBatch(base_offset=offset, span=1, records={0: ((b"key", value, ()), NOW_MS - 5)}, codec=codec)
        for offset in offsets
    ]


def payload(batch: memoryview) -> bytes:
    header = read_header(batch)
    return bytes(decompress(header.codec, batch[61:]))


@given(log=sparse_logs(), codec=st.sampled_from(Codec), start=st.integers(0, 90), size=st.integers(1, 300))
def test_a_dense_batch_holds_every_record_as_it_was_and_fillers_elsewhere(
    kernels: Kernels, log: list[SparseBatch], codec: Codec, start: int, size: int
) -> None:
    first = (log[0].base_offset if log else 0) + start
    stop = first + size
    dense = certainly(made(kernels, batches_of(log), first, stop, codec=codec, holes=holes_of(log)))
    held = held_by(log)
    header = read_header(dense.batch)
    verify_crc(header, dense.batch)
    assert payload(dense.batch) == dense_payload(held, first, stop, NOW_MS)
    inside = [seen for offset, seen in held.items() if first <= offset < stop]
    times = [seen.timestamp for seen in inside] + [NOW_MS] * (len(inside) < size)
    assert (dense.next_offset, dense.records) == (stop, len(inside))
    assert (dense.max_timestamp, header.max_timestamp) == (max(times), max(times))
    assert header == BatchHeader(
        0,
        len(dense.batch) - 12,
        -1,
        2,
        header.crc,
        codec,
        size - 1,
        NOW_MS,
        max(times),
        0x48 << 56,
        3,
        17,
        size,
    )


@given(log=sparse_logs((Codec.NONE,)), size=st.integers(1, 120))
def test_an_independent_decoder_reads_what_the_source_held(
    kernels: Kernels, log: list[SparseBatch], size: int
) -> None:
    first = log[0].base_offset if log else 0
    dense = certainly(made(kernels, batches_of(log), first, first + size, holes=holes_of(log)))
    peers = {
        first + peer.offset: Seen(
            first + peer.offset, peer.timestamp, peer.key, peer.value, tuple(peer.headers)
        )
        for peer in DefaultRecordBatch(bytes(dense.batch))
    }
    assert list(peers) == list(range(first, first + size))
    for offset, seen in held_by(log).items():
        if offset < first + size:
            assert peers[offset] == seen


@given(
    log=sparse_logs((Codec.NONE,)),
    size=st.integers(1, 200),
    limit=st.integers(0, 1500),
    codec=st.sampled_from(Codec),
)
def test_the_range_is_cut_to_what_fits_and_the_rest_follows(
    kernels: Kernels, log: list[SparseBatch], size: int, limit: int, codec: Codec
) -> None:
    first = log[0].base_offset if log else 0
    stop, held = first + size, held_by(log)
    position = first
    while position < stop:
        asked = {"codec": codec, "holes": holes_of(log), "limit_bytes": limit}
        dense = made(kernels, batches_of(log), position, stop, **asked)
        if isinstance(dense, TooLarge):
            alone = certainly(
                made(kernels, batches_of(log), position, position + 1, **asked | {"limit_bytes": 10**6})
            )
            assert len(alone.batch) == dense.size_bytes > limit
            key = held[position].key if position in held else None
            assert (dense.first_offset, dense.key) == (position, key)
            return
        assert len(dense.batch) <= limit
        assert position < dense.next_offset <= stop
        assert payload(dense.batch) == dense_payload(held, position, dense.next_offset, NOW_MS)
        position = dense.next_offset


@given(log=sparse_logs((Codec.NONE,)), size=st.integers(2, 100), less=st.integers(1, 40))
def test_without_compression_not_one_more_offset_would_have_fitted(
    kernels: Kernels, log: list[SparseBatch], size: int, less: int
) -> None:
    first = log[0].base_offset if log else 0
    wanted = {"holes": holes_of(log)}
    whole = certainly(made(kernels, batches_of(log), first, first + size, **wanted))
    limit = len(whole.batch) - less
    cut = made(kernels, batches_of(log), first, first + size, limit_bytes=limit, **wanted)
    fitted = cut.next_offset if isinstance(cut, Dense) else first
    assert fitted < first + size
    more = certainly(made(kernels, batches_of(log), first, fitted + 1, **wanted))
    assert len(more.batch) > limit


@pytest.mark.parametrize("codec", Codec)
def test_a_hundred_thousand_offsets_are_one_batch(kernels: Kernels, codec: Codec) -> None:
    log = at(*range(7, MOST_OFFSETS, 997), codec=Codec.LZ4)
    dense = certainly(made(kernels, batches_of(log), 0, MOST_OFFSETS, codec=codec))
    assert (dense.next_offset, dense.records) == (MOST_OFFSETS, len(log))
    assert payload(dense.batch) == dense_payload(held_by(log), 0, MOST_OFFSETS, NOW_MS)


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_of_fillers_only_has_their_time_and_no_records(kernels: Kernels, codec: Codec) -> None:
    dense = certainly(made(kernels, [], 10**12, 10**12 + 70, codec=codec))
    assert (dense.records, dense.max_timestamp) == (0, NOW_MS)
    assert payload(dense.batch) == b"".join(map(marked, range(70)))


def test_a_range_in_which_every_offset_has_a_record_has_no_filler_and_not_their_time(
    kernels: Kernels,
) -> None:
    log = at(3, 4, 5)
    dense = certainly(made(kernels, batches_of(log), 3, 6))
    header = read_header(dense.batch)
    assert (header.base_timestamp, header.max_timestamp, dense.records) == (NOW_MS, NOW_MS - 5, 3)
    assert last_filler_offset(kernels, header, dense.batch) is None


@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.LZ4, Codec.ZSTD, Codec.GZIP])
def test_a_record_that_is_larger_than_a_portion_goes_by_itself(kernels: Kernels, codec: Codec) -> None:
    log = at(3, 4, value=bytes(PLAIN_BYTES[codec] + 1))
    dense = certainly(made(kernels, batches_of(log), 3, 9, codec=codec))
    assert (dense.next_offset, dense.records) == (4, 1)
    assert payload(dense.batch) == dense_payload(held_by(log), 3, 4, NOW_MS)


def test_more_than_a_portion_is_not_read_at_once(kernels: Kernels) -> None:
    """Decompressed batches are memory that nobody accounts for."""
    log = at(*range(0, 40, 10), codec=Codec.ZSTD, value=bytes(1_000_000))
    damaged = batches_of(log)
    damaged[-1][1][-1] ^= 1
    dense = certainly(made(kernels, damaged, 0, 40, codec=Codec.ZSTD))
    assert (dense.next_offset, dense.records) == (20, 2)  # the last one was not even looked at


def test_records_that_do_not_compress_are_cut_to_the_limit_wherever_they_are(kernels: Kernels) -> None:
    noise = bytes(range(256)) * 4
    front = SparseBatch(
        base_offset=0,
        span=1000,
        records={nth: ((bytes([nth % 251, nth % 7]) + noise, None, ()), NOW_MS) for nth in range(300)},
    )
    for limit in (1500, 5_000, 60_000):
        dense = certainly(made(kernels, batches_of([front]), 0, 90_000, codec=Codec.LZ4, limit_bytes=limit))
        assert len(dense.batch) <= limit


def test_a_corrupt_batch_is_not_given_a_new_checksum(kernels: Kernels) -> None:
    batches = batches_of(at(3, 9))
    batches[1][1][-3] ^= 1
    with pytest.raises(CorruptBatch, match="checksum"):
        made(kernels, batches, 0, 20)


def test_batches_that_overlap_are_corrupt(kernels: Kernels) -> None:
    log = [SparseBatch(base_offset=3, span=5, records={}), *at(6)]
    with pytest.raises(CorruptBatch, match="begins inside"):
        made(kernels, batches_of(log), 0, 20)


def test_records_that_are_none_are_corrupt(kernels: Kernels) -> None:
    view = memoryview(make_batch([ONE], compress=lambda _: b"\x02\0"))
    with pytest.raises(CorruptBatch, match="does not hold"):
        made(kernels, [(read_header(view), view)], 0, 5)


def test_a_batch_that_holds_too_much_is_refused(kernels: Kernels) -> None:
    log = at(0, codec=Codec.ZSTD, value=bytes(50_000))
    with pytest.raises(DecompressionLimit):
        made(kernels, batches_of(log), 0, 5, inflate_bytes=50_000)


@pytest.mark.parametrize(("first", "stop"), [(5, 5), (5, 4), (0, MOST_OFFSETS + 1)])
def test_no_batch_is_empty_or_larger_than_a_broker_likes(kernels: Kernels, first: int, stop: int) -> None:
    with pytest.raises(AssertionError):
        made(kernels, [], first, stop)


@given(log=sparse_logs(), codec=st.sampled_from(Codec), size=st.integers(1, 200), data=st.data())
def test_fillers_are_found_among_records(
    kernels: Kernels, log: list[SparseBatch], codec: Codec, size: int, data: st.DataObject
) -> None:
    first = log[0].base_offset if log else 0
    dense = certainly(made(kernels, batches_of(log), first, first + size, codec=codec, holes=holes_of(log)))
    view = dense.batch
    view[:8] = first.to_bytes(8, "big")  # as the broker does
    header = read_header(view)
    held = held_by(log)
    fillers = [offset for offset in range(first, first + size) if offset not in held]
    assert last_filler_offset(kernels, header, view) == max(fillers, default=None)
    least = data.draw(st.integers(first, first + size))
    below = data.draw(st.integers(first, first + size + 5))
    inside = [offset for offset in fillers if least <= offset < below]
    found = last_filler_offset(kernels, header, view, first_offset=least, next_offset=below)
    assert found == max(inside, default=None)


@pytest.mark.parametrize(
    "records", [[EMPTY], [(b"", None, ())], [(None, b"", ())], [(None, None, [("h", None)])], [ONE], []]
)
def test_a_record_without_the_mark_is_no_filler(kernels: Kernels, records: list[Record]) -> None:
    view = memoryview(make_batch(records, last_offset_delta=0))
    assert last_filler_offset(kernels, read_header(view), view) is None


@pytest.mark.parametrize("record", [(b"", None, ()), (None, b"", ()), (None, None, [("h", None)])])
def test_a_record_with_the_mark_that_holds_something_is_no_filler(kernels: Kernels, record: Record) -> None:
    view = memoryview(make_batch([record], compress=lambda body: body[:1] + b"H" + body[2:]))
    assert last_filler_offset(kernels, read_header(view), view) is None
    filler = memoryview(make_batch([EMPTY], compress=lambda body: body[:1] + b"H" + body[2:]))
    assert last_filler_offset(kernels, read_header(filler), filler) == 0


def test_a_batch_whose_records_cannot_be_read_is_corrupt(kernels: Kernels) -> None:
    view = memoryview(make_batch([ONE], compress=lambda _: b"\x02\0"))
    with pytest.raises(CorruptBatch, match="does not hold"):
        last_filler_offset(kernels, read_header(view), view)
