"""A batch made into others: judged by what went in, by kafka-python, and by reading the pieces again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from heliograph.model.errors import CorruptBatch
from heliograph.wire import recode as recoding
from heliograph.wire.batch import Codec, read_header, verify_crc
from heliograph.wire.codecs import compress
from heliograph.wire.compare import Allowed, first_difference
from heliograph.wire.decode import decode
from heliograph.wire.kernels.loading import Kernels
from heliograph.wire.plain import plain_batches
from heliograph.wire.recode import ANY_TIME, Hole, Part, Piece, Recoded, Times, TooLarge, recode

from .batches import DEFAULT_TIMESTAMP, Record, make_batch
from .logs import DELETE_HORIZON, Seen, moments, record, seen

LOG_APPEND_TIME = 0x08
BASE = 1000
NO_LIMIT = 1 << 30
ONE: Record = (b"k", b"v", [])
T = DEFAULT_TIMESTAMP


@dataclass(frozen=True, slots=True, kw_only=True)
class Holed:
    """A batch as a cleaner may leave it: records at some of its offsets."""

    records: Sequence[tuple[Record, int]]
    deltas: Sequence[int]
    last_delta: int
    codec: Codec = Codec.NONE
    attributes: int = 0
    base_timestamp: int = T

    def encode(self) -> bytearray:
        return make_batch(
            [each for each, _ in self.records],
            base_offset=BASE,
            leader_epoch=7,
            timestamp=self.base_timestamp,
            timestamps=[moment for _, moment in self.records],
            offset_deltas=self.deltas,
            last_offset_delta=self.last_delta,
            codec=self.codec,
            attributes=self.attributes,
            compress=lambda payload: compress(self.codec, payload),
        )

    def expected(self, first_offset: int) -> list[Seen]:
        times = [moment for _, moment in self.records]
        if self.attributes & LOG_APPEND_TIME:
            times = [max(times, default=0)] * len(times)
        everything = zip(self.records, self.deltas, times, strict=True)
        return [
            Seen(BASE + delta, moment, key, value, tuple(headers))
            for ((key, value, headers), _), delta, moment in everything
            if BASE + delta >= first_offset
        ]


@st.composite
def holed(draw: st.DrawFn) -> Holed:
    records = draw(st.lists(st.tuples(record, moments), max_size=8))
    steps = [draw(st.sampled_from([1, 1, 1, 2, 5, 900])) for _ in records]
    deltas = [sum(steps[: nth + 1]) - 1 for nth in range(len(steps))]
    return Holed(
        records=records,
        deltas=deltas,
        last_delta=max([*deltas, 0]) + draw(st.sampled_from([0, 0, 3])),
        codec=draw(st.sampled_from(list(Codec))),
        attributes=draw(st.sampled_from([0, LOG_APPEND_TIME, DELETE_HORIZON, 0x10])),
        base_timestamp=draw(st.sampled_from([T, T - 5000, 0])),
    )


def recode_all(
    kernels: Kernels, batch: bytearray, codec: Codec, first_offset: int = BASE, **how: object
) -> list[Part]:
    """Portion by portion, to the batch's end or a record that is too large."""
    parts: list[Part] = []
    plain = plain_batches([memoryview(batch)])
    end = read_header(plain).next_offset
    while first_offset < end:
        settings: dict[str, object] = {"limit_bytes": NO_LIMIT, **how}
        made: Recoded = recode(kernels, plain, codec, first_offset=first_offset, **settings)  # type: ignore[arg-type]
        assert made.parts
        assert made.next_offset == made.parts[-1].next_offset
        parts += made.parts
        first_offset = made.next_offset
        if isinstance(parts[-1], TooLarge):
            break
    return parts


def records_of(kernels: Kernels, parts: Sequence[Part]) -> list[Seen]:
    return [each for part in parts if isinstance(part, Piece) for each in seen(decode(kernels, part.batch))]


