"""A compacted partition on a target that is being built: records at their offsets, fillers in the holes, a marker at
the end of the last hole; and nothing behind that before the topic is built."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heliograph.copier.batches import Append
from heliograph.copier.building import BACKDATED_MS
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.model.events import Event
from heliograph.model.policy import DEFAULT_POLICY, LinkPolicy, Oversize
from heliograph.model.states import BuildPhase, PartitionState, StopReason
from heliograph.wire.batch import Codec, read_header, verify_crc
from heliograph.wire.decode import decode
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.filler import last_filler_offset
from heliograph.wire.kernels.loading import Kernels, wait
from tests.wire.logs import seen

from .source_batches import (
    AWAY,
    DAY_MS,
    MIRRORED_BACK,
    NOW_MS,
    NOW_S,
    OLD_MS,
    batch,
    give,
    holed,
    spec_of,
    synced_at,
)

GZIP = int(Codec.GZIP)
SKIP = replace(DEFAULT_POLICY, oversize=Oversize.SKIP)


@pytest.fixture(scope="module", autouse=True)
def kernels() -> Kernels:
    return wait()


def building(
    build_to: int | None, at: int = 0, policy: LinkPolicy = DEFAULT_POLICY, max_batch_bytes: int = 1 << 20
) -> PartitionCopy:
    spec = spec_of(max_batch_bytes=max_batch_bytes)
    copy = PartitionCopy(replace(spec, builds=True, policy=policy), 1 << 20)
    copy.synced(synced_at(at, state_ms=NOW_MS, build_to=build_to), NOW_MS)
    return copy


def take(copy: PartitionCopy) -> Append:
    assert copy.peek() is not None
    append = copy.take()
    copy.appended(append.start.target)
    return append


def told_phase(copy: PartitionCopy) -> str | None:
    aligning = copy.aligning(NOW_S)
    return aligning.phase if aligning is not None else None


def held(kernels: Kernels, append: Append) -> list[int]:
    """The offsets at which it has a record of the source."""
    header = read_header(append.batch)
    verify_crc(header, append.batch)
    assert header.is_dense
    assert header.records_count == append.end.target - append.start.target
    found = seen(decode(kernels, append.batch))
    return [append.start.target + record.offset for record in found if record.key is not None]


def test_holes_get_fillers_and_records_keep_their_offsets(kernels: Kernels) -> None:
    copy = building(build_to=20)
    give(copy, holed(0, [1, 4], 9), holed(12, [0, 3], 5), batch(20, 3))
    append = take(copy)
    assert (append.start.target, append.end.target, append.records) == (0, 19, 4)
    assert held(kernels, append) == [1, 4, 12, 15]
    header = read_header(append.batch)
    assert last_filler_offset(kernels, header, append.batch) == 18
    assert (header.base_sequence, header.base_timestamp) == (0, NOW_MS - BACKDATED_MS)


def test_fillers_that_align_a_topic_are_dated_back_too_so_that_the_marker_begins_a_segment() -> None:
    copy = PartitionCopy(replace(spec_of(), builds=True), 1 << 20)
    copy.synced(synced_at(0, state_ms=NOW_MS, build_to=20, align_to=10), NOW_MS)
    append = take(copy)
    assert append.end.target == 10
    assert read_header(append.batch).max_timestamp == NOW_MS - BACKDATED_MS


def test_the_last_offset_of_the_last_hole_gets_a_marker_under_a_lease_of_its_own() -> None:
    copy = building(build_to=20)
    give(copy, holed(0, [1, 4], 9), batch(20, 3))
    take(copy)
    assert copy.wants_resync  # the target is asked whether the marker may follow (copier/sealing.py)
    copy.synced(synced_at(19, state_ms=NOW_MS, build_to=20), NOW_MS)
    assert copy.peek() is None
    assert copy.wants_attempt
    copy.attempt_granted(0)
    fill = copy.fill_due()
    assert fill is not None
    assert (fill.start.source, fill.end.source, fill.exclusive) == (19, 20, True)
    assert copy.wants_exclusion
    copy.begin_fill(fill)
    copy.filled_to(20)
    copy.fill_over()
    assert copy.durable == fill.end
    assert (copy.durable.target, copy.durable.sequence) == (20, 19)  # a marker takes no sequence number
    assert copy.wants_resync  # and whether it has begun a segment
    assert told_phase(copy) is BuildPhase.FILLING
    copy.synced(synced_at(20, state_ms=NOW_MS), NOW_MS)
    assert told_phase(copy) is BuildPhase.FILLED


def test_behind_the_last_hole_nothing_is_fetched_or_sent_before_the_topic_is_built() -> None:
    copy = building(build_to=None, at=10)  # somebody has put the marker there
    assert (copy.fetch_offset(), copy.peek(), copy.wants_attempt) == (None, None, False)
    aligning = copy.aligning(NOW_S)
    assert aligning is not None
    assert (copy.state, aligning.phase) == (PartitionState.ALIGNING, BuildPhase.FILLED)


def test_a_source_without_holes_has_nothing_to_fill() -> None:
    copy = building(build_to=None)
    assert copy.fetch_offset() is None
    aligning = copy.aligning(NOW_S)
    assert aligning is not None
    assert aligning.phase == BuildPhase.FILLED


def test_who_resumes_goes_on_where_the_target_ends_also_inside_of_a_source_batch(kernels: Kernels) -> None:
    copy = building(build_to=20, at=3)
    give(copy, holed(0, [1, 4], 9), batch(20))
    append = take(copy)
    assert (append.start.sequence, held(kernels, append)) == (3, [4])


def test_old_records_among_fillers_need_no_exclusive_lease() -> None:
    copy = building(build_to=20)
    give(copy, holed(0, [1, 4], 9, timestamp=OLD_MS), batch(20, timestamp=OLD_MS))
    peeked = copy.peek()
    assert peeked is not None
    assert not peeked.perishable
    assert take(copy).max_timestamp == NOW_MS - BACKDATED_MS


def test_old_records_without_a_hole_among_them_are_perishable() -> None:
    copy = building(build_to=200_000)
    give(copy, batch(0, 50, timestamp=OLD_MS))
    peeked = copy.peek()
    assert peeked is not None
    assert peeked.perishable


def test_fillers_of_a_build_that_takes_long_are_dated_anew_before_brokers_forget_who_wrote_them() -> None:
    copy = building(build_to=200_020)
    soon_ms, later_ms = NOW_MS + DAY_MS // 5, NOW_MS + DAY_MS // 3
    dates = []
    for at, now_ms in ((0, NOW_MS), (10, soon_ms), (20, later_ms)):
        give(copy, holed(at, [1], 9), now_ms=now_ms)
        dates.append(read_header(take(copy).batch).base_timestamp)
    assert dates == [NOW_MS - BACKDATED_MS, NOW_MS - BACKDATED_MS, later_ms - BACKDATED_MS]


def test_the_codec_is_the_source_s_and_batches_of_another_one_stand_apart(kernels: Kernels) -> None:
    copy = building(build_to=40)
    give(copy, holed(0, [1], 9, codec=GZIP), holed(10, [2], 9), batch(40))
    first, second = take(copy), take(copy)
    assert [read_header(each.batch).attributes for each in (first, second)] == [GZIP, 0]
    assert (held(kernels, first), held(kernels, second)) == ([1], [12])


def test_a_corrupt_batch_stops_the_partition_and_is_not_filled_over() -> None:
    copy = building(build_to=20)
    damaged = holed(0, [1, 4], 9)
    damaged[-1] ^= 1
    give(copy, damaged, batch(20))
    assert copy.stopped is not None
    assert copy.stopped.reason is StopReason.CORRUPT


@pytest.mark.parametrize("shift_ms", [0, 1])
def test_a_duplicate_is_a_race_and_no_time_of_the_broker_s(shift_ms: int) -> None:
    """Fillers are dated anew at every resynchronisation: an append from before it that executes late has other times,
    and what follows it is answered as its duplicate, with the times that are there."""
    copy = building(build_to=20)
    give(copy, holed(0, [1, 4], 9), batch(20))
    append = copy.take()
    copy.appended(append.start.target, append.max_timestamp + shift_ms)
    assert copy.stopped is None
    assert copy.wants_resync
    assert copy.trouble is not None
    assert copy.trouble.event is Event.RACED


# -- records that are too large


def test_a_record_that_is_too_large_stops_the_partition_once_all_before_it_is_there() -> None:
    copy = building(build_to=20, max_batch_bytes=200)
    give(copy, holed(0, [1], 3), batch(4, value_bytes=300), batch(20))
    assert take(copy).end.target == 4
    assert copy.stopped is not None
    assert copy.stopped.reason is StopReason.TOO_LARGE
    assert (copy.stopped.first_offset, copy.stopped.next_offset) == (4, 5)
    assert "oversize: skip" in copy.stopped.hint


def test_a_record_that_is_left_out_is_told_and_gets_a_marker_of_its_own(kernels: Kernels) -> None:
    copy = building(build_to=20, max_batch_bytes=200, policy=SKIP)
    give(copy, holed(0, [1], 3), batch(4, value_bytes=300), holed(5, [1], 4, codec=GZIP), batch(20))
    assert take(copy).end.target == 4
    assert copy.peek() is None
    [told] = copy.take_notices()
    assert (told.event, told.first_offset, told.next_offset) == (Event.RECORD_SKIPPED, 4, 5)
    assert "b'k4'" in told.message
    assert copy.wants_attempt
    copy.attempt_granted(0)
    fill = copy.fill_due()
    assert fill is not None
    assert (fill.start.source, fill.end.source, fill.exclusive) == (4, 5, True)
    copy.begin_fill(fill)
    copy.filled_to(5)
    copy.fill_over()
    append = take(copy)
    assert (append.start.target, append.start.sequence, append.end.target) == (5, 4, 19)
    assert held(kernels, append) == [6]
    assert read_header(append.batch).attributes == GZIP  # what is behind it is taken for what it is


def test_a_record_that_is_left_out_is_not_read_as_a_hole_by_its_successor() -> None:
    """It is met again, told again by another copy, and gets its marker."""
    copy = building(build_to=20, at=4, max_batch_bytes=200, policy=SKIP)
    give(copy, batch(4, value_bytes=300), holed(5, [1], 4), batch(20))
    assert copy.peek() is None
    assert [each.event for each in copy.take_notices()] == [Event.RECORD_SKIPPED]
    copy.interrupted(AWAY)
    copy.synced(synced_at(4, state_ms=NOW_MS, build_to=20), NOW_MS)
    give(copy, batch(4, value_bytes=300), holed(5, [1], 4), batch(20))
    assert (copy.peek(), copy.wants_attempt, copy.take_notices()) == (None, True, [])


def refused(copy: PartitionCopy) -> Append:
    append = copy.take()
    copy.refused(ErrorCode.MESSAGE_TOO_LARGE, "")
    assert copy.stopped is None
    copy.synced(synced_at(append.start.source, state_ms=NOW_MS, build_to=20), NOW_MS)
    return append


def test_after_a_refusal_a_record_may_be_larger_than_what_batches_are_kept_to() -> None:
    copy = building(build_to=20)
    batches = (batch(0, 3), batch(3, value_bytes=300), batch(20))
    give(copy, *batches)
    assert refused(copy).records == 4
    give(copy, *batches)
    assert take(copy).end.target == 3
    assert take(copy).end.target == 4
    assert copy.stopped is None


def test_a_batch_of_one_record_among_fillers_is_made_smaller_when_it_is_refused() -> None:
    copy = building(build_to=20)
    give(copy, holed(0, [1], 9), batch(20))
    size = len(refused(copy).batch)
    give(copy, holed(0, [1], 9), batch(20))
    assert len(take(copy).batch) <= size // 2
    assert copy.stopped is None


# -- what the target's own cluster has sent


def test_what_was_mirrored_from_the_target_stops_the_partition_once_all_before_it_is_there() -> None:
    copy = building(build_to=20)
    give(copy, holed(0, [1], 3), holed(4, [0], 2, producer_id=MIRRORED_BACK), batch(20))
    assert take(copy).end.target == 4
    assert copy.stopped is not None
    assert copy.stopped.reason is StopReason.LOOP


def test_a_codec_that_nobody_knows_is_a_corrupt_batch() -> None:
    copy = building(build_to=20)
    give(copy, holed(0, [1], 3, attributes=6), batch(20))
    assert copy.stopped is not None
    assert copy.stopped.reason is StopReason.CORRUPT


def test_progress_is_told() -> None:
    copy = building(build_to=20)
    first = copy.aligning(NOW_S)
    give(copy, holed(0, [1], 9), batch(20))
    take(copy)
    second = copy.aligning(NOW_S + 1)
    assert first is not None
    assert second is not None
    assert [(each.phase, each.done, each.total) for each in (first, second)] == [
        (BuildPhase.FILLING, 0, 20),
        (BuildPhase.FILLING, 19, 20),
    ]
