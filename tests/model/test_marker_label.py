"""Labels of markers: they say their offset and attempt, and of two attempts at one offset a broker takes one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.model.marker_label import (
    ATTEMPTS,
    BLOCK_OFFSETS,
    MarkerLabel,
    ReadLabel,
    block_end,
    marker_id,
    marker_label,
    read_label,
)
from heliograph.model.producer_id import MARK, is_mirrored, producer_id

own_ids = st.builds(lambda low: MARK << 56 | low, st.integers(0, (1 << 56) - 1))
offsets = st.integers(0, 2**63 - 2**31)
attempts = st.integers(0, ATTEMPTS - 1)
nearby = st.integers(-BLOCK_OFFSETS, BLOCK_OFFSETS)
OURS = producer_id("5L6g3nShT-eMCtK--X86sw", "orders")


@settings(deadline=None)
@given(own_id=own_ids, offset=offsets, attempt=attempts, repair=st.booleans(), aside=nearby)
def test_a_label_says_its_offset_attempt_and_purpose_to_who_reads_it_nearby(
    own_id: int, offset: int, attempt: int, repair: bool, aside: int
) -> None:
    label = marker_label(own_id, offset, attempt, repair=repair)
    near_offset = max(offset + aside, 0)
    assert read_label(own_id, near_offset, label) == ReadLabel(offset, attempt, repair)


@settings(deadline=None)
@given(own_id=own_ids, offset=offsets, attempt=attempts, repair=st.booleans())
def test_a_label_fits_the_protocols_fields_and_is_no_mirrored_batch(
    own_id: int, offset: int, attempt: int, repair: bool
) -> None:
    label = marker_label(own_id, offset, attempt, repair=repair)
    assert 0 < label.producer_id < 1 << 63
    assert 0 <= label.producer_epoch < 1 << 15
    assert 0 <= label.coordinator_epoch < 1 << 31
    assert not is_mirrored(label.producer_id)
    assert label.producer_id >> 32 & 0xFFFFFF == own_id >> 32 & 0xFFFFFF


@settings(deadline=None)
@given(own_id=own_ids, offset=offsets, pair=st.lists(attempts, min_size=2, max_size=2, unique=True))
def test_of_two_attempts_at_one_offset_each_is_refused_after_the_other(
    own_id: int, offset: int, pair: list[int]
) -> None:
    earlier, later = (marker_label(own_id, offset, attempt) for attempt in sorted(pair))
    assert earlier.producer_id == later.producer_id
    assert earlier.producer_epoch < later.producer_epoch
    assert earlier.coordinator_epoch > later.coordinator_epoch


@settings(deadline=None)
@given(
    own_id=own_ids,
    block=st.integers(0, 2**40),
    pair=st.lists(st.integers(0, BLOCK_OFFSETS - 1), min_size=2, max_size=2, unique=True),
    one=attempts,
    other=attempts,
)
def test_a_later_offset_of_a_block_has_the_higher_coordinator_epoch_in_any_attempt(
    own_id: int, block: int, pair: list[int], one: int, other: int
) -> None:
    first, second = sorted(block * BLOCK_OFFSETS + each for each in pair)
    before, behind = marker_label(own_id, first, one), marker_label(own_id, second, other)
    assert before.producer_id == behind.producer_id
    assert before.coordinator_epoch < behind.coordinator_epoch


@settings(deadline=None)
@given(
    own_id=own_ids,
    near_offset=offsets,
    label=st.builds(
        MarkerLabel,
        st.integers(-(2**63), 2**63 - 1),
        st.integers(-(2**15), 2**15 - 1),
        st.integers(-(2**31), 2**31 - 1),
    ),
)
def test_a_label_that_is_read_is_the_one_that_its_offset_and_attempt_make(
    own_id: int, near_offset: int, label: MarkerLabel
) -> None:
    read = read_label(own_id, near_offset, label)
    assert read is None or marker_label(own_id, read.offset, read.attempt, repair=read.repair) == label


def test_a_block_ends_where_the_next_ones_id_begins() -> None:
    assert block_end(0) == block_end(65_535) == 65_536
    assert block_end(65_536) == 131_072
    assert marker_id(OURS, 65_535) + 1 == marker_id(OURS, 65_536)


def test_ids_of_blocks_wrap_inside_the_topics_bits() -> None:
    own_id = MARK << 56 | 0xABCDEF << 32 | 0xFFFFFFFF
    assert marker_id(own_id, 0) == 0x49ABCDEFFFFFFFFF
    assert marker_id(own_id, BLOCK_OFFSETS) == 0x49ABCDEF00000000
    label = marker_label(own_id, BLOCK_OFFSETS + 5, 3)
    assert read_label(own_id, 0, label) == ReadLabel(BLOCK_OFFSETS + 5, 3, False)


@pytest.mark.parametrize(
    "label",
    [
        MarkerLabel(OURS, 0, ATTEMPTS - 1),  # a data batch's id
        marker_label(OURS, 3 * BLOCK_OFFSETS, 0),  # a block too far away
        marker_label(OURS, 100, 7)._replace(producer_epoch=8),  # epochs of two attempts
        marker_label(OURS, 100, 7)._replace(coordinator_epoch=-1),
        marker_label(producer_id("another cluster", "orders"), 100, 7),
        MarkerLabel(4000, 0, 0),  # a transactional producer
    ],
)
def test_a_label_that_is_not_ours_says_nothing(label: MarkerLabel) -> None:
    assert read_label(OURS, 100, label) is None


@pytest.mark.parametrize("attempt", [-1, ATTEMPTS])
def test_there_are_32768_attempts(attempt: int) -> None:
    with pytest.raises(AssertionError):
        marker_label(OURS, 0, attempt)


def test_a_label_is_the_same_in_every_release() -> None:
    """What a log holds is read by later releases, too."""
    assert marker_label(OURS, 65_536 * 3 + 10, 2) == MarkerLabel(0x49110C19E35C024E, 2, 10 * 32_768 + 32_765)
    assert marker_label(OURS, 10, 2, repair=True) == MarkerLabel(0x4A110C19E35C024B, 2, 10 * 32_768 + 32_765)