def read_by_kafka_python(batch: memoryview) -> list[Seen]:
    return [
        Seen(each.offset, each.timestamp, each.key, each.value, tuple(each.headers))
        for each in DefaultRecordBatch(bytes(batch))
    ]


@given(data=st.data(), source=holed(), limit=st.none() | st.integers(150, 600))
def test_pieces_and_holes_are_the_batch_from_an_offset_on(
    kernels: Kernels, data: st.DataObject, source: Holed, limit: int | None
) -> None:
    first_offset = data.draw(st.integers(BASE, BASE + source.last_delta))
    parts = recode_all(
        kernels, source.encode(), source.codec, first_offset, limit_bytes=limit if limit else NO_LIMIT
    )
    expected = source.expected(first_offset)
    if isinstance(parts[-1], TooLarge):
        assert limit is not None
        too_large = parts.pop()
        assert isinstance(too_large, TooLarge)
        at = too_large.first_offset
        (record,) = [each for each in expected if each.offset == at]
        assert too_large.key == record.key
        assert too_large.size_bytes > limit
        expected = [each for each in expected if each.offset < at]
    else:
        assert parts[-1].next_offset == BASE + source.last_delta + 1
    assert records_of(kernels, parts) == expected
    assert [part.first_offset for part in parts] == [first_offset, *(p.next_offset for p in parts[:-1])][
        : len(parts)
    ]
    for before, behind in pairwise(parts):
        assert not (isinstance(before, Hole) and isinstance(behind, Hole))
    for part in parts:
        if isinstance(part, Piece):
            header = read_header(part.batch)
            verify_crc(header, part.batch)
            assert DefaultRecordBatch(bytes(part.batch)).validate_crc()
            assert (header.attributes, header.leader_epoch, header.is_dense) == (source.codec, 7, True)
            assert (header.base_offset, header.next_offset) == (part.first_offset, part.next_offset)
            assert header.max_timestamp == max(each.timestamp for each in records_of(kernels, [part]))
            assert part.clamped == 0
            assert limit is None or len(part.batch) <= limit
            if source.codec in (Codec.NONE, Codec.GZIP):
                assert read_by_kafka_python(part.batch) == records_of(kernels, [part])


@given(source=holed(), earliest=st.none() | moments, latest=st.none() | moments)
def test_times_are_clamped_counted_and_known_again(
    kernels: Kernels, source: Holed, earliest: int | None, latest: int | None
) -> None:
    if earliest is not None and latest is not None:
        earliest, latest = min(earliest, latest), max(earliest, latest)
    times = Times(
        earliest=ANY_TIME.earliest if earliest is None else earliest,
        latest=ANY_TIME.latest if latest is None else latest,
    )
    batch = source.encode()
    parts = recode_all(kernels, batch, source.codec, times=times)
    before = source.expected(0)
    clamped = [
        each.timestamp
        if each.timestamp == -1 and times.latest >= -1
        else min(max(each.timestamp, times.earliest), times.latest)
        for each in before
    ]
    assert [each.timestamp for each in records_of(kernels, parts)] == clamped
    changed = sum(a.timestamp != b for a, b in zip(before, clamped, strict=True))
    assert sum(part.clamped for part in parts if isinstance(part, Piece)) == changed
    pieces = [part.batch for part in parts if isinstance(part, Piece)]
    for allowed in (Allowed(clamped=True), Allowed()):
        differs = first_difference(
            kernels, pieces, [memoryview(batch)], first_offset=0, next_offset=2**60, allowed=allowed
        )
        assert (differs is None) is (allowed.clamped or not changed)


def test_a_time_that_no_limit_explains_is_a_difference(kernels: Kernels) -> None:
    """Only what is the largest of its batch can have been lowered."""
    ours = make_batch([ONE] * 2, timestamp=T, timestamps=[T + 5, T + 9])
    for times, equal in (([T + 5, T + 99], True), ([T + 7, T + 9], False), ([T + 5, T + 8], False)):
        theirs = make_batch([ONE] * 2, timestamp=T, timestamps=times)
        differs = first_difference(
            kernels,
            [memoryview(ours)],
            [memoryview(theirs)],
            first_offset=0,
            next_offset=2,
            allowed=Allowed(clamped=True),
        )
        assert (differs is None) is equal, times


