"""Merged batches: judged by what went in, by kafka-python, and by the rules of who may be merged."""

from __future__ import annotations

import os
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from heliograph.model.errors import CorruptBatch, DecompressionLimit
from heliograph.wire.batch import Codec, read_header, verify_crc
from heliograph.wire.codecs import compress
from heliograph.wire.decode import decode
from heliograph.wire.kernels.loading import Kernels
from heliograph.wire.merge import Merged, merge
from heliograph.wire.merge_compressed import MOST_BATCHES
from heliograph.wire.runs import Run, split_runs

from .batches import Record, make_batch
from .logs import Batch, batches, encode, expected, seen, view

CODECS = list(Codec)
ONE: list[Record] = [(b"k", b"v", [])]
NO_LIMIT = 1 << 20


def merge_some(
    kernels: Kernels, runs: list[Run], *, limit_bytes: int = NO_LIMIT, max_records: int = 2**31 - 1
) -> Merged | None:
    return merge(
        kernels,
        runs,
        limit_bytes=limit_bytes,
        max_records=max_records,
        producer_id=77,
        producer_epoch=3,
        base_sequence=9,
    )


def merge_all(kernels: Kernels, runs: list[Run], **limits: int) -> list[Merged]:
    """One after the other; what cannot be merged ends it."""
    made = []
    while runs:
        merged = merge_some(kernels, runs, **limits)
        if merged is None:
            break
        made.append(merged)
        runs = ([merged.rest] if merged.rest else []) + runs[merged.runs + bool(merged.rest) :]
    return made


@given(log=st.lists(batches(), min_size=1, max_size=8), base_offset=st.integers(0, 2**60))
def test_a_merged_batch_is_what_a_producer_would_have_written(
    kernels: Kernels, log: list[Batch], base_offset: int
) -> None:
    merged = merge_some(kernels, list(split_runs(view(encode(log, base_offset)))))
    assert merged is not None
    everything = [pair for batch in log for pair in batch.records]
    times = [moment for _, moment in everything]
    assert merged.batch == make_batch(
        [record for record, _ in everything],
        base_offset=0,
        leader_epoch=-1,
        timestamp=times[0],
        timestamps=times,
        producer_id=77,
        producer_epoch=3,
        base_sequence=9,
    )
    assert DefaultRecordBatch(bytes(merged.batch)).validate_crc()
    count = len(everything)
    assert merged[1:] == (len(log), count, base_offset + count, max(times), merged.runs, None)


@given(data=st.data(), codec=st.sampled_from(CODECS), limit=st.integers(70, 2000), most=st.integers(1, 30))
def test_merged_batches_hold_all_records_in_order_within_limits(
    kernels: Kernels, data: st.DataObject, codec: Codec, limit: int, most: int
) -> None:
    log = data.draw(st.lists(batches([codec]), min_size=1, max_size=12))
    borders = data.draw(st.lists(st.integers(0, len(log)), max_size=3).map(sorted))
    encoded = encode(log)
    answers = [encoded[a:b] for a, b in zip([0, *borders], [*borders, len(log)], strict=True)]
    runs = [run for answer in answers for run in split_runs(view(answer))]
    made = merge_all(kernels, runs, limit_bytes=limit, max_records=most)
    found = []
    next_offset = 0
    for merged in made:
        header = read_header(merged.batch)
        verify_crc(header, merged.batch)
        assert len(merged.batch) <= limit
        assert header.records_count == merged.records <= most
        assert (header.codec, header.attributes & ~7, header.is_dense) == (codec, 0, True)
        columns = decode(kernels, merged.batch)
        assert columns.timestamp.max() == header.max_timestamp == merged.max_timestamp
        found += [each._replace(offset=each.offset + next_offset) for each in seen(columns)]
        next_offset += merged.records
        assert merged.next_offset == next_offset
    taken = sum(merged.batches for merged in made)
    assert found == expected(log[:taken])
    if taken < len(log):  # the next one is too large, or has too many records, by itself
        alone = merge_some(kernels, list(split_runs(memoryview(encoded[taken]))), limit_bytes=10**6)
        assert alone is not None
        assert alone.records > most or len(alone.batch) > limit


def test_a_limit_is_kept_to_the_byte(kernels: Kernels) -> None:
    runs = list(split_runs(view(encode([Batch(records=[(ONE[0], 5)])] * 10))))
    whole = merge_some(kernels, runs)
    assert whole is not None
    exact = merge_some(kernels, runs, limit_bytes=len(whole.batch))
    assert exact == whole
    less = merge_some(kernels, runs, limit_bytes=len(whole.batch) - 1)
    assert less is not None
    assert less.batches == 9
    assert less.rest is not None
    assert (less.rest.batches, less.rest.header.base_offset, less.rest.header.records_count) == (1, 9, 1)


def test_what_is_left_of_a_run_describes_itself(kernels: Kernels) -> None:
    log = encode([Batch(records=[(ONE[0], 5 + nth), (ONE[0], 5)]) for nth in range(10)], 100)
    merged = merge_some(kernels, list(split_runs(view(log))), max_records=7)
    assert merged is not None
    assert (merged.batches, merged.records, merged.next_offset, merged.runs) == (3, 6, 106, 0)
    rest = merged.rest
    assert rest is not None
    assert rest.view == b"".join(log[3:])
    assert (rest.header.base_offset, rest.header.next_offset) == (106, 120)
    assert (rest.batches, rest.header.records_count, rest.header.size_bytes) == (7, 14, len(rest.view))


