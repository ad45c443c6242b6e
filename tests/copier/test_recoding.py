"""What cannot go as it is goes in another form, every record at its offset, or is a gap (P1, P2, P4, P5, P6)."""

from __future__ import annotations

import pytest

from heliograph.copier import passage
from heliograph.copier.budget import ByteBudget, Parcel, Shares
from heliograph.copier.clearance import CLEAR
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.phases import Phase
from heliograph.copier.spec import CopySpec
from heliograph.model.states import BoundBy, StopReason
from heliograph.wire.batch import Codec, read_header
from heliograph.wire.codecs import compress
from heliograph.wire.decode import decode
from heliograph.wire.kernels import loading
from heliograph.wire.kernels.loading import Kernels
from tests.wire.batches import make_batch
from tests.wire.logs import Seen, seen

from .source_batches import (
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