@pytest.mark.parametrize("codec", list(Codec))
def test_a_large_batch_is_split_to_the_limit_and_not_into_crumbs(kernels: Kernels, codec: Codec) -> None:
    records: list[Record] = [(None, os.urandom(500), [])] * 40
    batch = make_batch(
        records, base_offset=BASE, codec=codec, compress=lambda payload: compress(codec, payload)
    )
    parts = recode_all(kernels, batch, codec, limit_bytes=5000)
    assert all(isinstance(part, Piece) and len(part.batch) <= 5000 for part in parts)
    assert parts[-1].next_offset == BASE + 40
    assert len(parts) <= 7


def test_there_is_never_more_than_there_is_room_for(kernels: Kernels) -> None:
    batch = make_batch([(None, b"x" * 500, [])] * 40, base_offset=BASE)
    plain = memoryview(batch)
    made = recode(kernels, plain, Codec.NONE, first_offset=BASE, limit_bytes=2000, room_bytes=5000)
    assert sum(len(part.batch) for part in made.parts if isinstance(part, Piece)) <= 5000
    assert 7 <= made.next_offset - BASE < 10
    assert not recode(kernels, plain, Codec.NONE, first_offset=BASE, limit_bytes=2000, room_bytes=300).parts
    (too_large,) = recode(
        kernels, plain, Codec.NONE, first_offset=BASE, limit_bytes=300, room_bytes=200
    ).parts
    assert isinstance(too_large, TooLarge)


def test_a_portion_has_an_end(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """In parts, and in bytes; the next one goes on from there."""
    source = Holed(records=[(ONE, T)] * 500, deltas=range(0, 1000, 2), last_delta=999)
    made = recode(kernels, memoryview(source.encode()), Codec.NONE, first_offset=BASE, limit_bytes=NO_LIMIT)
    assert len(made.parts) <= recoding.MOST_PARTS + 1
    assert records_of(kernels, recode_all(kernels, source.encode(), Codec.NONE)) == source.expected(0)
    monkeypatch.setitem(recoding.PORTION_BYTES, Codec.LZ4, 1000)
    dense = Holed(records=[(ONE, T)] * 500, deltas=range(500), last_delta=499, codec=Codec.LZ4)
    plain = plain_batches([memoryview(dense.encode())])
    assert (
        recode(kernels, plain, Codec.LZ4, first_offset=BASE, limit_bytes=NO_LIMIT).next_offset <= BASE + 200
    )
    assert records_of(kernels, recode_all(kernels, dense.encode(), Codec.LZ4)) == dense.expected(0)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_record_that_is_larger_than_a_portion_goes_by_itself(
    kernels: Kernels, codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(recoding.PORTION_BYTES, codec, 1000)
    sizes = (10, 5000, 10)
    records: list[tuple[Record, int]] = [((None, b"x" * size, []), T) for size in sizes]
    source = Holed(records=records, deltas=range(3), last_delta=2, codec=codec)
    assert records_of(kernels, recode_all(kernels, source.encode(), codec)) == source.expected(0)


def test_a_batch_without_records_is_one_hole(kernels: Kernels) -> None:
    """What a cleaner leaves of a batch that was its producer's last."""
    source = Holed(records=[], deltas=[], last_delta=9)
    assert recode_all(kernels, source.encode(), Codec.NONE, BASE + 4) == [Hole(BASE + 4, BASE + 10)]


@pytest.mark.parametrize("deltas", [[0, 0], [1, 0], [0, 5], [-1, 0]])
def test_records_whose_offsets_are_in_no_order_are_corrupt(kernels: Kernels, deltas: list[int]) -> None:
    batch = make_batch([ONE] * 2, base_offset=BASE, offset_deltas=deltas, last_offset_delta=1)
    with pytest.raises(CorruptBatch):
        recode_all(kernels, batch, Codec.NONE)
