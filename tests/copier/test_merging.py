"""Small batches that wait go as one append: the same records, never more than fits, one by one at any doubt."""

from __future__ import annotations

import random

import pytest

from heliograph.cluster.log_reads import Batches
from heliograph.copier import anchor
from heliograph.copier.budget import ByteBudget, Parcel, Shares
from heliograph.copier.merging_rule import WORTH_BYTES, merging_pays
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.model.errors import PartitionStop
from heliograph.model.events import Event
from heliograph.model.position import SEQUENCES
from heliograph.model.producer_id import producer_id
from heliograph.model.states import StopReason
from heliograph.wire.batch import HEADER_BYTES, Codec, payload_equal, read_header
from heliograph.wire.compare import first_difference
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.kernels import loading
from heliograph.wire.kernels.loading import Kernels
from heliograph.wire.runs import PLAIN_BYTES, Run, split_runs
from tests.wire.batches import make_batch

from .lane_world import mirror, place, until, world, write
from .source_batches import NOW_MS, batch, copy_at, fetched, give, give_reply, old_batch, synced_at

LIMIT_BYTES = 1 << 20
ROOM_BYTES = 1000


def merging_copy(next_offset: int = 0, *, max_merged_bytes: int = LIMIT_BYTES) -> PartitionCopy:
    copy = copy_at(next_offset, max_merged_bytes=max_merged_bytes)
    give(copy, batch(next_offset))
    copy.appended(copy.take(LIMIT_BYTES).start.target)  # the first goes alone
    return copy


def taken(copy: PartitionCopy, room_bytes: int = LIMIT_BYTES) -> list[tuple[int, int]]:
    """All that may be taken: at which offset, how many of the source's batches."""
    found = []
    while copy.peek() is not None:
        append = copy.take(room_bytes)
        found.append((append.start.source, append.batches))
    return found


def test_what_waits_goes_as_one_batch_with_all_its_records(kernels: Kernels) -> None:
    copy = merging_copy()
    batches = [batch(1), batch(2, 3), batch(5, 2, timestamp=NOW_MS - 1), batch(7)]
    give(copy, *batches)
    append = copy.take(LIMIT_BYTES)
    assert (append.batches, append.records, append.start.source, append.end.source) == (4, 7, 1, 8)
    header = read_header(append.batch)
    assert (header.base_offset, header.base_sequence, header.max_timestamp) == (0, 1, NOW_MS)
    at_source = bytearray(append.batch)
    at_source[7] = 1  # where it stands in the target's log
    views = [memoryview(each) for each in batches]
    assert first_difference(kernels, views, [memoryview(at_source)], first_offset=1, next_offset=8) is None
    copy.appended(1)
    assert (copy.durable, copy.records) == (append.end, 8)


def test_what_came_with_several_answers_goes_together() -> None:
    copy = merging_copy()
    for at in range(1, 6):
        give(copy, batch(at))
    assert taken(copy) == [(1, 5)]


def test_a_batch_that_waits_alone_is_passed_on_as_it_is() -> None:
    copy = merging_copy()
    alone = batch(1, 3)
    give(copy, alone)
    assert payload_equal(copy.take(LIMIT_BYTES).batch, memoryview(alone))


def test_codecs_are_not_mixed() -> None:
    copy = merging_copy()
    give(copy, batch(1), batch(2), batch(3, codec=1), batch(4, codec=1), batch(5))
    assert taken(copy) == [(1, 2), (3, 2), (5, 1)]


def test_old_and_fresh_records_are_not_mixed() -> None:
    copy = merging_copy()
    give(copy, batch(1), batch(2), old_batch(3), old_batch(4), batch(5))
    assert taken(copy) == [(1, 2)]
    copy.appended(1)
    assert taken(copy) == [(3, 2)]  # alone
    copy.appended(3)
    assert taken(copy) == [(5, 1)]


def test_a_large_batch_is_not_merged() -> None:
    copy = merging_copy()
    give(copy, batch(1), batch(2), batch(3, value_bytes=PLAIN_BYTES), batch(4), batch(5))
    assert taken(copy) == [(1, 2), (3, 1), (4, 2)]


