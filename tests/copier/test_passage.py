"""Which way a batch goes: through, or a stop that says what was met and where (P5, P6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.copier import passage
from heliograph.copier.batches import SourceBatch, SourceGap
from heliograph.copier.budget import ByteBudget, Parcel
from heliograph.copier.passage import PASS, REENCODE, Gap, Missing, Stop, Way, pass_through, way_of
from heliograph.copier.spec import PRODUCER_EPOCH, CopySpec
from heliograph.model.errors import CorruptBatch, PartitionStop
from heliograph.model.fill_way import FillWay
from heliograph.model.producer_id import producer_id
from heliograph.model.states import StopReason
from heliograph.wire.batch import payload_equal, read_header, verify_crc
from heliograph.wire.runs import Run
from tests.wire.batches import GZIP, make_legacy_message

from .source_batches import LOG_APPEND_TIME, OURS, TRANSACTIONAL, batch, position_at, spec_of

SPEC = spec_of()


def waiting(source: bytearray) -> SourceBatch:
    view = memoryview(source)
    return SourceBatch(Run(read_header(view), 1, view, False, False, False), Parcel(ByteBudget(0), 0).hold())


def prepare(source: bytearray, next_offset: int, spec: CopySpec = SPEC) -> memoryview:
    """What is appended of a batch that passes."""
    assert way_of(waiting(source), next_offset, spec) is PASS
    return pass_through(waiting(source), position_at(next_offset), spec).batch


def stop_at(next_offset: int, source: bytearray, max_batch_bytes: int = 1 << 20) -> PartitionStop:
    """The stop this batch leads to; and not a byte of it may have changed."""
    before = bytes(source)
    way = way_of(waiting(source), next_offset, spec_of(max_batch_bytes=max_batch_bytes))
    assert isinstance(way, Stop)
    assert bytes(source) == before
    assert way.why.hint
    return way.why


@settings(deadline=None)
@given(
    at=st.integers(0, 1 << 40),
    count=st.integers(1, 5),
    codec=st.sampled_from([0, GZIP]),
    leader_epoch=st.integers(0, 100),
)
def test_a_dense_batch_passes_with_its_records_untouched(
    at: int, count: int, codec: int, leader_epoch: int
) -> None:
    source = batch(at, count, codec=codec, leader_epoch=leader_epoch, producer_id=5, base_sequence=0)
    view = prepare(bytearray(source), at)
    header = read_header(view)
    verify_crc(header, view)
    assert payload_equal(view, memoryview(source))
    assert header.base_offset == 0
    assert (header.producer_id, header.producer_epoch) == (OURS, PRODUCER_EPOCH)
    assert header.base_sequence == at % (1 << 31)


@pytest.mark.parametrize(
    "changed",
    [
        {"attributes": LOG_APPEND_TIME},
        {"last_offset_delta": 5},
    ],
)
def test_what_cannot_go_as_it_is_is_recoded(changed: dict[str, Any]) -> None:
    assert way_of(waiting(batch(42, **changed)), 42, SPEC) is REENCODE


@pytest.mark.parametrize("changed", [{}, {"attributes": LOG_APPEND_TIME}, {"last_offset_delta": 5}])
def test_what_was_mirrored_from_the_target_stops_in_whatever_form(changed: dict[str, Any]) -> None:
    stop = stop_at(42, batch(42, producer_id=producer_id("nyc-id", "orders"), **changed))
    assert stop.reason == StopReason.LOOP
    assert "42" in stop.message


def test_a_batch_of_a_transaction_passes_and_is_in_none_any_more() -> None:
    source = batch(42, 3, attributes=TRANSACTIONAL, producer_id=5)
    view = prepare(bytearray(source), 42)
    header = read_header(view)
    verify_crc(header, view)
    assert not header.is_transactional
    assert payload_equal(view, memoryview(source))


def test_a_gap_ends_where_a_header_was_seen() -> None:
    assert way_of(SourceGap(40, 45), 42, SPEC) == Gap(45)
    assert way_of(SourceGap(43, 45), 42, SPEC) == Missing(43)
    assert way_of(waiting(batch(45)), 42, SPEC) == Missing(45)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_of_an_old_format_is_recoded(magic: int) -> None:
    assert way_of(waiting(make_legacy_message(b"old", offset=42, magic=magic)), 42, SPEC) is REENCODE


@pytest.mark.parametrize(
    ("way", "seconds"), [(FillWay.MARKERS, 67), (FillWay.TRANSACTIONS, 5556), (FillWay.NONE, 67)]
)
def test_too_many_missing_offsets_stop_and_say_how_long_they_would_take(way: FillWay, seconds: int) -> None:
    last = 42 + passage.MOST_HOLES
    assert way_of(waiting(batch(last)), 42, SPEC) == Missing(last)
    stopped = way_of(waiting(batch(last + 1)), 42, replace(SPEC, fill_way=way))
    assert isinstance(stopped, Stop)
    stop = stopped.why
    assert stop.reason == StopReason.HOLES
    assert f"[42, {last + 1})" in stop.message
    assert f"would take {seconds} s" in stop.message
    assert "{remirror}" in stop.hint


def test_a_position_inside_a_batch_recodes_it() -> None:
    assert way_of(waiting(batch(42, 3)), 43, SPEC) is REENCODE


def test_a_batch_mirrored_from_a_third_cluster_passes() -> None:
    view = prepare(batch(0, producer_id=producer_id("rome-id", "orders")), 0)
    assert read_header(view).producer_id == OURS


def test_a_batch_of_just_the_targets_size_passes_and_one_byte_more_is_recoded() -> None:
    size_bytes = len(batch(0))
    prepare(batch(0), 0, spec_of(max_batch_bytes=size_bytes))
    assert way_of(waiting(batch(0)), 0, spec_of(max_batch_bytes=size_bytes - 1)) is REENCODE


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_a_corrupt_batch_never_gets_a_valid_checksum(data: st.DataObject) -> None:
    source = batch(42, 3)
    at = data.draw(st.integers(21, len(source) - 1))
    source[at] ^= data.draw(st.integers(1, 255))
    before = bytes(source)
    try:
        way: Way = way_of(waiting(source), 42, SPEC)
    except CorruptBatch:
        return
    assert way is not PASS
    assert bytes(source) == before
