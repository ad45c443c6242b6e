"""Record batch headers: split, verify, rewrite, compare; judged by a builder of its own and kafka-python."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from heliograph.model.errors import CorruptBatch, ProtocolError
from heliograph.wire.batch import (
    HEADER_BYTES,
    Codec,
    payload_equal,
    read_header,
    rewrite,
    split_batches,
    verify_crc,
)
from heliograph.wire.batch_layout import ATTRIBUTES_AT, DELETE_HORIZON

from .batches import DEFAULT_TIMESTAMP, TRANSACTIONAL, Record, make_batch, make_legacy_message

CRC_FROM = 21
content = st.none() | st.binary(max_size=40)
record = st.tuples(content, content, st.lists(st.tuples(st.text(max_size=5), content), max_size=2))
record_lists = st.lists(record, min_size=1, max_size=5)
ONE: list[Record] = [(b"k", b"v", [])]


def joined(*batches: bytes | bytearray) -> memoryview:
    return memoryview(bytearray(b"".join(batches)))


@given(records=record_lists, base_offset=st.integers(0, 2**60), codec=st.sampled_from([0, 1]))
def test_header_says_what_the_builder_put_in(records: list[Record], base_offset: int, codec: int) -> None:
    batch = make_batch(records, base_offset=base_offset, leader_epoch=7, codec=codec, producer_id=9)
    header = read_header(memoryview(batch))
    assert (header.base_offset, header.leader_epoch, header.magic) == (base_offset, 7, 2)
    assert header.size_bytes == len(batch)
    assert header.next_offset == base_offset + len(records)
    assert header.records_count == len(records)
    assert (header.base_timestamp, header.max_timestamp) == (DEFAULT_TIMESTAMP, DEFAULT_TIMESTAMP)
    assert header.producer_id == 9
    assert header.codec is Codec(codec)
    assert header.is_dense
    verify_crc(header, memoryview(batch))


@pytest.mark.parametrize(
    ("attributes", "flags"),
    [
        (0, (False, False, False)),
        (0x10, (True, False, False)),
        (0x30, (True, True, False)),
        (8, (False, False, True)),
    ],
)
def test_attribute_bits_are_read_apart(attributes: int, flags: tuple[bool, bool, bool]) -> None:
    header = read_header(memoryview(make_batch(ONE, attributes=attributes)))
    assert (header.is_transactional, header.is_control, header.is_log_append_time) == flags


def test_a_batch_with_holes_is_not_dense() -> None:
    header = read_header(memoryview(make_batch(ONE, last_offset_delta=4)))
    assert not header.is_dense
    assert header.next_offset == 5


def test_an_unknown_codec_is_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="unknown codec 5"):
        _ = read_header(memoryview(make_batch(ONE, attributes=5))).codec


@given(groups=st.lists(record_lists, min_size=1, max_size=4), cut=st.integers(0, 10_000))
def test_a_cut_last_batch_is_dropped_and_the_others_come_whole(groups: list[list[Record]], cut: int) -> None:
    batches = [bytes(make_batch(group, base_offset=100 * nth)) for nth, group in enumerate(groups)]
    whole = b"".join(batches)
    kept = whole[: len(whole) - cut % len(batches[-1])]
    expected = batches if kept == whole else batches[:-1]
    assert [bytes(view) for _, view in split_batches(memoryview(kept))] == expected


def test_split_views_share_the_answers_memory() -> None:
    records = joined(make_batch(ONE), make_batch(ONE, base_offset=1))
    for _, view in split_batches(records):
        assert view.obj is records.obj


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_named_so_that_the_caller_can_refuse_them(magic: int) -> None:
    first = make_legacy_message(b"", offset=41, magic=magic)
    second = make_legacy_message(b"x" * 200, offset=42, magic=magic, attributes=0x0B)
    third = make_batch(ONE, base_offset=43)
    (h1, v1), (h2, v2), (h3, v3) = split_batches(joined(first, second, third))
    assert (h1.magic, h1.base_offset, h1.next_offset) == (magic, 41, 42)
    assert (h2.magic, h2.base_offset, h2.codec) == (magic, 42, Codec.LZ4)
    assert not h1.is_dense
    assert (h3.magic, h3.base_offset) == (2, 43)
    assert [bytes(v1), bytes(v2), bytes(v3)] == [bytes(first), bytes(second), bytes(third)]
    with pytest.raises(CorruptBatch, match="offset 41 has format"):
        verify_crc(h1, v1)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_lone_old_message_shorter_than_a_batch_header_is_found(magic: int) -> None:
    message = make_legacy_message(b"", offset=3, magic=magic)
    assert len(message) < HEADER_BYTES
    [(header, view)] = split_batches(memoryview(message))
    assert (header.base_offset, bytes(view)) == (3, bytes(message))


@pytest.mark.parametrize("magic", [3, 77, -1])
def test_a_magic_that_no_format_has_is_corrupt(magic: int) -> None:
    batch = make_batch(ONE)
    struct.pack_into(">b", batch, 16, magic)
    with pytest.raises(CorruptBatch, match=f"magic {magic}"):
        list(split_batches(memoryview(batch)))


@pytest.mark.parametrize("length", [-(2**31), -13, -12, -1, 0, 1, 48])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_length_that_holds_no_header_is_corrupt_and_never_loops(length: int, magic: int) -> None:
    batch = make_batch(ONE) if magic == 2 else make_legacy_message(b"x" * 100, magic=magic)
    shortest = {0: 14, 1: 22, 2: 49}[magic]
    struct.pack_into(">i", batch, 8, min(length, shortest - 1))
    with pytest.raises(CorruptBatch):
        list(split_batches(joined(batch, make_batch(ONE))))
    with pytest.raises(CorruptBatch):
        list(split_batches(memoryview(batch)[:40]))


@pytest.mark.parametrize(
    ("at", "layout", "value"),
    [(0, ">q", -1), (0, ">q", 2**63 - 1), (23, ">i", -1), (23, ">i", -(2**31)), (57, ">i", -1)],
)
def test_offsets_that_would_lead_a_reader_backwards_are_corrupt(at: int, layout: str, value: int) -> None:
    batch = make_batch(ONE)
    struct.pack_into(layout, batch, at, value)
    with pytest.raises(CorruptBatch):
        list(split_batches(memoryview(batch)))


@pytest.mark.parametrize("size", [0, 1, 17, 18, 60])
def test_a_header_that_is_cut_cannot_be_read(size: int) -> None:
    with pytest.raises(CorruptBatch, match="cut"):
        read_header(memoryview(make_batch(ONE))[:size])


@given(records=record_lists, where=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_any_bit_flipped_under_the_checksum_is_found(records: list[Record], where: int, bit: int) -> None:
    batch = make_batch(records, base_offset=77)
    header = read_header(memoryview(batch))
    batch[CRC_FROM + where % (len(batch) - CRC_FROM)] ^= 1 << bit
    with pytest.raises(CorruptBatch, match="offset 77"):
        verify_crc(header, memoryview(batch))


@given(
    records=record_lists,
    codec=st.sampled_from([0, 1]),
    producer_id=st.integers(0, 2**63 - 1),
    producer_epoch=st.integers(0, 2**15 - 1),
    base_sequence=st.integers(0, 2**31 - 1),
)
def test_a_rewritten_batch_is_what_a_producer_would_have_sent(
    records: list[Record], codec: int, producer_id: int, producer_epoch: int, base_sequence: int
) -> None:
    batch = make_batch(records, base_offset=123, leader_epoch=4, codec=codec, producer_id=5)
    ours: dict[str, Any] = {
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
        "base_sequence": base_sequence,
    }
    rewrite(memoryview(batch), **ours)
    expected = make_batch(records, base_offset=0, leader_epoch=-1, codec=codec, **ours)
    assert batch == expected
    assert DefaultRecordBatch(bytes(batch)).validate_crc()


def test_a_cleaners_delete_horizon_is_not_carried_on() -> None:
    ours: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 3}
    batch = make_batch(ONE, base_offset=123, codec=1)
    batch[ATTRIBUTES_AT + 1] |= DELETE_HORIZON
    rewrite(memoryview(batch), **ours)
    assert batch == make_batch(ONE, base_offset=0, leader_epoch=-1, codec=1, **ours)


@given(records=record_lists, codec=st.sampled_from([0, 1]))
def test_a_copy_is_equal_to_its_source_whatever_its_place_and_producer(
    records: list[Record], codec: int
) -> None:
    source = make_batch(records, base_offset=5, leader_epoch=1, codec=codec)
    target = make_batch(records, base_offset=9, leader_epoch=3, codec=codec, producer_id=8, base_sequence=2)
    assert payload_equal(memoryview(source), memoryview(target))


@given(records=record_lists, where=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_difference_in_what_a_batch_holds_is_seen(records: list[Record], where: int, bit: int) -> None:
    source = make_batch(records)
    held = [*range(21, 43), *range(57, len(source))]
    target = bytearray(source)
    at = held[where % len(held)]
    assume((at, 1 << bit) != (22, TRANSACTIONAL))  # a copy is in no transaction
    target[at] ^= 1 << bit
    assert not payload_equal(memoryview(source), memoryview(target))


def test_batches_of_other_length_are_not_equal() -> None:
    source = make_batch(ONE)
    assert not payload_equal(memoryview(source), memoryview(source + b"\0"))


@given(data=st.binary(max_size=300))
def test_random_bytes_split_into_something_or_are_refused(data: bytes) -> None:
    try:
        total = sum(len(view) for _, view in split_batches(memoryview(data)))
    except ProtocolError:
        return
    assert total <= len(data)


@given(
    groups=st.lists(record_lists, min_size=1, max_size=3),
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=6),
)
def test_mutated_batches_split_into_something_or_are_refused(
    groups: list[list[Record]], flips: list[tuple[int, int]]
) -> None:
    data = bytearray(b"".join(make_batch(group) for group in groups))
    for where, value in flips:
        data[where % min(len(data), 2 * HEADER_BYTES)] = value
    try:
        total = sum(len(view) for _, view in split_batches(memoryview(data)))
    except ProtocolError:
        return
    assert total <= len(data)
