"""Control batches: a marker says how a transaction ended; other ones are told apart from corrupt ones."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.errors import CorruptBatch, ProtocolError
from heliograph.wire.batch import read_header
from heliograph.wire.control_batch import ControlMarker, MarkerKind, read_marker

from .batches import ABORT, COMMIT, CONTROL, GZIP, TRANSACTIONAL, make_batch, make_control_batch
from .hostile import mutations

int16s = st.integers(0, 2**15 - 1)
int32s = st.integers(0, 2**31 - 1)
int64s = st.integers(0, 2**63 - 1)
LEADER_CHANGE = 2


def read(batch: bytes | bytearray) -> ControlMarker:
    return read_marker(read_header(memoryview(batch)), memoryview(batch))


def control(key: bytes | None, value: bytes | None, **changed: Any) -> bytearray:
    return make_batch(
        [(key, value, ())],
        attributes=CONTROL | TRANSACTIONAL,
        producer_id=7,
        producer_epoch=3,
        **changed,
    )


@given(
    kind=st.sampled_from([ABORT, COMMIT]), producer=int64s, epoch=int16s, coordinator=int32s, offset=int32s
)
def test_a_marker_says_whose_transaction_ended_and_how(
    kind: int, producer: int, epoch: int, coordinator: int, offset: int
) -> None:
    batch = make_control_batch(
        kind,
        base_offset=offset,
        producer_id=producer,
        producer_epoch=epoch,
        coordinator_epoch=coordinator,
    )
    expected = MarkerKind.ABORT if kind == ABORT else MarkerKind.COMMIT
    assert read(batch) == ControlMarker(expected, producer, epoch, coordinator)


def test_a_later_version_that_says_more_is_read_as_far_as_we_know_it() -> None:
    key, value = struct.pack(">hhi", 1, ABORT, 9), struct.pack(">hiq", 1, 5, 9)
    assert read(control(key, value)) == ControlMarker(MarkerKind.ABORT, 7, 3, 5)


def test_a_marker_of_any_timestamp_and_codec_is_read() -> None:
    key, value = struct.pack(">hh", 0, COMMIT), struct.pack(">hi", 0, 5)
    expected = ControlMarker(MarkerKind.COMMIT, 7, 3, 5)
    assert read(control(key, value, timestamp=0, timestamps=[2**62])) == expected
    assert read(control(key, value, timestamp=2**62, timestamps=[-(2**62)])) == expected
    assert read(control(key, value, codec=GZIP)) == expected


def test_another_control_record_ends_no_transaction() -> None:
    other = ControlMarker(MarkerKind.OTHER, 7, 3, -1)
    assert read(control(struct.pack(">hh", 0, LEADER_CHANGE), b"anything")) == other
    assert read(control(struct.pack(">hh", 0, -1), None)) == other


def test_what_a_cleaner_left_of_a_marker_ends_no_transaction() -> None:
    emptied = make_batch([], attributes=CONTROL | TRANSACTIONAL, producer_id=7, last_offset_delta=0)
    assert read(emptied) == ControlMarker(MarkerKind.OTHER, 7, -1, -1)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, struct.pack(">hi", 0, 5)),
        (b"\0\0\0", struct.pack(">hi", 0, 5)),
        (struct.pack(">hh", -1, ABORT), struct.pack(">hi", 0, 5)),
        (struct.pack(">hh", 0, ABORT), None),
        (struct.pack(">hh", 0, ABORT), b"\0\0\0\0\0"),
        (struct.pack(">hh", 0, COMMIT), struct.pack(">hi", -1, 5)),
    ],
)
def test_a_record_that_is_no_control_record_is_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptBatch, match="offset 0"):
        read(control(key, value))


def test_a_marker_cut_anywhere_is_corrupt() -> None:
    batch = make_control_batch(ABORT, producer_id=7)
    header = read_header(memoryview(batch))
    for size in range(61, len(batch)):
        with pytest.raises(CorruptBatch):
            read_marker(header, memoryview(batch)[:size])


@given(mutation=mutations)
def test_a_mutated_marker_is_read_or_refused(mutation: Any) -> None:
    batch = bytes(make_control_batch(ABORT, producer_id=7))
    header = read_header(memoryview(batch))
    with contextlib.suppress(ProtocolError):
        read_marker(header, memoryview(batch[:61] + mutation(batch[61:])))