@pytest.mark.parametrize("codec", CODECS[1:])
def test_compressed_batches_that_grow_are_taken_in_smaller_numbers(kernels: Kernels, codec: Codec) -> None:
    log = [Batch(records=[((None, os.urandom(900), []), 5)], codec=codec) for _ in range(30)]
    made = merge_all(kernels, list(split_runs(view(encode(log)))), limit_bytes=10_000)
    assert sum(merged.batches for merged in made) == 30
    assert all(len(merged.batch) <= 10_000 for merged in made)
    assert len(made) <= 5


def test_what_is_decompressed_for_one_batch_is_bounded(kernels: Kernels) -> None:
    log = [Batch(records=[((None, bytes(300_000), []), 5)], codec=Codec.ZSTD) for _ in range(10)]
    made = merge_all(kernels, list(split_runs(view(encode(log)))))
    assert [merged.batches for merged in made] == [3, 3, 3, 1]


def test_compressed_batches_are_merged_by_some_hundreds_and_the_rest_goes_on(kernels: Kernels) -> None:
    count = 2 * MOST_BATCHES + 7
    records = view(make_batch(ONE, base_offset=offset, codec=Codec.GZIP) for offset in range(count))
    made = merge_all(kernels, list(split_runs(records)))
    assert [each.batches for each in made] == [MOST_BATCHES, MOST_BATCHES, 7]
    assert [each.next_offset for each in made] == [MOST_BATCHES, 2 * MOST_BATCHES, count]
    assert sum(read_header(each.batch).records_count for each in made) == count


def test_a_bomb_among_small_batches_ends_the_merge_and_is_refused_by_itself(kernels: Kernels) -> None:
    honest = [Batch(records=[(ONE[0], 5)], codec=Codec.ZSTD)] * 4
    bomb = Batch(records=[((None, bytes(1 << 20), []), 5)], codec=Codec.ZSTD)
    runs = list(split_runs(view(encode([*honest, bomb, *honest]))))
    producer = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    limits = {"limit_bytes": NO_LIMIT, "max_records": 99}
    merged = merge(kernels, runs, **limits, **producer)
    assert merged is not None
    assert merged.batches == 4
    assert merged.rest is not None
    with pytest.raises(DecompressionLimit):
        merge(kernels, [merged.rest], **limits, **producer)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_records_that_are_not_numbered_from_0_on_end_the_merge(kernels: Kernels, codec: Codec) -> None:
    log = encode([Batch(records=[(ONE[0], 5), (ONE[0], 5)], codec=codec)] * 6)
    log[4] = make_batch(
        ONE * 2,
        base_offset=8,
        offset_deltas=[1, 0],
        codec=codec,
        compress=lambda plain: compress(codec, plain),
    )
    merged = merge_some(kernels, list(split_runs(view(log))))
    assert merged is not None
    assert (merged.batches, merged.records, merged.runs) == (4, 8, 0)
    assert merged.rest is not None
    with pytest.raises(CorruptBatch, match="offset 8"):
        merge_some(kernels, [merged.rest])


def test_log_append_time_becomes_the_records_own(kernels: Kernels) -> None:
    stamped = make_batch(ONE * 2, timestamp=5, timestamps=[5, 9], attributes=0x08)
    header = read_header(memoryview(stamped))
    run = Run(header, 1, memoryview(stamped), True, True, False)
    merged = merge_some(kernels, [run])
    assert merged is not None
    assert [each.timestamp for each in seen(decode(kernels, merged.batch))] == [9, 9]
    assert not read_header(merged.batch).is_log_append_time


def test_runs_that_do_not_belong_together_are_not_merged(kernels: Kernels) -> None:
    first, *others = (
        next(iter(split_runs(memoryview(each))))
        for each in (
            make_batch(ONE, base_offset=0),
            make_batch(ONE, base_offset=2),
            make_batch(ONE, base_offset=1, codec=1),
            make_batch(ONE, base_offset=1, attributes=0x10),
        )
    )
    others.append(next(iter(split_runs(memoryview(make_batch(ONE, base_offset=1)), old_before=2**62))))
    for other in others:
        merged = merge_some(kernels, [first, other])
        assert merged is not None
        assert (merged.batches, merged.runs, merged.rest) == (1, 1, None)
    assert merge_some(kernels, []) is None
    assert merge_some(kernels, [others[2]]) is None  # may not be merged at all


def test_a_wrong_checksum_that_nobody_saw_yet_is_seen(kernels: Kernels) -> None:
    good, bad = (make_batch(ONE, base_offset=offset) for offset in (0, 1))
    bad[-1] ^= 1
    runs = [next(iter(split_runs(memoryview(each)))) for each in (good, bad)]
    merged = merge_some(kernels, runs)
    assert merged is not None
    assert merged.runs == 1
    with pytest.raises(CorruptBatch, match="checksum"):
        merge_some(kernels, runs[1:])


def test_timestamps_at_the_ends_of_their_range_survive(kernels: Kernels) -> None:
    times = [0, 2**63 - 1, -1, 2**62, 5]
    log = [Batch(records=[(ONE[0], moment)]) for moment in times]
    merged = merge_some(kernels, list(split_runs(view(encode(log)))))
    assert merged is not None
    assert decode(kernels, merged.batch).timestamp.tolist() == times


def test_the_source_is_left_as_it_was(kernels: Kernels) -> None:
    log = encode([replace(Batch(records=[(ONE[0], 5)]), codec=Codec.SNAPPY)] * 5)
    records = view(log)
    merge_some(kernels, list(split_runs(records)))
    assert records == b"".join(log)
    assert struct.unpack_from(">q", log[4]) == (4,)
