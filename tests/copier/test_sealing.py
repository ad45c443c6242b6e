"""No filler of a build may stay in the segment that is written: the last marker waits until it will begin another one,
and a partition whose fillers no broker would ever remove stops at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heliograph.cluster.list_offsets import DatedRecord
from heliograph.copier.ports import Batch
from heliograph.copier.questions import AwaitTime, ReadTargetSegmentEnd, ReadTargetSince
from heliograph.copier.sealing import MOST_AHEAD_MS
from heliograph.model.marker_label import marker_label
from heliograph.model.states import StopReason
from heliograph.wire.batch import read_header
from heliograph.wire.filler import filler_batch
from heliograph.wire.kernels.loading import Kernels, wait
from tests.wire.batches import ABORT, make_control_batch

from .source_batches import OURS, batch, spec_of
from .two_logs import Logs, found_by, state, stop_of

END = 12  # of the last hole


@pytest.fixture(scope="module", autouse=True)
def kernels() -> Kernels:
    return wait()


def at(offset: int, data: bytearray) -> Batch:
    data[:8] = offset.to_bytes(8, "big")
    view = memoryview(data)
    return read_header(view), view


def record(offset: int, count: int = 1) -> Batch:
    return at(offset, batch(offset, count, producer_id=OURS, producer_epoch=0, base_sequence=offset))


def fillers(offset: int, count: int) -> Batch:
    made = filler_batch(count, producer_id=OURS, producer_epoch=0, base_sequence=offset, timestamp_ms=5)
    return at(offset, made)


def marker(offset: int) -> Batch:
    label = marker_label(OURS, offset, 0, repair=False)
    return at(
        offset,
        make_control_batch(
            ABORT,
            producer_id=label.producer_id,
            producer_epoch=label.producer_epoch,
            coordinator_epoch=label.coordinator_epoch,
        ),
    )


def filled(*target: Batch, **more: object) -> Logs:
    """The source holds a record at 2, another one at 5, and [12, 14); the target what is given."""
    source = [record(2), record(5), record(END, 2)]
    spec = replace(spec_of(), builds=True, source_compacts=True, gaps_filled=True)
    last = max(header.last_sequence for header, _ in target if not header.is_control)
    return Logs(source, list(target), state(last), spec=spec, **more)  # type: ignore[arg-type]


def all_but_the_last() -> list[Batch]:
    return [fillers(0, 2), record(2), fillers(3, 2), record(5), fillers(6, END - 7)]


def asked(logs: Logs, *kinds: type) -> list[object]:
    return [question for question in logs.asked if isinstance(question, kinds)]


def test_the_marker_waits_until_the_newest_record_of_the_target_is_old_enough() -> None:
    young = DatedRecord(5, 100)
    logs = filled(*all_but_the_last(), newest=[young, young])
    assert found_by(logs).build_to == END
    assert asked(logs, AwaitTime) == [AwaitTime(young, MOST_AHEAD_MS)] * 2
    assert len(asked(logs, ReadTargetSince)) == 3
    assert asked(logs, ReadTargetSegmentEnd) == []


def test_a_record_that_is_dated_far_ahead_is_not_waited_for() -> None:
    logs = filled(*all_but_the_last(), newest=[DatedRecord(5, MOST_AHEAD_MS + 1)] * 2)
    assert found_by(logs).build_to == END
    assert len(asked(logs, AwaitTime)) == 1


def test_nothing_is_asked_while_more_than_the_marker_is_left_to_fill() -> None:
    logs = filled(*all_but_the_last()[:-1], newest=[DatedRecord(5, 100)])
    assert found_by(logs).build_to == END
    assert asked(logs, ReadTargetSince, ReadTargetSegmentEnd) == []


def test_a_marker_that_begins_a_segment_has_sealed_all_before_it() -> None:
    logs = filled(*all_but_the_last(), marker(END - 1), segment_ends=[3, END - 1, END])
    assert found_by(logs).build_to is None
    assert asked(logs, ReadTargetSegmentEnd) == [ReadTargetSegmentEnd(END - 2)]


def test_records_without_fillers_may_be_in_the_segment_that_is_written() -> None:
    """A hole of one offset, which gets the marker, behind a stretch of records."""
    source = [record(2), record(5), record(6, 5), record(END, 2)]
    target = [fillers(0, 2), record(2), fillers(3, 2), record(5), record(6, 5), marker(END - 1)]
    logs = replace(filled(*target, segment_ends=[5, END]), source=source)
    assert found_by(logs).build_to is None
    assert asked(logs, ReadTargetSegmentEnd) == [ReadTargetSegmentEnd(END - 2), ReadTargetSegmentEnd(4)]


def test_a_filler_in_the_segment_that_is_written_stops_the_partition_and_names_what_is_dated_ahead() -> None:
    late = DatedRecord(5, 4_102_444_800_000)
    logs = filled(*all_but_the_last(), marker(END - 1), segment_ends=[2, END], newest=[late])
    stop = stop_of(logs)
    assert stop.reason is StopReason.BUILD
    assert stop.first_offset == END - 2
    assert "the record at offset 5 is dated 2100-01-01 00:00:00 UTC" in stop.message


def test_a_time_that_no_calendar_has_is_told_all_the_same() -> None:
    late = DatedRecord(5, 2**62)
    logs = filled(*all_but_the_last(), marker(END - 1), segment_ends=[2, END], newest=[late])
    assert "is dated 9999-12-31" in stop_of(logs).message


def test_a_marker_that_has_begun_no_segment_though_nothing_is_dated_ahead_is_a_matter_of_clocks() -> None:
    logs = filled(*all_but_the_last(), marker(END - 1), segment_ends=[2, END])
    assert "clocks" in stop_of(logs).message
