"""Primitive types: round trips, refusals, and no memory on the word of a count."""

from __future__ import annotations

import struct
import time
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.errors import ProtocolError
from heliograph.wire import writer
from heliograph.wire.fetch import decode_fetch
from heliograph.wire.produce import decode_produce
from heliograph.wire.reader import Reader

READS: list[Callable[[Reader], object]] = [
    Reader.int8,
    Reader.int16,
    Reader.int32,
    Reader.int64,
    Reader.uint32,
    Reader.uvarint,
    Reader.string,
    Reader.nullable_string,
    Reader.nullable_bytes,
    Reader.skip_tagged_fields,
    lambda reader: list(reader.tagged_fields()),
    lambda reader: reader.count(4),
    lambda reader: reader.nullable_count(4),
]


def reader_of(data: bytes, *, flexible: bool = False) -> Reader:
    return Reader(memoryview(data), flexible=flexible)


@given(values=st.tuples(st.integers(-128, 127), st.integers(-(2**15), 2**15 - 1), st.integers(0, 2**32 - 1)))
def test_fixed_size_integers_are_read_in_order(values: tuple[int, int, int]) -> None:
    reader = reader_of(struct.pack(">bhIiq", *values, -5, -6))
    assert (reader.int8(), reader.int16(), reader.uint32(), reader.int32(), reader.int64()) == (
        *values,
        -5,
        -6,
    )
    reader.expect_end()


@given(value=st.integers(0, 2**32 - 1))
def test_variable_length_integers_survive_the_round_trip(value: int) -> None:
    reader = reader_of(writer.uvarint(value))
    assert reader.uvarint() == value
    reader.expect_end()


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\x10", b"\x80\x80\x80\x80\x80\x01", b"\xff" * 9])
def test_a_variable_length_integer_beyond_32_bits_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="32 bits"):
        reader_of(data).uvarint()


@given(text=st.text(max_size=300), flexible=st.booleans())
def test_strings_survive_the_round_trip(text: str, flexible: bool) -> None:
    reader = reader_of(writer.string(text, flexible=flexible), flexible=flexible)
    assert reader.string() == text
    reader.expect_end()


@pytest.mark.parametrize(("flexible", "null"), [(False, b"\xff\xff\xff\xff"), (True, b"\0")])
def test_null_is_taken_only_where_it_may_stand(flexible: bool, null: bytes) -> None:
    assert reader_of(null, flexible=flexible).nullable_string() is None
    assert reader_of(null, flexible=flexible).nullable_count(1) is None
    assert reader_of(null, flexible=flexible).nullable_bytes().nbytes == 0
    with pytest.raises(ProtocolError, match="null"):
        reader_of(null, flexible=flexible).string()
    with pytest.raises(ProtocolError, match="null"):
        reader_of(null, flexible=flexible).count(1)


@pytest.mark.parametrize("size", [-2, -(2**15)])
def test_negative_lengths_are_refused(size: int) -> None:
    with pytest.raises(ProtocolError):
        reader_of(struct.pack(">h", size) + b"abc").nullable_string()
    with pytest.raises(ProtocolError):
        reader_of(struct.pack(">i", size) + b"abc").nullable_bytes()
    with pytest.raises(ProtocolError):
        reader_of(struct.pack(">i", size) + b"abc").nullable_count(1)


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(ProtocolError, match="UTF-8"):
        reader_of(b"\x00\x02\xc3\x28").string()


@given(
    data=st.binary(max_size=60), steps=st.lists(st.sampled_from(READS), max_size=12), flexible=st.booleans()
)
def test_no_read_leaves_the_bytes_or_raises_anything_else(
    data: bytes, steps: list[Callable[[Reader], object]], flexible: bool
) -> None:
    reader = reader_of(data, flexible=flexible)
    try:
        for step in steps:
            step(reader)
            assert 0 <= reader.remaining <= len(data)
    except ProtocolError:
        pass
    assert 0 <= reader.remaining <= len(data)


HUGE = 2**31 - 1
TOPIC = b"\x00\x01t"
HUGE_COUNTS: list[tuple[str, Callable[[int, memoryview], object], int, bytes]] = [
    ("topics of a fetch", decode_fetch, 4, struct.pack(">ii", 0, HUGE)),
    ("partitions of a fetch", decode_fetch, 4, struct.pack(">ii", 0, 1) + TOPIC + struct.pack(">i", HUGE)),
    (
        "aborted transactions",
        decode_fetch,
        4,
        struct.pack(">ii", 0, 1) + TOPIC + struct.pack(">iihqqi", 1, 0, 0, 0, 0, HUGE),
    ),
    (
        "records",
        decode_fetch,
        4,
        struct.pack(">ii", 0, 1) + TOPIC + struct.pack(">iihqqii", 1, 0, 0, 0, 0, 0, HUGE),
    ),
    ("topics, compact", decode_fetch, 12, struct.pack(">ihi", 0, 0, 0) + writer.uvarint(2**32 - 1)),
    ("tagged fields", decode_fetch, 12, struct.pack(">ihi", 0, 0, 0) + b"\x01" + writer.uvarint(2**32 - 1)),
    ("topics of a produce", decode_produce, 3, struct.pack(">i", HUGE)),
    ("partitions of a produce", decode_produce, 3, struct.pack(">i", 1) + TOPIC + struct.pack(">i", HUGE)),
]


@pytest.mark.parametrize(
    ("what", "decode", "version", "body"), HUGE_COUNTS, ids=[row[0] for row in HUGE_COUNTS]
)
def test_a_huge_count_costs_neither_memory_nor_time(
    what: str, decode: Callable[[int, memoryview], object], version: int, body: bytes
) -> None:
    padded = memoryview(body + bytes(64))
    tracemalloc.start()
    began = time.perf_counter()
    try:
        with pytest.raises(ProtocolError):
            decode(version, padded)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert time.perf_counter() - began < 0.5, what
    assert peak_bytes < 64 * 1024, what
