"""A target batch of records and fillers against the source: what may differ, and what may not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from heliograph.model.errors import CorruptBatch
from heliograph.wire.batch import Codec, read_header
from heliograph.wire.compare import Differs
from heliograph.wire.compare_dense import dense_difference
from heliograph.wire.dense import Dense, dense_batch
from heliograph.wire.kernels.loading import Kernels

from .batches import Record, make_batch
from .sparse_logs import SparseBatch, batches_of, held_by, holes_of, sparse_logs, without

NOW_MS = 1_700_000_500_000
SIZE = 120
ONE: Record = (b"key", b"value", ())


def dense_of(kernels: Kernels, log: list[SparseBatch], first: int, codec: Codec = Codec.NONE) -> memoryview:
    """As the target holds it."""
    dense = dense_batch(
        kernels,
        batches_of(log),
        first_offset=first,
        next_offset=first + SIZE,
        filler_time_ms=NOW_MS,
        codec=codec,
        limit_bytes=1 << 20,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        holes=holes_of(log),
    )
    assert isinstance(dense, Dense)
    dense.batch[:8] = first.to_bytes(8, "big")
    return dense.batch


def differs(
    kernels: Kernels, target: memoryview, source: list[SparseBatch], holes: frozenset[int] | None = None
) -> int | None:
    first = read_header(target).base_offset
    found = dense_difference(
        kernels,
        target,
        batches_of(source),
        first_offset=first,
        next_offset=first + SIZE,
        holes=holes_of(source) if holes is None else holes,
    )
    return None if found is None else found.offset


def start_of(log: list[SparseBatch]) -> int:
    return log[0].base_offset if log else 0


def batch_at(offset: int, *deltas: int, span: int = 10, record: Record = ONE) -> SparseBatch:
    records = dict.fromkeys(deltas, (record, NOW_MS - 1))
    return SparseBatch(base_offset=offset, span=span, records=records)


@given(log=sparse_logs(), codec=st.sampled_from(Codec))
def test_what_was_made_of_the_source_fits_it(kernels: Kernels, log: list[SparseBatch], codec: Codec) -> None:
    assert differs(kernels, dense_of(kernels, log, start_of(log), codec), log) is None


@given(log=sparse_logs((Codec.NONE, Codec.ZSTD)), data=st.data())
def test_a_record_that_compaction_took_since_is_no_difference(
    kernels: Kernels, log: list[SparseBatch], data: st.DataObject
) -> None:
    held = [(nth, delta) for nth, batch in enumerate(log) if batch.holds() for delta in batch.records]
    assume(held)
    nth, delta = data.draw(st.sampled_from(held))
    # With log append time the others' time is that of the latest: a cleaner leaves the header's as it is.
    assume(not log[nth].attributes & 0x08)
    source = [without(batch, delta) if each == nth else batch for each, batch in enumerate(log)]
    target = dense_of(kernels, log, start_of(log))
    assert differs(kernels, target, source) is None
    gone = data.draw(st.integers(0, len(log) - 1))
    assert differs(kernels, target, log[:gone] + log[gone + 1 :]) is None  # its batch too


@given(log=sparse_logs((Codec.NONE, Codec.LZ4)), data=st.data())
def test_a_filler_where_the_source_holds_a_record_is_a_difference(
    kernels: Kernels, log: list[SparseBatch], data: st.DataObject
) -> None:
    first = start_of(log)
    inside = [
        (nth, delta)
        for nth, batch in enumerate(log)
        if batch.holds() and not batch.attributes & 0x08
        for delta in batch.records
        if batch.base_offset + delta < first + SIZE
    ]
    assume(inside)
    nth, delta = data.draw(st.sampled_from(inside))
    less = [without(batch, delta) if each == nth else batch for each, batch in enumerate(log)]
    assert differs(kernels, dense_of(kernels, less, first), log) == log[nth].base_offset + delta


@given(log=sparse_logs((Codec.NONE,)), data=st.data(), later=st.booleans())
def test_another_record_or_time_is_a_difference_and_the_first_is_named(
    kernels: Kernels, log: list[SparseBatch], data: st.DataObject, later: bool
) -> None:
    first = start_of(log)
    held = [offset for offset in held_by(log) if offset < first + SIZE]
    assume(held)
    offset = data.draw(st.sampled_from(held))
    nth = next(n for n, batch in enumerate(log) if batch.base_offset <= offset < batch.next_offset)
    batch, delta = log[nth], offset - log[nth].base_offset
    assume(not batch.attributes & 0x08)
    (key, value, headers), moment = batch.records[delta]
    other = ((key, value, headers), moment + 1) if later else ((key, b"!" + (value or b""), headers), moment)
    source = [*log[:nth], replace(batch, records={**batch.records, delta: other}), *log[nth + 1 :]]
    assert differs(kernels, dense_of(kernels, log, first), source) == offset


def test_a_record_of_the_source_that_is_not_in_the_target_is_a_difference_unless_it_is_a_hole(
    kernels: Kernels,
) -> None:
    target = dense_of(kernels, [batch_at(0, 3)], 0)
    source = [batch_at(0, 3), batch_at(20, 4)]
    assert differs(kernels, target, source) == 24
    assert differs(kernels, target, source, frozenset({20})) is None
    short = memoryview(make_batch([ONE], base_offset=0, timestamp=NOW_MS - 1))
    assert (
        differs(kernels, short, [batch_at(0, 0), batch_at(20, 4)]) == 24
    )  # also where the target holds nothing
    assert differs(kernels, short, [batch_at(0, 0), batch_at(20, 4)], frozenset({20})) is None


@pytest.mark.parametrize("control", [True, False])
def test_a_record_where_the_source_has_a_marker_or_aborted_records_is_a_difference(
    kernels: Kernels, control: bool
) -> None:
    """Compaction cannot have taken it there."""
    target = dense_of(kernels, [batch_at(5, 0, span=1)], 0)
    barren = replace(batch_at(5, span=1), control=control, hole=not control)
    assert differs(kernels, target, [barren]) == 5
    assert differs(kernels, target, [replace(barren, base_offset=4)]) is None
    assert differs(kernels, target, [replace(barren, base_offset=6)]) is None
    assert differs(kernels, dense_of(kernels, [], 0), [barren]) is None  # a filler is what belongs there


def test_offsets_outside_of_the_range_are_not_compared(kernels: Kernels) -> None:
    target = dense_of(kernels, [batch_at(0, 3)], 0)
    source = batches_of([batch_at(0, 3, record=(None, None, ())), batch_at(20, 4)])
    found = dense_difference(kernels, target, source, first_offset=4, next_offset=24)
    assert found is None
    found = dense_difference(kernels, target, source, first_offset=4, next_offset=25)
    assert found == Differs(offset=24)


def test_bytes_that_are_no_records_are_corrupt_and_whose_they_are_is_said(kernels: Kernels) -> None:
    broken = memoryview(make_batch([ONE], compress=lambda _: b"\x02\0"))
    whole = memoryview(make_batch([ONE]))
    for target, source, name in ((broken, whole, "target"), (whole, broken, "source")):
        with pytest.raises(CorruptBatch, match=f"the {name} holds"):
            dense_difference(kernels, target, [(read_header(source), source)], first_offset=0, next_offset=9)
