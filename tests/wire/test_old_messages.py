"""Messages of the formats before Kafka 0.11 as batches: judged by what went in, and by kafka-python's own writer."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from heliograph.model.errors import CorruptBatch, DecompressionLimit, ProtocolError
from heliograph.wire.batch import Codec, read_header
from heliograph.wire.decode import decode
from heliograph.wire.kernels.loading import Kernels
from heliograph.wire.old_messages import to_batch
from heliograph.wire.recode import Piece, recode
from heliograph.wire.runs import Run, split_runs

from .batches import DEFAULT_TIMESTAMP, make_batch
from .guarded import guarded
from .hostile import Mutation, mutations
from .logs import Seen, content, moments, seen
from .message_sets import (
    LEGACY_GZIP,
    LEGACY_LZ4,
    LEGACY_SNAPPY,
    Message,
    encode_message,
    encode_set,
    encode_wrapper,
)

T = DEFAULT_TIMESTAMP
CODECS = [LEGACY_GZIP, LEGACY_SNAPPY, LEGACY_LZ4]
messages = st.lists(st.tuples(content, content, moments), min_size=1, max_size=8)


@st.composite
def offsets_for(draw: st.DrawFn, count: int) -> list[int]:
    """As a log has them, with holes where a cleaner was."""
    offset = draw(st.integers(0, 2**40))
    found = []
    for _ in range(count):
        found.append(offset)
        offset += draw(st.sampled_from([1, 1, 1, 7, 1000]))
    return found


def expected(
    sent: Sequence[Message], offsets: Sequence[int], magic: int, append_time: int | None = None
) -> list[Seen]:
    def time_of(moment: int) -> int:
        if magic == 0:
            return -1
        return moment if append_time is None else append_time

    pairs = zip(sent, offsets, strict=True)
    return [Seen(offset, time_of(moment), key, value, ()) for (key, value, moment), offset in pairs]


def converted(kernels: Kernels, run: Run) -> list[Seen]:
    plain, _ = to_batch(kernels, run.header, run.view)
    header = read_header(plain)
    assert header.next_offset == run.header.next_offset
    return seen(decode(kernels, plain))


@given(data=st.data(), sent=messages, magic=st.sampled_from([0, 1]))
def test_messages_one_behind_the_other_are_one_batch(
    kernels: Kernels, data: st.DataObject, sent: list[Message], magic: int
) -> None:
    offsets = data.draw(offsets_for(len(sent)))
    (run,) = split_runs(memoryview(encode_set(sent, offsets=offsets, magic=magic)))
    assert (run.header.base_offset, run.header.records_count) == (offsets[0], len(sent))
    assert run.header.max_timestamp == (max(each[2] for each in sent) if magic else -1)
    assert converted(kernels, run) == expected(sent, offsets, magic)


@given(
    data=st.data(),
    sent=messages,
    magic=st.sampled_from([0, 1]),
    codec=st.sampled_from(CODECS),
    append_time=st.none() | moments,
)
def test_what_is_in_a_wrapper_has_the_logs_offsets_and_its_own_or_the_wrappers_time(
    kernels: Kernels,
    data: st.DataObject,
    sent: list[Message],
    magic: int,
    codec: int,
    append_time: int | None,
) -> None:
    offsets = data.draw(offsets_for(len(sent)))
    append_time = append_time if magic == 1 else None
    wrapper = encode_wrapper(sent, offsets=offsets, magic=magic, codec=codec, append_time=append_time)
    (run,) = split_runs(memoryview(wrapper))
    assert run.header.next_offset == offsets[-1] + 1
    assert converted(kernels, run) == expected(sent, offsets, magic, append_time)
    assert to_batch(kernels, run.header, run.view).codec == codec


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, LEGACY_GZIP])
def test_what_kafka_python_writes_is_read(kernels: Kernels, magic: int, codec: int) -> None:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
    for nth in range(50):
        builder.append(nth, timestamp=T + nth if magic else None, key=b"k%d" % nth, value=b"v" * nth)
    built = bytearray(builder.build())
    if codec:
        built[7] = 49  # as a broker: a wrapper has the offset of its last message
    (run,) = split_runs(memoryview(built))
    sent: list[Message] = [(b"k%d" % nth, b"v" * nth, T + nth) for nth in range(50)]
    assert converted(kernels, run) == expected(sent, range(50), magic)


def test_formats_and_wrappers_stand_apart(kernels: Kernels) -> None:
    one: Message = (b"k", b"v", T)
    log = encode_set([one] * 3, offsets=[0, 1, 2], magic=0)
    log += encode_set([one] * 2, offsets=[3, 4], magic=1)
    log += encode_wrapper([one] * 2, offsets=[5, 6], magic=1, codec=LEGACY_GZIP)
    log += encode_set([one], offsets=[7], magic=1)
    log += make_batch([(b"k", b"v", [])], base_offset=8)
    runs = list(split_runs(memoryview(log)))
    assert [run.header.magic for run in runs] == [0, 1, 1, 1, 2]
    assert [run.header.next_offset for run in runs] == [3, 5, 7, 8, 9]
    assert [len(converted(kernels, run)) for run in runs[:-1]] == [3, 2, 2, 1]


def test_a_run_of_messages_has_an_end(kernels: Kernels) -> None:
    log = encode_set([(None, b"x" * 100, T)] * 100, offsets=range(100), magic=1)
    runs = list(split_runs(memoryview(log), plain_bytes=1000))
    assert len(runs) > 10
    assert [each.offset for run in runs for each in converted(kernels, run)] == list(range(100))


def test_what_was_converted_can_be_cut(kernels: Kernels) -> None:
    sent: list[Message] = [(None, b"%d" % nth * 50, T + nth) for nth in range(20)]
    wrapper = encode_wrapper(sent, offsets=range(40, 80, 2), magic=1, codec=LEGACY_LZ4)
    (run,) = split_runs(memoryview(wrapper))
    plain, codec = to_batch(kernels, run.header, run.view)
    found, at = [], 51
    while at < 79:
        made = recode(kernels, plain, codec, first_offset=at, limit_bytes=1 << 20)
        for part in made.parts:
            found += seen(decode(kernels, part.batch)) if isinstance(part, Piece) else []
        at = made.next_offset
    assert found == expected(sent, range(40, 80, 2), 1)[6:]
    assert codec is Codec.LZ4


WRAPPED = encode_wrapper([(b"k", b"v", T)] * 3, offsets=[5, 6, 7], magic=1, codec=LEGACY_GZIP)


@pytest.mark.parametrize(
    "broken",
    [
        encode_wrapper([(b"k", b"v", T)] * 2, offsets=[5, 5], magic=1, codec=LEGACY_GZIP),
        encode_message((None, None, T), offset=5, magic=1, attributes=LEGACY_GZIP),
        encode_message((None, b"no gzip", T), offset=5, magic=1, attributes=LEGACY_GZIP),
        encode_message((None, WRAPPED, T), offset=5, magic=1, attributes=LEGACY_GZIP),
        encode_message((None, b"x", T), offset=5, magic=1, attributes=4),
        encode_wrapper([(b"k", b"v", T)] * 3, offsets=[5, 6, 7], magic=0, codec=LEGACY_GZIP)[:7]
        + b"\6"
        + encode_wrapper([(b"k", b"v", T)] * 3, offsets=[5, 6, 7], magic=0, codec=LEGACY_GZIP)[8:],
        WRAPPED[:-1] + b"\1",
        WRAPPED[:7] + b"\1" + WRAPPED[8:],
    ],
    ids=["order", "null", "not gzip", "twice", "zstd", "offset too low", "checksum", "offset below 0"],
)
def test_what_no_producer_writes_is_corrupt(kernels: Kernels, broken: bytes) -> None:
    (run,) = split_runs(memoryview(broken))
    with pytest.raises(CorruptBatch):
        to_batch(kernels, run.header, run.view)


def test_a_flipped_byte_of_a_message_is_corrupt(kernels: Kernels) -> None:
    log = bytearray(encode_set([(b"k", b"v", T)] * 3, offsets=[5, 6, 7], magic=1))
    log[-1] ^= 1
    good, bad = split_runs(memoryview(log))
    assert len(converted(kernels, good)) == 2
    with pytest.raises(CorruptBatch):
        converted(kernels, bad)


def test_a_wrapper_holds_no_more_than_the_limit(kernels: Kernels) -> None:
    wrapper = encode_wrapper([(None, b"0" * 10_000, T)], offsets=[5], magic=1, codec=LEGACY_GZIP)
    (run,) = split_runs(memoryview(wrapper))
    with pytest.raises(DecompressionLimit):
        to_batch(kernels, run.header, run.view, limit_bytes=1000)


@given(sent=messages, magic=st.sampled_from([0, 1]), codec=st.sampled_from([0, *CODECS]), mutate=mutations)
def test_reading_old_messages_stays_inside(
    kernels: Kernels, sent: list[Message], magic: int, codec: int, mutate: Mutation
) -> None:
    offsets = range(5, 5 + len(sent))
    whole = (
        encode_wrapper(sent, offsets=offsets, magic=magic, codec=codec)
        if codec
        else encode_set(sent, offsets=offsets, magic=magic)
    )
    data = guarded(mutate(whole))
    try:
        for run in split_runs(data):
            if run.header.magic != 2:
                to_batch(kernels, run.header, run.view)
    except ProtocolError:
        return
