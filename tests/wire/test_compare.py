"""Two logs compared record by record: judged by comparing what went into them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from heliograph.model.errors import CorruptBatch
from heliograph.wire.batch import Codec
from heliograph.wire.compare import Allowed, Differs, first_difference
from heliograph.wire.kernels.loading import Kernels

from .batches import Record, make_batch, make_legacy_message
from .logs import Batch, batches, encode, expected, view

ONE: Record = (b"k", b"v", [])


def rebatched(log: list[Batch], data: st.DataObject) -> list[Batch]:
    """The same records in other batches."""
    pairs = [pair for batch in log for pair in batch.records]
    made = []
    while pairs:
        size = data.draw(st.integers(1, len(pairs)))
        codec = data.draw(st.sampled_from(list(Codec)))
        made.append(Batch(records=pairs[:size], codec=codec))
        pairs = pairs[size:]
    return made


def differs(kernels: Kernels, a: list[bytearray], b: list[bytearray], first: int, behind: int) -> int | None:
    found = first_difference(kernels, map(memoryview, a), [view(b)], first_offset=first, next_offset=behind)
    return found.offset if found else None


@given(log=st.lists(batches(list(Codec)), min_size=1, max_size=6), data=st.data())
def test_the_same_records_in_other_batches_are_equal(
    kernels: Kernels, log: list[Batch], data: st.DataObject
) -> None:
    a, b = encode(log, 50), encode(rebatched(log, data), 50)
    behind = 50 + sum(len(batch.records) for batch in log)
    assert differs(kernels, a, b, 50, behind) is None
    assert differs(kernels, b, a, 0, 2**62) is None


@given(log=st.lists(batches([Codec.NONE, Codec.LZ4]), min_size=1, max_size=6), data=st.data())
def test_the_first_difference_is_found_wherever_it_is(
    kernels: Kernels, log: list[Batch], data: st.DataObject
) -> None:
    records = expected(log)
    at = data.draw(st.integers(0, len(records) - 1))
    (key, value, headers), moment = [pair for batch in log for pair in batch.records][at]
    changed = data.draw(
        st.sampled_from(
            [
                ((b"another" if key is None else None, value, headers), moment),
                ((key, (value or b"") + b"x", headers), moment),
                ((key, value, [*headers, ("h", None)]), moment),
                ((key, value, headers), moment + 1),
            ]
        )
    )
    other = []
    left = at
    for batch in log:
        pairs = list(batch.records)
        if 0 <= left < len(pairs):
            pairs[left] = changed
        left -= len(batch.records)
        other.append(replace(batch, records=pairs))
    a, b = encode(log), encode(rebatched(other, data))
    assert differs(kernels, a, b, 0, len(records)) == at
    assert differs(kernels, a, b, 0, at) is None
    assert differs(kernels, a, b, at + 1, len(records)) is None


@given(log=st.lists(batches(), min_size=2, max_size=5), data=st.data())
def test_offsets_that_only_one_has_are_differences(
    kernels: Kernels, log: list[Batch], data: st.DataObject
) -> None:
    gone = data.draw(st.integers(0, len(log) - 1))
    encoded = encode(log)
    offset = sum(len(batch.records) for batch in log[:gone])
    left = encoded[:gone] + encoded[gone + 1 :]
    assert differs(kernels, encoded, left, 0, 10**6) == offset
    assert differs(kernels, left, encoded, 0, 10**6) == offset
    assert differs(kernels, left, left, 0, 10**6) is None  # both lack them


@given(log=st.lists(batches(), min_size=2, max_size=5), data=st.data())
def test_records_that_one_may_lack_are_none_and_all_others_are_compared(
    kernels: Kernels, log: list[Batch], data: st.DataObject
) -> None:
    gone = data.draw(st.integers(0, len(log) - 1))
    whole = encode(log)
    left = whole[:gone] + whole[gone + 1 :]
    for a, b, holes in ((whole, left, (False, True)), (left, whole, (True, False))):
        for each in ((False, False), (True, False), (False, True), (True, True)):
            found = first_difference(
                kernels, [view(a)], [view(b)], first_offset=0, next_offset=10**6, allowed=Allowed(holes=each)
            )
            tolerated = all(can or not must for can, must in zip(each, holes, strict=True))
            assert (found is None) is tolerated
    other = next(nth for nth in range(len(log)) if nth != gone)
    changed = list(log)
    record, moment = changed[other].records[0]
    changed[other] = replace(changed[other], records=[(record, moment + 1), *changed[other].records[1:]])
    found = first_difference(
        kernels,
        [view(encode(changed))],
        [view(left)],
        first_offset=0,
        next_offset=10**6,
        allowed=Allowed(holes=(True, True)),
    )
    assert found == Differs(offset=sum(len(batch.records) for batch in log[:other]))


def test_nothing_is_equal_to_nothing_and_to_what_lies_outside(kernels: Kernels) -> None:
    log = encode([Batch(records=[(ONE, 1)] * 5)])
    assert differs(kernels, [], [], 0, 10) is None
    assert differs(kernels, log, [], 5, 10) is None
    assert differs(kernels, log, [], 4, 10) == 4


def test_markers_are_no_records(kernels: Kernels) -> None:
    log = encode([Batch(records=[(ONE, 1)])])
    marker = make_batch([ONE], base_offset=1, attributes=0x30)
    assert differs(kernels, [*log, marker], log, 0, 10) is None


def test_log_append_time_is_compared_as_consumers_see_it(kernels: Kernels) -> None:
    stamped = make_batch([ONE] * 2, timestamp=5, timestamps=[5, 9], attributes=0x08)
    assert differs(kernels, [stamped], encode([Batch(records=[(ONE, 9)] * 2)]), 0, 2) is None
    assert differs(kernels, [stamped], encode([Batch(records=[(ONE, 5), (ONE, 9)])]), 0, 2) == 0


def test_compressed_batches_are_compared_by_what_is_in_them(kernels: Kernels) -> None:
    plain = encode([Batch(records=[(ONE, 5)] * 3)] * 4)
    for codec in Codec:
        packed = encode([Batch(records=[(ONE, 5)] * 6, codec=codec)] * 2)
        assert differs(kernels, plain, packed, 0, 12) is None
        assert differs(kernels, plain, packed[:1], 0, 12) == 6


@pytest.mark.parametrize("broken", ["cut", "old format", "order", "count", "offset"])
def test_what_is_no_batch_is_corrupt(kernels: Kernels, broken: str) -> None:
    good = encode([Batch(records=[(ONE, 5)] * 2)] * 2)
    cases: dict[str, list[bytearray]] = {
        "cut": [good[0], good[1][:-1]],
        "old format": [good[0], make_legacy_message(b"x" * 100, offset=2)],
        "order": [good[1], good[0]],
        "count": [good[0][:57] + b"\0\0\0\3" + good[0][61:], good[1]],
        "offset": [bytearray(b"\x7f" + b"\xff" * 7 + good[0][8:])],
    }
    bad = cases[broken]
    with pytest.raises(CorruptBatch):
        first_difference(kernels, [view(bad)], [view(bad)], first_offset=0, next_offset=10)


@given(log=st.lists(batches(), min_size=1, max_size=3), where=st.integers(61, 10_000), bit=st.integers(0, 7))
def test_any_flipped_bit_of_a_record_is_a_difference(
    kernels: Kernels, log: list[Batch], where: int, bit: int
) -> None:
    a = encode(log)
    b = [bytearray(each) for each in a]
    at = 61 + where % (len(b[0]) - 61)
    b[0][at] ^= 1 << bit
    try:
        found = first_difference(kernels, [view(a)], [view(b)], first_offset=0, next_offset=10**6)
    except CorruptBatch:
        return
    # A number may be written in more bytes than it needs: then nothing is different but how it is written.
    assume(found is not None)
    assert found in [Differs(offset=nth) for nth in range(len(log[0].records))]