def test_a_batch_that_is_small_for_one_that_is_not_compressed_is_merged() -> None:
    copy = merging_copy()
    give(copy, *(batch(at, value_bytes=PLAIN_BYTES // 2) for at in (1, 2, 3)))
    assert taken(copy) == [(1, 3)]


@pytest.mark.parametrize("room_bytes", [200, 300, 500])
def test_a_merged_batch_is_never_larger_than_there_is_room(room_bytes: int) -> None:
    copy = merging_copy()
    give(copy, *(batch(at) for at in range(1, 40)))
    at = 1
    while copy.peek() is not None:
        append = copy.take(room_bytes)
        assert append.start.source == at
        assert append.batches > 1 or append.end.source == 40
        assert len(append.batch) <= room_bytes
        at = append.end.source
        copy.appended(append.start.target)
    assert at == 40


def test_a_batch_ends_where_sequences_begin_again() -> None:
    first = 3 * SEQUENCES - 3
    copy = merging_copy(first)
    give(copy, *(batch(first + n) for n in range(1, 6)))
    assert taken(copy) == [(first + 1, 2), (first + 3, 3)]


@pytest.mark.parametrize(
    "code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_TIMESTAMP]
)
def test_after_a_merged_batch_was_refused_its_batches_go_one_by_one(code: int) -> None:
    copy = merging_copy()
    give(copy, batch(1), batch(2), batch(3))
    copy.take(LIMIT_BYTES)
    copy.refused(code, "")
    assert copy.stopped is None
    assert copy.wants_resync
    assert copy.trouble is not None  # until it has advanced
    assert copy.trouble.event is Event.APPEND_REFUSED
    assert copy.durable is not None
    copy.synced(synced_at(1, state_ms=NOW_MS))
    give(copy, *(batch(at) for at in range(1, 7)))
    assert taken(copy) == [(1, 1)]
    copy.appended(1)
    assert copy.trouble is None
    assert taken(copy)[:2] == [(2, 1), (3, 1)]


def test_a_target_that_takes_less_than_before_is_given_less() -> None:
    """And goes on being merged: not every batch from then on costs a refusal."""
    copy = merging_copy()
    give(copy, *(batch(at) for at in range(1, 9)))
    refused = copy.take(LIMIT_BYTES)
    copy.refused(ErrorCode.MESSAGE_TOO_LARGE, "")
    copy.synced(synced_at(9, state_ms=NOW_MS))
    give(copy, *(batch(at) for at in range(9, 17)))
    append = copy.take(LIMIT_BYTES)
    assert append.batches > 1
    assert len(append.batch) <= len(refused.batch) // 2


def test_the_limit_grows_again_when_the_target_topic_takes_more() -> None:
    copy = merging_copy()
    give(copy, *(batch(at) for at in range(1, 9)))
    refused = copy.take(LIMIT_BYTES)
    copy.refused(ErrorCode.MESSAGE_TOO_LARGE, "")
    copy.synced(synced_at(9, state_ms=NOW_MS))
    copy.limited(2 * len(refused.batch))
    give(copy, *(batch(at) for at in range(9, 21)))
    assert len(copy.take(LIMIT_BYTES).batch) > len(refused.batch)


def test_a_copy_that_must_not_merge_does_not_whatever_the_target_takes() -> None:
    copy = merging_copy(max_merged_bytes=0)
    copy.limited(LIMIT_BYTES)
    give(copy, batch(1), batch(2))
    assert taken(copy) == [(1, 1), (2, 1)]


def test_a_single_batch_that_is_refused_stops_as_ever() -> None:
    copy = merging_copy()
    give(copy, batch(1))
    copy.take(LIMIT_BYTES)
    copy.refused(ErrorCode.MESSAGE_TOO_LARGE, "")
    assert copy.stopped is not None
    assert copy.stopped.reason == StopReason.TOO_LARGE


def test_without_memory_for_it_nothing_is_merged() -> None:
    copy = merging_copy()
    budget = ByteBudget(1 << 20)
    reply = fetched(batch(1), batch(2), batch(3))
    budget.adjust(0, len(reply.records))
    parcel = Parcel(budget, len(reply.records))
    copy.fetched(reply, 1, parcel, NOW_MS)
    parcel.release()
    assert taken(copy) == [(1, 1), (2, 1), (3, 1)]
    for offset in (1, 2, 3):
        copy.appended(offset)
    assert budget.used_bytes == 0


def test_with_little_memory_as_much_is_merged_as_there_is_room_for() -> None:
    """Many target brokers share what a lane has for it: each has less than a request holds."""
    copy = merging_copy()
    budget = ByteBudget(1 << 20, merged_limit_bytes=9 * ROOM_BYTES)
    shares = Shares(budget, on_turn=lambda _: None)
    for broker in range(9):
        shares.of(broker).join()
    copy.led_by(shares.of(0))
    reply = fetched(*(batch(at) for at in range(1, 41)))
    budget.adjust(0, len(reply.records))
    parcel = Parcel(budget, len(reply.records))
    copy.fetched(reply, 1, parcel, NOW_MS)
    parcel.release()
    append = copy.take(LIMIT_BYTES)
    assert append.batches > 2
    assert ROOM_BYTES // 2 < len(append.batch) <= ROOM_BYTES


def test_memory_is_given_back_once_for_what_was_merged_and_what_it_came_from() -> None:
    copy = merging_copy()
    budget = give_reply(copy, fetched(batch(1), batch(2), batch(3)), 1)
    append = copy.take(LIMIT_BYTES)
    assert (budget.used_bytes, budget.merged_bytes) == (0, len(append.batch))
    copy.appended(1)
    assert (budget.used_bytes, budget.merged_bytes) == (0, 0)


def test_corrupt_batches_are_never_given_a_valid_checksum() -> None:
    copy = merging_copy()
    corrupt = batch(3)
    corrupt[-2] ^= 1
    give(copy, batch(1), batch(2), corrupt, batch(4))
    assert taken(copy) == [(1, 2)]
    copy.appended(1)
    assert copy.stopped is not None
    assert copy.stopped.reason == StopReason.CORRUPT


def test_what_was_mirrored_from_the_target_stops_in_the_middle_of_small_batches() -> None:
    copy = merging_copy()
    back = batch(2, producer_id=producer_id("nyc-id", "orders"), producer_epoch=0, base_sequence=0)
    give(copy, batch(1), back, batch(3))
    assert taken(copy) == [(1, 1)]
    copy.appended(1)
    assert copy.stopped is not None
    assert copy.stopped.reason == StopReason.LOOP


def test_batches_before_what_was_asked_for_are_left_out() -> None:
    copy = copy_at(3, max_merged_bytes=LIMIT_BYTES)
    give(copy, *(batch(at) for at in range(6)))
    assert taken(copy) == [(3, 3)]


@pytest.mark.usefixtures("kernels")
def test_records_that_cannot_be_compared_stop_the_copy_and_the_damaged_side_is_named() -> None:
    good = batch(0, 2)
    damaged = bytearray(good)
    damaged[HEADER_BYTES] ^= 0x7E  # the first record's length
    for target, source, side in ((damaged, good, "the target"), (good, damaged, "the source")):
        batches = Batches(headers=(read_header(memoryview(source)),), views=(memoryview(source),))
        with pytest.raises(PartitionStop, match=f"{side} holds a batch whose records cannot be read") as stop:
            anchor._first_difference(memoryview(target), batches, 0, 2)
        assert stop.value.reason is StopReason.ANCHOR


# -- when it pays


def runs_of(*batches: bytearray) -> list[Run]:
    return list(split_runs(memoryview(bytearray(b"".join(batches)))))


def test_merging_pays_for_small_batches_of_every_codec_and_not_for_those_that_are_dear_to_compress() -> None:
    [plain] = runs_of(batch(0), batch(1))
    assert merging_pays(plain, None)
    [zipped] = runs_of(batch(0, codec=1), batch(1, codec=1))
    assert merging_pays(zipped, None)
    size_bytes = WORTH_BYTES[Codec.GZIP] + 1
    dear = zipped._replace(view=memoryview(bytearray(size_bytes * zipped.batches)))
    assert not merging_pays(dear, None)


def test_what_is_dear_to_compress_does_not_go_with_small_ones_before_it() -> None:
    copy = merging_copy()
    give(copy, batch(1, codec=1), batch(2, codec=1))
    dear = random.Random(1).randbytes(WORTH_BYTES[Codec.GZIP])
    give(copy, *(make_batch([(None, dear, [])], base_offset=at, codec=1, timestamp=NOW_MS) for at in (3, 4)))
    assert taken(copy) == [(1, 2), (3, 1), (4, 1)]


def test_merging_does_not_pay_for_one_alone_or_before_a_gap() -> None:
    first, second, third = (run for each in (batch(0), batch(1), batch(3)) for run in runs_of(each))
    assert not merging_pays(first, None)
    assert merging_pays(first, second)
    assert not merging_pays(second, third)


# -- a lane


async def test_a_lane_merges_a_backlog_of_small_batches() -> None:
    async with world(max_merged_bytes=LIMIT_BYTES) as it:
        it.create(0, 300)
        copy = it.assign(0)
        await until(lambda: it.is_copied(0))
        it.assert_same_records(0)
        assert copy.merges > 0
        assert len(it.target.logs[place(0)].batches) < 150
        assert copy.records == it.source.logs[place(0)].end


async def test_a_lane_goes_on_behind_what_another_has_merged_otherwise() -> None:
    async with world(max_merged_bytes=LIMIT_BYTES) as it:
        it.create(0, 60)
        it.assign(0)
        await until(lambda: it.is_copied(0))
        await it.lane.revoke(mirror(0))
        write(it.source.logs[place(0)], 5)
        it.max_merged_bytes = 0
        copy = it.assign(0)
        await until(lambda: it.is_copied(0))
        it.assert_same_records(0)
        assert copy.stopped is None


async def test_where_kernels_cannot_be_loaded_a_merged_target_stops_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world(max_merged_bytes=LIMIT_BYTES) as it:
        it.create(0, 60)
        it.assign(0)
        await until(lambda: it.is_copied(0))
        await it.lane.revoke(mirror(0))
        monkeypatch.setattr(loading, "loaded", lambda: None)
        monkeypatch.setattr(loading, "failure", lambda: NotImplementedError("another kind of machine"))
        copy = it.assign(0)
        await until(lambda: copy.stopped is not None)
        assert copy.stopped is not None
        assert copy.stopped.reason == StopReason.KERNELS
        assert "another kind of machine" in copy.stopped.message
