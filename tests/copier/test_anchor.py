"""The anchor of a topic that was built: its brokers have removed the fillers, also those at the source's markers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from heliograph.cluster.log_reads import Batches, LogSpan
from heliograph.copier.anchor import compare_anchor
from heliograph.copier.questions import ReadSourceBatch, ReadSourceBatches
from heliograph.model.errors import PartitionStop
from heliograph.wire.batch import read_header
from heliograph.wire.kernels.loading import wait
from tests.wire.batches import make_control_batch

from .source_batches import holed, spec_of

MARKER = 5
BUILT = [0, 2, 4, 7, 9]  # what the target's cleaner has left of one batch
SPAN = LogSpan(start=0, high_watermark=10, end=10)


def compare(target: bytearray, source: Sequence[bytearray]) -> int:
    wait()
    views = [memoryview(each) for each in source]
    headers = [read_header(each) for each in views]
    last = memoryview(target)
    asking = compare_anchor(spec_of(), (read_header(last), last), SPAN, SPAN)
    answer: Any = None
    while True:
        try:
            question = asking.send(answer)
        except StopIteration as done:
            epoch: int = done.value
            return epoch
        if isinstance(question, ReadSourceBatch):
            answer = (headers[0], views[0])
        elif isinstance(question, ReadSourceBatches):
            answer = Batches(headers=tuple(headers), views=tuple(views), read_to=headers[-1].next_offset)
        else:
            answer = None


def source_left(before: list[int], behind: list[int]) -> list[bytearray]:
    """Two batches by their offsets, and a transaction's marker between them."""
    return [
        holed(0, before, MARKER - 1),
        make_control_batch(1, base_offset=MARKER, producer_id=7),
        holed(MARKER + 1, [offset - MARKER - 1 for offset in behind], 3),
    ]


def test_records_that_the_source_has_compacted_since_are_no_difference_beside_its_markers() -> None:
    assert compare(holed(0, BUILT, 9), source_left([0, 4], [9])) >= 0


def test_records_that_the_target_has_compacted_are_no_difference_beside_markers() -> None:
    assert compare(holed(0, BUILT, 9), source_left([0, 1, 2, 3, 4], [6, 7, 8, 9])) >= 0


def test_a_record_where_the_source_has_a_marker_is_a_difference() -> None:
    with pytest.raises(PartitionStop, match=f"offset {MARKER}"):
        compare(holed(0, sorted([*BUILT, MARKER]), 9), source_left([0, 4], [9]))
