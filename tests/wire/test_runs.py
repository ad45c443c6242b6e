"""Fetch answers taken apart into runs: judged by the rule in words, applied batch by batch."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.errors import CorruptBatch, ProtocolError
from heliograph.model.producer_id import id_prefix, producer_id
from heliograph.wire import runs as runs_module
from heliograph.wire.batch import Codec, read_header, split_batches, verify_crc
from heliograph.wire.kernels.loading import Kernels
from heliograph.wire.runs import Run, split_runs

from .batches import Record, make_batch, make_legacy_message
from .hostile import Mutation, mutations
from .logs import Batch, batches, encode, view

ONE: list[Record] = [(b"k", b"v", [])]
TARGET = "target-cluster"
SMALL = 300
OLD_BEFORE = 1_000


def small(offset: int, **changes: Any) -> bytearray:
    return make_batch(ONE, base_offset=offset, **changes)


def taken_apart(records: memoryview) -> list[Run]:
    return list(
        split_runs(
            records,
            plain_bytes=SMALL,
            packed_bytes=SMALL,
            old_before=OLD_BEFORE,
            stop_id_prefix=id_prefix(TARGET),
        )
    )


def shape(runs: list[Run]) -> list[tuple[int, int, bool]]:
    return [(run.header.base_offset, run.batches, run.mergeable) for run in runs]


@pytest.fixture(autouse=True)
def _loaded(kernels: Kernels) -> None:
    assert kernels is not None


def test_small_batches_that_go_on_from_each_other_are_one_run() -> None:
    records = view(small(offset, timestamp=2000 + offset % 3) for offset in range(100, 120))
    [run] = taken_apart(records)
    assert (run.batches, run.mergeable, run.verified, run.old) == (20, True, True, False)
    assert (run.header.base_offset, run.header.next_offset, run.header.records_count) == (100, 120, 20)
    assert (run.header.base_timestamp, run.header.max_timestamp) == (2001, 2002)
    assert run.header.size_bytes == len(records)
    assert run.view == records
    assert run.view.obj is records.obj


# Each makes the batch at offset 5, of 0 to 9, one that stands by itself.
ALONE: dict[str, Callable[[], bytearray]] = {
    "large": lambda: make_batch([(None, bytes(SMALL), [])], base_offset=5),
    "transactional": lambda: small(5, attributes=0x10),
    "control": lambda: small(5, attributes=0x30),
    "log append time": lambda: small(5, attributes=0x08),
    "an attribute nobody knows": lambda: small(5, attributes=0x80),
    "a codec nobody knows": lambda: small(5, attributes=0x05),
    "of the target's own": lambda: small(5, producer_id=producer_id(TARGET, "topic")),
}


@pytest.mark.parametrize("why", ALONE)
def test_what_a_rule_must_look_at_stands_by_itself(why: str) -> None:
    batch = ALONE[why]()
    log = [*(small(offset) for offset in range(5)), batch, *(small(offset) for offset in range(6, 10))]
    first, alone, last = taken_apart(view(log))
    assert shape([first, alone, last]) == [(0, 5, True), (5, 1, False), (6, 4, True)]
    assert not alone.verified
    assert alone.header == read_header(memoryview(batch))
    assert alone.view == batch


def test_a_batch_with_holes_stands_by_itself_and_ends_its_run() -> None:
    log = [small(0), small(1), small(2, last_offset_delta=3), small(6), small(7), small(8)]
    assert shape(taken_apart(view(log))) == [(0, 2, True), (2, 1, False), (6, 3, True)]


def test_a_wrong_checksum_stands_by_itself_for_the_rules_to_judge() -> None:
    log = [small(offset) for offset in range(6)]
    log[3][-1] ^= 1
    first, alone, last = taken_apart(view(log))
    assert shape([first, alone, last]) == [(0, 3, True), (3, 1, False), (4, 2, True)]
    with pytest.raises(CorruptBatch):
        verify_crc(alone.header, alone.view)


@pytest.mark.parametrize(
    ("change", "at"),
    [({"leader_epoch": 1}, 5), ({"codec": 1}, 5), ({"timestamp": 999}, 5)],
)
def test_another_epoch_codec_or_age_begins_another_run(change: dict[str, int], at: int) -> None:
    log = [small(offset, **({"timestamp": 1000} | change if offset >= at else {})) for offset in range(10)]
    assert shape(taken_apart(view(log))) == [(0, 5, True), (5, 5, True)]


def test_a_gap_between_batches_begins_another_run() -> None:
    log = [*(small(offset) for offset in range(5)), *(small(offset) for offset in range(7, 10))]
    assert shape(taken_apart(view(log))) == [(0, 5, True), (7, 3, True)]


def test_batches_mirrored_from_a_third_cluster_may_be_merged() -> None:
    log = [small(offset, producer_id=producer_id("third-cluster", "topic")) for offset in range(6)]
    assert shape(taken_apart(view(log))) == [(0, 6, True)]


def test_a_delete_horizon_does_not_part_batches() -> None:
    log = [small(offset, attributes=0x40 * (offset % 2)) for offset in range(6)]
    assert shape(taken_apart(view(log))) == [(0, 6, True)]


def test_more_runs_than_the_kernel_has_rows_for_come_all() -> None:
    log = [small(offset, leader_epoch=offset // 2) for offset in range(1000)]
    assert shape(taken_apart(view(log))) == [(offset, 2, True) for offset in range(0, 1000, 2)]


def test_old_formats_come_one_by_one_among_new_ones() -> None:
    log = [*(small(offset) for offset in range(6)), make_legacy_message(b"x" * 100, offset=6), small(7)]
    assert shape(taken_apart(view(log))) == [(0, 6, True), (6, 1, False), (7, 1, True)]


def test_a_header_that_cannot_be_is_met_behind_all_before_it() -> None:
    log = [small(offset) for offset in range(8)]
    struct.pack_into(">i", log[6], 8, 3)
    met: list[int] = []
    with pytest.raises(CorruptBatch):
        met.extend(run.batches for run in split_runs(view(log)))
    assert met == [6]


def described(records: memoryview) -> Iterator[tuple[int, int, int, bool, bool]]:
    """The rule in words: one row for each batch, and whether it may stand together with the one before."""
    last = None
    for header, batch in split_batches(records):
        mergeable = (
            len(batch) <= SMALL
            and header.magic == 2
            and header.attributes & ~0x47 == 0
            and header.attributes & 7 <= 4
            and header.is_dense
            and header.producer_id >> 32 != id_prefix(TARGET)
            and crc32c(batch[21:]) == header.crc
        )
        old = header.max_timestamp < OLD_BEFORE
        this = (header.attributes & 7, header.leader_epoch, old)
        joins = mergeable and last is not None and last == (*this, header.base_offset)
        last = (*this, header.next_offset) if mergeable else None
        yield header.base_offset, header.next_offset, header.records_count, mergeable, joins


def grouped(records: memoryview) -> list[tuple[int, int, int, int, bool]]:
    groups: list[tuple[int, int, int, int, bool]] = []
    for base, behind, count, mergeable, joins in described(records):
        if joins:
            first, _, records_count, number, _ = groups.pop()
            groups.append((first, behind, records_count + count, number + 1, mergeable))
        else:
            groups.append((base, behind, count, 1, mergeable))
    return groups


oddities = st.sampled_from([{}, {}, {}, {"attributes": 0x10}, {"leader_epoch": 3}, {"attributes": 0x08}])


@given(
    log=st.lists(st.tuples(batches([Codec.NONE, Codec.LZ4], max_size=2), oddities), max_size=12),
    cut=st.integers(0, 100),
    flip=st.none() | st.integers(21, 2000),
)
def test_runs_are_what_the_rule_says(
    log: list[tuple[Batch, dict[str, Any]]], cut: int, flip: int | None
) -> None:
    data = bytearray(b"".join(encode(replace(batch, **odd) for batch, odd in log)))
    if flip is not None and flip < len(data) and flip > 200:
        data[-1] ^= 1  # the last batch's checksum is wrong
    records = memoryview(data)[: max(0, len(data) - cut)]
    with patch.object(runs_module, "_OTHERS", 0):  # Python looks at none by itself
        found = taken_apart(records)
    assert [
        (run.header.base_offset, run.header.next_offset, run.header.records_count, run.batches, run.mergeable)
        for run in found
    ] == grouped(records)
    whole = b"".join(batch for _, batch in split_batches(records))
    assert b"".join(run.view for run in found) == whole
    assert b"".join(run.view for run in taken_apart(records)) == whole


@given(log=st.lists(batches(), min_size=1, max_size=8), mutate=mutations)
def test_hostile_answers_are_taken_apart_or_refused(log: list[Batch], mutate: Mutation) -> None:
    records = memoryview(bytearray(mutate(b"".join(encode(log)))))
    try:
        found = [bytes(run.view) for run in split_runs(records)]
    except ProtocolError:
        with pytest.raises(ProtocolError):
            list(split_batches(records))
        return
    assert b"".join(found) == b"".join(batch for _, batch in split_batches(records))


def test_without_kernels_every_batch_is_a_run_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_module, "loaded", lambda: None)
    log = [small(offset) for offset in range(10)]
    found = taken_apart(view(log))
    assert shape(found) == [(offset, 1, True) for offset in range(10)]
    assert not any(run.verified for run in found)
