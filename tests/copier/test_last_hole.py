"""The end of the last hole that compaction made: found from behind, whatever is no hole passed over."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.copier.backward_steps import MOST_BYTES
from heliograph.copier.last_hole import HoleSearch, last_hole_end
from heliograph.copier.questions import ReadSourceBatches, ReadSourceGap
from heliograph.model.partition_status import Aligning
from heliograph.model.states import BuildPhase
from heliograph.wire.kernels.loading import wait
from tests.wire.batches import (
    ABORT,
    COMMIT,
    TRANSACTIONAL,
    make_batch,
    make_control_batch,
)
from tests.wire.message_sets import LEGACY_GZIP, encode_message, encode_wrapper

from .played_log import PlayedLog, drive, played
from .source_batches import batch

OTHER = 7  # a producer id


def found(
    log: PlayedLog,
    start: int = 0,
    *,
    committed: bool = True,
    end: int | None = None,
    search: HoleSearch | None = None,
) -> int | None:
    span = log.span(start, end)
    search = search or HoleSearch()
    return drive(log, last_hole_end(wait(), search, span.start, span.high_watermark, committed=committed))


def sparse(at: int, span: int, held: int, *, attributes: int = 0) -> bytearray:
    """A batch of `span` offsets of which the first `held` have a record."""
    records = [(b"k", b"v", ())] * held
    return make_batch(
        records, base_offset=at, last_offset_delta=span - 1, attributes=attributes, producer_id=OTHER
    )


def marker(at: int, kind: int = COMMIT) -> bytearray:
    return make_control_batch(kind, base_offset=at, producer_id=OTHER)


@pytest.mark.parametrize("committed", [True, False])
def test_a_log_without_a_hole_has_none(committed: bool) -> None:
    log = played([batch(0, 3), batch(3, 100), marker(103), batch(104)])
    assert found(log, committed=committed) is None
    assert not any(isinstance(question, ReadSourceGap) for question in log.asked)


def test_an_empty_log_has_none_and_nothing_is_asked() -> None:
    log = played([])
    assert found(log) is None
    assert found(log, 5, end=5) is None
    assert not log.asked


def test_offsets_between_two_batches_are_a_hole() -> None:
    assert found(played([batch(0, 3), batch(5, 2), batch(9, 4)])) == 9


def test_a_batch_that_lacks_records_is_a_hole_up_to_its_end() -> None:
    assert found(played([batch(0, 3), batch(5), sparse(6, 10, 9), batch(16, 4)])) == 16


def test_a_batch_that_a_cleaner_left_empty_is_a_hole() -> None:
    assert found(played([batch(0, 3), sparse(3, 4, 0), batch(7)])) == 7


def test_what_is_missing_at_the_start_is_a_hole() -> None:
    assert found(played([batch(40, 3)])) == 40


def test_what_is_missing_at_the_end_is_a_hole() -> None:
    assert found(played([batch(0, 3)]), end=8) == 8
    assert found(played([]), end=8) == 8


def test_a_hole_below_the_start_is_none() -> None:
    """Retention, or a deletion of records, has taken it: the log may start inside of a batch."""
    log = played([batch(0, 3), batch(9, 4)])
    assert found(log, 9) is None
    assert found(log, 11) is None
    assert found(log, 8) == 9


def test_a_hole_that_is_longer_than_any_step_is_found() -> None:
    assert found(played([batch(0, 3), batch(10**9, 300)])) == 10**9


def test_markers_are_no_holes_even_where_a_cleaner_emptied_them() -> None:
    emptied = make_batch([], base_offset=4, last_offset_delta=0, attributes=0x30, producer_id=OTHER)
    assert found(played([batch(0, 3), marker(3), emptied, batch(5)])) is None


def test_an_aborted_batch_that_lacks_records_is_no_hole_where_aborted_records_are_not_copied() -> None:
    emptied = sparse(3, 4, 0, attributes=TRANSACTIONAL)
    log = played([batch(0, 3), emptied, marker(7, ABORT), batch(8)])
    log.aborted = ((OTHER, 3),)
    assert found(log) is None
    assert ReadSourceGap(3, 7, committed=True) in log.asked
    assert found(log, committed=False) == 7


def test_a_committed_batch_that_lacks_records_is_a_hole() -> None:
    emptied = sparse(3, 4, 1, attributes=TRANSACTIONAL)
    log = played([batch(0, 3), emptied, marker(7), batch(8)])
    assert found(log) == 7
    log.aborted = ((OTHER, 7),)  # another one, later
    assert found(log) == 7


def test_messages_of_an_older_format_are_no_holes() -> None:
    message = (b"k", b"v", 1000)
    plain = [encode_message(message, offset=offset, magic=1) for offset in (3, 4)]
    assert found(played([batch(0, 3), *plain])) is None
    several = encode_wrapper([message] * 3, offsets=[3, 4, 5], magic=1, codec=LEGACY_GZIP)
    assert found(played([batch(0, 3), several])) is None
    sparse_one = encode_wrapper([message] * 3, offsets=[3, 4, 7], magic=1, codec=LEGACY_GZIP)
    assert found(played([batch(0, 3), sparse_one])) == 7


def test_the_search_goes_on_in_front_of_what_is_no_hole() -> None:
    emptied = sparse(9, 4, 0, attributes=TRANSACTIONAL)
    log = played([batch(0, 3), batch(5, 4), emptied, marker(13, ABORT), batch(14)])
    log.aborted = ((OTHER, 9),)
    assert found(log) == 5


def test_steps_double_and_the_search_ends_with_the_first_that_has_a_hole() -> None:
    log = played([batch(0), batch(2), *(batch(n) for n in range(5, 2000))])
    assert found(log) == 5
    firsts = [question.first_offset for question in log.asked if isinstance(question, ReadSourceBatches)]
    assert firsts[:4] == [1999, 1997, 1993, 1985]
    assert len(firsts) < 12
    near = played([*(batch(n) for n in range(1000)), batch(1001)])
    assert found(near) == 1001
    assert len(near.asked) == 2


def test_large_records_make_small_steps() -> None:
    log = played(batch(n, value_bytes=200_000) for n in range(200))
    assert found(log) is None
    assert log.largest_bytes <= MOST_BYTES + 400_000


def interrupt(log: PlayedLog, search: HoleSearch, questions: int) -> None:
    """Ask so many, and no more."""
    asking = last_hole_end(wait(), search, 0, log.end, committed=True)
    question = next(asking)
    for _ in range(questions):
        question = asking.send(log.answer(question))


def test_a_search_goes_on_where_it_was_interrupted_and_tells_how_far_it_is() -> None:
    log, search = played([batch(0), batch(2), *(batch(n) for n in range(5, 2000))]), HoleSearch()
    assert search.progress is None
    interrupt(log, search, 3)
    assert search.progress == Aligning(BuildPhase.SEARCHING, 1 + 2 + 4, 2000)
    log.asked.clear()
    assert found(log, search=search) == 5
    assert all(
        question.next_offset <= 1993 for question in log.asked if isinstance(question, ReadSourceBatches)
    )
    assert search.progress is None


def test_a_hole_that_was_found_is_not_searched_for_again() -> None:
    log, search = played([batch(0), batch(2), batch(5)]), HoleSearch()
    assert found(log, search=search) == 5
    log.asked.clear()
    assert found(log, 4, end=90, search=search) == 5  # the log has grown, and its target, too
    assert found(log, 5, end=90, search=search) is None
    assert not log.asked


def test_a_log_that_is_shorter_than_it_was_is_searched_anew() -> None:
    search = HoleSearch()
    assert found(played([batch(0), batch(2), batch(5)]), search=search) == 5
    assert found(played([batch(0), batch(2)]), search=search) == 2


def test_a_search_goes_below_where_it_ended_before() -> None:
    """The target was truncated: also inside of a batch that was looked at down to where the target ended."""
    log, search = played([batch(0, 3), sparse(3, 10, 4), batch(13)]), HoleSearch()
    assert found(log, 13, search=search) is None
    assert found(log, 9, search=search) == 13
    held = make_batch([(b"k", b"v", ())] * 3, base_offset=3, offset_deltas=[0, 3, 4], last_offset_delta=4)
    log, search = played([batch(0, 3), held, batch(8)]), HoleSearch()
    assert found(log, 6, search=search) is None
    assert found(log, 0, search=search) == 6


@dataclass(frozen=True, slots=True)
class Piece:
    """What stands in a log: a gap, a whole batch, one that lacks records, or a marker."""

    kind: str
    span: int


pieces = st.builds(
    Piece, st.sampled_from(["batch", "batch", "batch", "marker", "gap", "sparse"]), st.integers(1, 90)
)


@given(log=st.lists(pieces, max_size=12), start=st.integers(0, 60))
def test_the_last_hole_is_found_wherever_it_is(log: list[Piece], start: int) -> None:
    encoded: list[bytearray] = []
    at, last = 0, None
    for piece in log:
        span = 1 if piece.kind == "marker" else piece.span
        if piece.kind in ("gap", "sparse") and at + span > start:
            last = at + span
        if piece.kind == "marker":
            encoded.append(marker(at))
        elif piece.kind == "batch":
            encoded.append(batch(at, span))
        elif piece.kind == "sparse":
            encoded.append(sparse(at, span, span - 1))
        at += span
    assert found(played(encoded), start, end=max(at, start)) == (last if at > start else None)
