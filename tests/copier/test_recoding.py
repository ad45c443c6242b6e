"""What cannot go as it is goes in another form, every record at its offset, or is a gap (P1, P2, P4, P5, P6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from heliograph.copier import passage
from heliograph.copier.budget import ByteBudget, Parcel, Shares
from heliograph.copier.clearance import CLEAR
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.phases import Phase
from heliograph.copier.spec import CopySpec
from heliograph.model.events import Event, Trouble
from heliograph.model.policy import DEFAULT_POLICY, Oversize, Timestamps
from heliograph.model.states import BoundBy, StopReason
from heliograph.wire.batch import Codec, read_header
from heliograph.wire.codecs import compress
from heliograph.wire.decode import decode
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.kernels import loading
from heliograph.wire.kernels.loading import Kernels
from tests.wire.batches import make_batch
from tests.wire.logs import Seen, seen
from tests.wire.message_sets import (
    LEGACY_GZIP,
    LEGACY_LZ4,
    LEGACY_SNAPPY,
    Message,
    encode_set,
    encode_wrapper,
)

from .source_batches import (
    AWAY,
    DAY_MS,
    LOG_APPEND_TIME,
    NOW_MS,
    NOW_S,
    OLD_MS,
    batch,
    copy_at,
    fetched,
    give,
    give_reply,
    holed,
    spec_of,
    synced_at,
)


def copy_of(spec: CopySpec, next_offset: int = 0, *, clear_at: float = CLEAR) -> PartitionCopy:
    copy = PartitionCopy(spec, 1 << 20, clear_at=clear_at)
    copy.synced(synced_at(next_offset, state_ms=NOW_MS), NOW_MS)
    return copy


class Target:
    """Takes what a copy has to send and fills its gaps, at once: what is at which offset then."""

    def __init__(self, kernels: Kernels, copy: PartitionCopy) -> None:
        self._kernels = kernels
        self._copy = copy
        self.records: list[Seen] = []
        self.gaps: list[tuple[int, int]] = []
        self.sequences: list[int] = []
        copy.attempt_granted(0)

    def run(self) -> None:
        copy = self._copy
        while True:
            if copy.peek() is not None:
                append = copy.take()
                header = read_header(append.batch)
                assert (header.is_dense, header.attributes & ~7) == (True, 0)
                assert header.records_count == append.records == append.end.source - append.start.source
                self.records += [
                    each._replace(offset=append.start.target + each.offset)
                    for each in seen(decode(self._kernels, append.batch))
                ]
                self.sequences.append(append.start.sequence)
                copy.appended(append.start.target)
            elif (fill := copy.fill_due()) is not None:
                copy.begin_fill(fill)
                self.gaps.append((fill.start.target, fill.end.target))
                copy.filled_to(fill.end.target)
                copy.fill_over()
            else:
                return

    @property
    def offsets(self) -> list[int]:
        return [each.offset for each in self.records]


# -- the position is inside of a batch


def test_a_batch_around_the_position_is_sliced(kernels: Kernels) -> None:
    copy = copy_at(43)
    give(copy, batch(40, 5), batch(45))
    target = Target(kernels, copy)
    target.run()
    assert target.offsets == [43, 44, 45]
    assert [each.key for each in target.records] == [b"k43", b"k44", b"k45"]
    assert target.sequences == [43, 45]
    assert copy.next_offset == 46


def test_what_is_made_is_counted_in_the_lanes_memory_and_given_back_once(kernels: Kernels) -> None:
    copy = copy_at(43)
    budget = give(copy, batch(40, 5))
    assert budget.used_bytes == 0  # the batch itself is not needed any more
    head = copy.peek()
    assert head is not None
    assert budget.merged_bytes == head.size_bytes
    Target(kernels, copy).run()
    assert (budget.used_bytes, budget.merged_bytes) == (0, 0)


# -- holes


def test_dense_stretches_go_as_batches_and_holes_are_gaps(kernels: Kernels) -> None:
    copy = copy_at(40)
    give(copy, holed(40, [0, 1, 4, 5, 9], 11), batch(52, 2))
    target = Target(kernels, copy)
    target.run()
    assert target.offsets == [40, 41, 44, 45, 49, 52, 53]
    assert target.gaps == [(42, 44), (46, 49), (50, 52)]
    assert target.sequences == [40, 42, 44, 45]  # a gap takes none
    assert copy.next_offset == 54


def test_missing_offsets_before_a_batch_are_a_gap_that_ends_at_its_header(kernels: Kernels) -> None:
    copy = copy_at(40)
    give(copy, batch(45, 2))
    target = Target(kernels, copy)
    target.run()
    assert (target.gaps, target.offsets) == (
        [(40, 45)],
        [45, 46],
    )


def test_nothing_is_filled_before_a_header_was_seen() -> None:
    copy = copy_at(40)
    copy.attempt_granted(0)
    give(copy, end=100)
    assert copy.fill_due() is None
    assert not copy.wants_attempt


def test_what_a_cleaner_leaves_of_a_whole_batch_is_a_gap(kernels: Kernels) -> None:
    copy = copy_at(40)
    give(copy, holed(40, [], 4), batch(45))
    target = Target(kernels, copy)
    target.run()
    assert (target.gaps, target.offsets) == ([(40, 45)], [45])


def test_a_corrupt_batch_ends_no_gap() -> None:
    damaged = batch(45)
    damaged[-1] ^= 1
    copy = copy_at(40)
    give(copy, damaged)
    assert copy.stopped is not None
    assert copy.stopped.reason == StopReason.CORRUPT


def test_a_gap_that_compaction_left_waits_until_nothing_of_a_former_holder_can_arrive(
    kernels: Kernels,
) -> None:
    """He may have read records there, and sent them: by their sequence they are the next ones still."""
    copy = copy_of(spec_of(), 40, clear_at=NOW_S)
    give(copy, batch(45))
    copy.attempt_granted(0)
    assert copy.fill_due() is None
    assert copy.awaits_clearance
    copy.cleared(NOW_S)
    copy.synced(synced_at(40, state_ms=NOW_MS), NOW_MS)
    give(copy, batch(45))
    target = Target(kernels, copy)
    target.run()
    assert target.gaps == [(40, 45)]


def test_more_holes_than_are_filled_stop_inside_of_a_batch_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heliograph.copier.recoding.MOST_HOLES", 100)
    copy = copy_at(40)
    give(copy, holed(40, [0, 200], 200))
    copy.appended(copy.take().start.target)
    assert copy.stopped is not None
    assert copy.stopped.reason == StopReason.HOLES
    assert (copy.stopped.first_offset, copy.stopped.next_offset) == (41, 240)
    assert passage.MOST_HOLES == 1_000_000


# -- log append time


@pytest.mark.parametrize("codec", list(Codec))
def test_log_append_time_is_kept_as_each_records_own(kernels: Kernels, codec: Codec) -> None:
    copy = copy_at(0)
    stamped = make_batch(
        [(b"k", b"v", ())] * 3,
        timestamp=NOW_MS - 50,
        timestamps=[NOW_MS - 50, NOW_MS - 20, NOW_MS],
        attributes=LOG_APPEND_TIME,
        codec=codec,
        compress=lambda payload: compress(codec, payload),
    )
    give(copy, stamped, batch(3))
    target = Target(kernels, copy)
    target.run()
    assert [each.timestamp for each in target.records] == [NOW_MS] * 4
    assert target.offsets == [0, 1, 2, 3]


def test_small_batches_with_log_append_time_that_wait_go_as_one(kernels: Kernels) -> None:
    copy = copy_at(0)
    give(copy, *(batch(at, timestamp=NOW_MS - at, attributes=LOG_APPEND_TIME) for at in range(50)), batch(50))
    target = Target(kernels, copy)
    target.run()
    assert target.sequences == [0, 50]
    assert [each.timestamp for each in target.records[:50]] == [NOW_MS - at for at in range(50)]


def test_a_corrupt_batch_with_log_append_time_stops_behind_those_before_it(kernels: Kernels) -> None:
    damaged = batch(2, attributes=LOG_APPEND_TIME)
    damaged[-1] ^= 1
    copy = copy_at(0)
    give(copy, *(batch(at, attributes=LOG_APPEND_TIME) for at in range(2)), damaged)
    target = Target(kernels, copy)
    target.run()
    assert target.offsets == [0, 1]
    assert copy.stopped is not None
    assert copy.stopped.reason == StopReason.CORRUPT


# -- too large


def test_a_batch_that_is_too_large_is_split(kernels: Kernels) -> None:
    copy = copy_of(spec_of(max_batch_bytes=300))
    give(copy, batch(0, 40))
    target = Target(kernels, copy)
    target.run()
    assert target.offsets == list(range(40))
    assert len(target.sequences) > 3


# -- how old


def test_a_piece_is_as_old_as_its_own_records() -> None:
    """The batch has a fresh record; the broker would forget us behind a piece that has none."""
    records = [(b"k", b"v" * 100, ())] * 4
    times = [OLD_MS, OLD_MS, NOW_MS, NOW_MS]
    copy = copy_of(spec_of(max_batch_bytes=320))
    give(copy, make_batch(records, timestamp=OLD_MS, timestamps=times))
    first = copy.take()
    assert (first.perishable, first.records) == (True, 2)
    assert copy.phase is Phase.PROBE
    assert copy.peek() is None  # nothing goes behind it
    copy.appended(0)
    assert not copy.take().perishable


def test_a_piece_that_may_not_be_sent_yet_is_left_at_the_source() -> None:
    records = [(b"k", b"v" * 100, ())] * 4
    mixed = make_batch(records, timestamp=OLD_MS, timestamps=[OLD_MS, OLD_MS, NOW_MS, NOW_MS])
    copy = copy_of(spec_of(max_batch_bytes=320))
    budget = give_reply(copy, fetched(mixed), 0, exclusive=False)
    assert copy.peek() is None
    assert (budget.used_bytes, budget.merged_bytes) == (0, 0)
    assert copy.wants_exclusion
    assert copy.fetch_offset() is None
    copy.leased(exclusive=True)
    assert copy.fetch_offset() == 0
    give(copy, mixed)
    assert copy.take().perishable


def test_an_old_batch_that_is_to_be_recoded_waits_at_the_source_for_its_lease() -> None:
    copy = copy_at(2)
    budget = give_reply(copy, fetched(batch(0, 5, timestamp=NOW_MS - 3 * DAY_MS)), 2, exclusive=False)
    assert budget.used_bytes == 0
    assert copy.awaits_lease


# -- memory


def cramped(copy: PartitionCopy, *batches: bytearray, merged_limit_bytes: int) -> tuple[ByteBudget, Shares]:
    budget = ByteBudget(1 << 20, merged_limit_bytes=merged_limit_bytes)
    shares = Shares(budget, on_turn=lambda _: None)
    copy.led_by(shares.of(0))
    reply = fetched(*batches)
    budget.adjust(0, len(reply.records))
    parcel = Parcel(budget, len(reply.records))
    asked = copy.fetch_offset()
    assert asked is not None
    copy.fetched(reply, asked, parcel, NOW_MS)
    parcel.release()
    return budget, shares


def test_where_memory_is_short_pieces_are_made_one_after_the_other(kernels: Kernels) -> None:
    copy = copy_of(spec_of(max_batch_bytes=1000))
    budget, _ = cramped(copy, batch(0, 200), merged_limit_bytes=2000)
    target = Target(kernels, copy)
    most = 0
    while copy.next_offset is not None and copy.next_offset < 200:
        most = max(most, budget.merged_bytes)
        target.run()
        copy.recode()
    assert most <= 1000  # half of it: no broker has more
    assert target.offsets == list(range(200))


def test_who_finds_no_memory_waits_for_it_and_says_so() -> None:
    copy = copy_of(spec_of(max_batch_bytes=1000))
    _, shares = cramped(copy, batch(0, 100), merged_limit_bytes=1000)
    append = copy.take()
    assert append.records < 100
    assert copy.awaits_recoding
    assert copy.bound_by(0) is BoundBy.TARGET
    copy.recode()
    assert copy.awaits_recoding
    copy.appended(0)
    copy.recode()
    assert not copy.awaits_recoding
    assert shares.of(0).merged_bytes > 0
    assert copy.peek() is not None


def test_a_piece_larger_than_all_memory_for_it_goes_when_all_is_free(kernels: Kernels) -> None:
    copy = copy_of(spec_of(max_batch_bytes=10_000))
    cramped(copy, batch(0, 2, value_bytes=5000, attributes=LOG_APPEND_TIME), merged_limit_bytes=100)
    target = Target(kernels, copy)
    target.run()
    assert copy.awaits_recoding
    copy.recode()
    target.run()
    assert target.offsets == [0, 1]


# -- kernels


def test_without_kernels_it_waits_for_them(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "loaded", lambda: None)
    copy = copy_at(2)
    give(copy, batch(0, 5))
    assert copy.awaits_recoding
    assert (copy.peek(), copy.stopped) == (None, None)
    assert copy.bound_by(0) is None
    monkeypatch.undo()
    copy.recode()
    target = Target(kernels, copy)
    target.run()
    assert target.offsets == [2, 3, 4]


def test_where_kernels_cannot_be_loaded_the_partition_stops_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loading, "loaded", lambda: None)
    monkeypatch.setattr(loading, "failure", lambda: NotImplementedError("another kind of machine"))
    copy = copy_at(2)
    give(copy, batch(0, 5))
    assert copy.stopped is not None
    assert copy.stopped.reason == StopReason.KERNELS
    assert "another kind of machine" in copy.stopped.message


# -- one record that is too large

SKIPS = replace(DEFAULT_POLICY, oversize=Oversize.SKIP)
CLAMPS = replace(DEFAULT_POLICY, timestamps=Timestamps.CLAMP)
HOUR_MS = 3_600_000


def with_a_large_one(at: int, nth: int, count: int = 5, **changed: Any) -> bytearray:
    records = [(b"key-%d" % n, b"v" * (1000 if n == nth else 10), ()) for n in range(count)]
    return make_batch(records, base_offset=at, timestamp=NOW_MS, **changed)


def told(copy: PartitionCopy, event: Event) -> list[Trouble]:
    return [each for each in copy.take_notices() if each.event is event]


@pytest.mark.parametrize("nth", [0, 2, 4])
def test_a_record_that_is_too_large_stops_behind_all_before_it(kernels: Kernels, nth: int) -> None:
    copy = copy_of(spec_of(max_batch_bytes=300))
    give(copy, with_a_large_one(0, nth))
    target = Target(kernels, copy)
    target.run()
    assert target.offsets == list(range(nth))
    assert copy.stopped is not None
    assert copy.stopped.reason == StopReason.TOO_LARGE
    assert f"the record at offset {nth} makes a batch of 10" in copy.stopped.message
    assert "oversize: skip" in copy.stopped.hint
    assert (copy.stopped.first_offset, copy.stopped.next_offset) == (nth, nth + 1)


@pytest.mark.parametrize("nth", [0, 2, 4])
def test_a_record_that_is_too_large_is_left_out_and_told_before_its_offset_is_filled(
    kernels: Kernels, nth: int
) -> None:
    copy = copy_of(replace(spec_of(max_batch_bytes=300), policy=SKIPS))
    give(copy, with_a_large_one(0, nth), batch(5))
    target = Target(kernels, copy)
    target.run()
    assert target.offsets == list(range(nth))
    copy.attempt_granted(4)  # reserved before: not by a driver that has heard of it
    target.run()
    assert target.gaps == []
    (notice,) = told(copy, Event.RECORD_SKIPPED)
    assert (notice.first_offset, notice.next_offset) == (nth, nth + 1)
    assert f"b'key-{nth}'" in notice.message
    assert copy.wants_attempt
    copy.attempt_granted(5)
    target.run()
    assert target.gaps == [(nth, nth + 1)]
    assert target.offsets == [offset for offset in range(6) if offset != nth]
    assert target.sequences[-1] == 4  # one less than offsets


def test_a_record_that_was_told_is_not_told_again_after_a_resynchronisation(kernels: Kernels) -> None:
    copy = copy_of(replace(spec_of(max_batch_bytes=300), policy=SKIPS))
    give(copy, with_a_large_one(0, 0))
    assert len(told(copy, Event.RECORD_SKIPPED)) == 1
    copy.attempt_granted(0)
    copy.interrupted(AWAY)
    copy.synced(synced_at(0, state_ms=NOW_MS), NOW_MS)
    give(copy, with_a_large_one(0, 0))
    assert told(copy, Event.RECORD_SKIPPED) == []
    target = Target(kernels, copy)
    target.run()
    assert target.gaps == [(0, 1)]


def test_what_is_left_out_waits_until_nothing_of_a_former_holder_can_arrive() -> None:
    """He may have known another limit, and sent the record."""
    copy = copy_of(replace(spec_of(max_batch_bytes=300), policy=SKIPS), clear_at=NOW_S)
    give(copy, with_a_large_one(0, 0))
    told(copy, Event.RECORD_SKIPPED)
    copy.attempt_granted(0)
    assert copy.fill_due() is None
    assert copy.awaits_clearance


def test_a_batch_that_is_refused_as_too_large_is_split_though_it_was_thought_to_fit(kernels: Kernels) -> None:
    copy = copy_at(0)
    source = batch(0, 40)
    give(copy, source)
    copy.take()
    copy.refused(ErrorCode.MESSAGE_TOO_LARGE, "")
    assert copy.stopped is None
    copy.synced(synced_at(0, state_ms=NOW_MS), NOW_MS)
    give(copy, source)
    target = Target(kernels, copy)
    target.run()
    assert target.offsets == list(range(40))
    assert len(target.sequences) > 1


def test_a_record_is_not_left_out_because_of_a_guess(kernels: Kernels) -> None:
    """Two records were too large together: nobody knows yet what the target takes of one."""
    copy = copy_of(replace(spec_of(), policy=SKIPS))
    source = batch(0, 2, value_bytes=1000)
    give(copy, source)
    size_bytes = len(copy.take().batch)
    copy.refused(ErrorCode.MESSAGE_TOO_LARGE, "")
    copy.synced(synced_at(0, state_ms=NOW_MS), NOW_MS)
    give(copy, source)
    target = Target(kernels, copy)
    target.run()
    assert target.offsets == [0, 1]
    assert told(copy, Event.RECORD_SKIPPED) == []
    copy.limited(size_bytes // 3)
    give(copy, batch(2, 1, value_bytes=1000))
    assert len(told(copy, Event.RECORD_SKIPPED)) == 1


def test_a_record_larger_than_what_is_tried_and_than_the_memory_for_it_goes_when_all_is_free(
    kernels: Kernels,
) -> None:
    copy = copy_of(spec_of(max_batch_bytes=10_000))
    source = batch(0, 2, value_bytes=3000)
    cramped(copy, source, merged_limit_bytes=100)
    copy.take()
    copy.refused(ErrorCode.MESSAGE_TOO_LARGE, "")
    copy.synced(synced_at(0, state_ms=NOW_MS), NOW_MS)
    cramped(copy, source, merged_limit_bytes=100)
    target = Target(kernels, copy)
    for _ in range(2):
        target.run()
        copy.recode()
    assert target.offsets == [0, 1]


def test_a_single_record_that_the_broker_refuses_is_left_out_where_that_is_allowed() -> None:
    copy = copy_of(replace(spec_of(), policy=SKIPS))
    give(copy, batch(0))
    copy.take()
    copy.refused(ErrorCode.RECORD_LIST_TOO_LARGE, "")
    copy.synced(synced_at(0, state_ms=NOW_MS), NOW_MS)
    give(copy, batch(0))
    assert len(told(copy, Event.RECORD_SKIPPED)) == 1


# -- times that the target refuses


def ahead(at: int, *hours: int, **changed: Any) -> bytearray:
    records = [(b"k", b"v", ())] * len(hours)
    times = [NOW_MS + each * HOUR_MS for each in hours]
    return make_batch(records, base_offset=at, timestamp=times[0], timestamps=times, **changed)


def limits_of(after_h: int, before_h: int) -> tuple[int, int]:
    return after_h * HOUR_MS, before_h * HOUR_MS


def clamping_copy(after_h: int = 1, before_h: int = 10_000_000) -> PartitionCopy:
    after_ms, before_ms = limits_of(after_h, before_h)
    return copy_of(replace(spec_of(), policy=CLAMPS, after_max_ms=after_ms, before_max_ms=before_ms))


def test_a_time_too_far_ahead_is_clamped_before_it_is_refused_and_told(kernels: Kernels) -> None:
    copy = clamping_copy()
    give(copy, ahead(0, 0, 2, 0, 30), batch(4))
    target = Target(kernels, copy)
    target.run()
    latest = NOW_MS + HOUR_MS - 60_000
    assert [each.timestamp for each in target.records] == [NOW_MS, latest, NOW_MS, latest, NOW_MS]
    (notice,) = told(copy, Event.TIMES_CLAMPED)
    assert notice.message.startswith("2 records of source offsets [0, 4)")


def test_times_that_are_clamped_are_counted_and_told_every_few_seconds(kernels: Kernels) -> None:
    copy = clamping_copy()
    target = Target(kernels, copy)
    for at in range(10):
        give(copy, ahead(at, 2))
        target.run()
    assert [each.message.split()[0] for each in told(copy, Event.TIMES_CLAMPED)] == ["1"]
    give(copy)  # nothing is new: the rest is told
    assert [each.message.split()[0] for each in told(copy, Event.TIMES_CLAMPED)] == ["9"]
    copy.retire()
    assert told(copy, Event.TIMES_CLAMPED) == []


def test_times_that_are_clamped_again_after_a_resynchronisation_are_counted_once() -> None:
    copy = clamping_copy()
    for _ in range(3):
        give(copy, ahead(0, 2, 3))
        copy.interrupted(AWAY)
        copy.synced(synced_at(0, state_ms=NOW_MS), NOW_MS)
    copy.retire()
    assert [each.message.split()[0] for each in told(copy, Event.TIMES_CLAMPED)] == ["2"]


def test_a_time_too_far_behind_that_no_header_shows_is_clamped_once_it_was_refused(kernels: Kernels) -> None:
    copy = clamping_copy(before_h=10)
    source = ahead(0, 0, -20, 0)
    give(copy, source)
    copy.take()
    copy.refused(ErrorCode.INVALID_TIMESTAMP, "")
    assert copy.stopped is None
    copy.synced(synced_at(0, state_ms=NOW_MS), NOW_MS)
    give(copy, source, ahead(3, 0, -30))
    target = Target(kernels, copy)
    target.run()
    earliest = NOW_MS - 10 * HOUR_MS + 60_000
    assert [each.timestamp for each in target.records] == [NOW_MS, earliest, NOW_MS, NOW_MS, earliest]


def test_a_batch_that_is_too_old_as_a_whole_is_clamped_at_once_and_is_not_perishable_then() -> None:
    copy = clamping_copy(before_h=10)
    give(copy, ahead(0, -100, -100))
    append = copy.take()
    assert not append.perishable
    assert append.max_timestamp == NOW_MS - 10 * HOUR_MS + 60_000
    copy.appended(0)
    assert copy.next_offset == 2


def test_a_batch_without_times_is_not_given_any() -> None:
    copy = clamping_copy(before_h=10)
    give(copy, make_batch([(b"k", b"v", ())], timestamp=-1))
    assert copy.take().max_timestamp == -1


def test_a_clamped_time_that_is_refused_all_the_same_stops() -> None:
    copy = clamping_copy()
    for _ in range(2):
        give(copy, ahead(0, 2))
        copy.take()
        copy.refused(ErrorCode.INVALID_TIMESTAMP, "")
        if copy.stopped is None:
            copy.synced(synced_at(0, state_ms=NOW_MS), NOW_MS)
    assert copy.stopped is not None
    assert copy.stopped.reason == StopReason.TIMESTAMP


def test_a_link_that_does_not_clamp_stops_at_a_refused_time() -> None:
    copy = copy_of(replace(spec_of(), after_max_ms=HOUR_MS))
    give(copy, ahead(0, 2))
    copy.take()
    copy.refused(ErrorCode.INVALID_TIMESTAMP, "")
    assert copy.stopped is not None
    assert copy.stopped.reason == StopReason.TIMESTAMP


def test_what_the_topic_takes_now_counts() -> None:
    copy = clamping_copy()
    copy.limited(1 << 20, limits_of(100, 10_000_000))
    give(copy, ahead(0, 2))
    assert copy.take().max_timestamp == NOW_MS + 2 * HOUR_MS


@pytest.mark.parametrize("merges", [0, 1 << 20])
def test_small_batches_of_which_one_is_ahead_are_told_apart(kernels: Kernels, merges: int) -> None:
    copy = copy_of(replace(spec_of(max_merged_bytes=merges), policy=CLAMPS, after_max_ms=HOUR_MS))
    give(copy, *(batch(at) for at in range(4)), ahead(4, 3), *(batch(at) for at in range(5, 9)))
    target = Target(kernels, copy)
    target.run()
    assert target.offsets == list(range(9))
    assert [each.offset for each in target.records if each.timestamp != NOW_MS] == [4]


# -- old message formats


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, LEGACY_GZIP, LEGACY_SNAPPY, LEGACY_LZ4])
def test_messages_of_old_formats_are_copied_as_batches(kernels: Kernels, magic: int, codec: int) -> None:
    messages: list[Message] = [(b"k%d" % nth, b"v%d" % nth, NOW_MS + nth) for nth in range(20)]
    offsets = range(40, 80, 2)  # compacted
    log = (
        encode_wrapper(messages, offsets=offsets, magic=magic, codec=codec)
        if codec
        else encode_set(messages, offsets=offsets, magic=magic)
    )
    copy = copy_at(43)
    give(copy, log, batch(79))
    target = Target(kernels, copy)
    target.run()
    assert target.offsets == [*range(44, 80, 2), 79]
    assert [each.timestamp for each in target.records[:18]] == [
        NOW_MS + nth if magic else -1 for nth in range(2, 20)
    ]
    assert target.gaps == [(43, 44), *((at, at + 1) for at in range(45, 79, 2))]


def test_uncompressed_messages_go_as_one_batch(kernels: Kernels) -> None:
    messages: list[Message] = [(None, b"v", NOW_MS)] * 100
    copy = copy_at(0)
    give(copy, encode_set(messages, offsets=range(100), magic=1))
    target = Target(kernels, copy)
    target.run()
    assert target.offsets == list(range(100))
    assert target.sequences == [0]


def test_messages_without_a_time_are_perishable() -> None:
    """The broker forgets whoever writes them at its next look."""
    copy = copy_at(0)
    give(copy, encode_set([(None, b"v", 0)], offsets=[0], magic=0))
    assert copy.take().perishable


def test_a_corrupt_message_of_an_old_format_stops_the_partition(kernels: Kernels) -> None:
    damaged = bytearray(encode_set([(None, b"v", NOW_MS)] * 2, offsets=[0, 1], magic=1))
    damaged[-1] ^= 1
    copy = copy_at(0)
    give(copy, damaged)
    target = Target(kernels, copy)
    target.run()
    assert target.offsets == [0]
    assert copy.stopped is not None
    assert copy.stopped.reason == StopReason.CORRUPT
