"""Changes: what is done about a link's topics since they were planned, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from heliograph.controller.changes import Absences, Changes, begins_anew, changes
from heliograph.model.events import Event
from heliograph.model.partition_status import PartitionStatus
from heliograph.model.states import PartitionState, StopReason

from .observed import LINK, metadata_of, partition, progress

NOTHING = Changes()


def running(number: int) -> PartitionStatus:
    return progress(partition(number), 5)


def awaiting(number: int) -> PartitionStatus:
    return progress(partition(number), 0, state=PartitionState.PENDING, event=Event.TOPIC_MISSING)


def refused(number: int, reason: StopReason = StopReason.PARTITIONS) -> PartitionStatus:
    return progress(partition(number), 0, state=PartitionState.STOPPED, reason=reason, refused=True)


def stopped(number: int) -> PartitionStatus:
    return progress(partition(number), 0, state=PartitionState.STOPPED, reason=StopReason.LOST)


def paused(number: int) -> PartitionStatus:
    return progress(partition(number), 0, state=PartitionState.PAUSED)


def held(number: int) -> PartitionStatus:
    return progress(partition(number), 0, held_by="another run")


def seen(
    source: Mapping[str, int],
    rows: Sequence[PartitionStatus] = (),
    *,
    target: Mapping[str, int] | None = None,
    again: bool = False,
    topics: tuple[str, ...] = (".*",),
) -> Changes:
    board = {"orders": rows} if rows else {}
    there = {"orders": len(rows)} if target is None else target
    return changes(replace(LINK, topics=topics), metadata_of(source), metadata_of(there), board, again=again)


PLANNED = Changes(plan=frozenset({"orders"}))


@pytest.mark.parametrize(
    ("rows", "partitions", "expected"),
    [
        ([], 1, PLANNED),
        ([running(0)], 1, NOTHING),
        ([running(0)], 2, PLANNED),
        ([stopped(0), paused(1), held(2)], 3, NOTHING),
        ([running(0), stopped(1)], 3, PLANNED),
        ([refused(0)], 1, NOTHING),
    ],
)
def test_a_topic_is_planned_when_it_has_partitions_that_are_not_on_the_board(
    rows: list[PartitionStatus], partitions: int, expected: Changes
) -> None:
    assert seen({"orders": partitions}, rows) == expected


@pytest.mark.parametrize(
    ("there", "expected"), [({}, NOTHING), ({"orders": 1}, NOTHING), ({"orders": 2}, PLANNED)]
)
def test_a_partition_that_waits_is_planned_as_soon_as_the_target_has_it(
    there: dict[str, int], expected: Changes
) -> None:
    assert seen({"orders": 2}, [running(0), awaiting(1)], target=there) == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([awaiting(0)], PLANNED),
        ([refused(0)], PLANNED),
        ([running(0), refused(1, StopReason.PREFLIGHT)], PLANNED),
        ([refused(0, StopReason.FOREIGN)], NOTHING),
        ([stopped(0)], NOTHING),
        ([paused(0)], NOTHING),
        ([running(0)], NOTHING),
        ([held(0)], NOTHING),
    ],
)
def test_now_and_then_what_may_be_mended_is_planned_again_and_what_needs_an_operator_is_not(
    rows: list[PartitionStatus], expected: Changes
) -> None:
    assert seen({"orders": len(rows)}, rows, target={}, again=True) == expected


def test_a_topic_that_is_on_the_board_and_not_at_the_source_is_gone() -> None:
    assert seen({}, [running(0), stopped(1)]) == Changes(gone=frozenset({"orders"}))


def test_a_topic_that_the_link_does_not_match_any_more_is_gone_and_others_are_not_looked_at() -> None:
    found = seen({"orders": 1, "clicks": 1}, [running(0)], topics=("payments",))
    assert found == Changes(gone=frozenset({"orders"}))


def test_a_topic_without_partitions_is_one_that_a_broker_could_not_tell_of() -> None:
    assert seen({"orders": 0}) == NOTHING


def test_a_topic_is_gone_when_two_looks_in_a_row_say_so() -> None:
    absences = Absences()
    assert absences.confirmed({"orders", "clicks"}) == frozenset()
    assert absences.pending
    assert absences.confirmed({"orders", "views"}) == {"orders"}
    assert absences.confirmed({"clicks"}) == frozenset()
    assert absences.confirmed(()) == frozenset()
    assert not absences.pending


@pytest.mark.parametrize(
    ("row", "anew"),
    [
        (None, True),
        (awaiting(0), True),
        (refused(0), True),
        (refused(0, StopReason.FOREIGN), False),
        (stopped(0), False),
        (paused(0), False),
        (running(0), False),
        (held(0), False),
    ],
)
def test_only_what_nobody_has_and_no_operator_must_speak_of_begins_anew(
    row: PartitionStatus | None, anew: bool
) -> None:
    assert begins_anew(row) is anew
