"""Which partition goes to which lane."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.controller.balance import balance, cap_lanes, lane_count
from heliograph.controller.plan import CopyPartition

from .observed import copy, partition

backlogs = st.lists(st.integers(0, 10**9), max_size=60)
lane_numbers = st.integers(1, 9)


def copies_of(goals: list[int]) -> list[CopyPartition]:
    return [copy(partition(number), goal=goal) for number, goal in enumerate(goals)]


def loads(portions: list[list[CopyPartition]]) -> list[int]:
    return [sum(c.backlog for c in portion) for portion in portions]


@given(backlogs, lane_numbers)
def test_every_partition_is_on_exactly_one_lane(goals: list[int], lanes: int) -> None:
    copies = copies_of(goals)
    portions = balance(copies, [0] * lanes)
    assert len(portions) == lanes
    assigned = [c.spec.partition for portion in portions for c in portion]
    assert sorted(assigned) == sorted(c.spec.partition for c in copies)


@given(backlogs, lane_numbers)
def test_no_lane_has_more_than_another_by_more_than_its_own_smallest_partition(
    goals: list[int], lanes: int
) -> None:
    portions = balance(copies_of(goals), [0] * lanes)
    least = min(loads(portions))
    for portion, load in zip(portions, loads(portions), strict=True):
        assert load - least <= min((c.backlog for c in portion if c.backlog), default=0)


@given(st.integers(0, 60), lane_numbers, st.integers(0, 1000))
def test_equal_backlogs_are_shared_evenly_by_count(partitions: int, lanes: int, goal: int) -> None:
    counts = [len(portion) for portion in balance(copies_of([goal] * partitions), [0] * lanes)]
    assert max(counts) - min(counts) <= 1


@given(backlogs.flatmap(lambda goals: st.tuples(st.just(goals), st.permutations(range(len(goals))))))
def test_the_order_in_which_partitions_were_seen_changes_nothing(
    drawn: tuple[list[int], list[int]],
) -> None:
    goals, order = drawn
    copies = copies_of(goals)
    assert balance([copies[i] for i in order], [0] * 3) == balance(copies, [0] * 3)


def test_caught_up_partitions_do_not_all_fall_on_the_lane_without_backlog() -> None:
    # A mirror that was caught up is started again while one partition is a record behind: all of them will grow
    # again, and partitions never move while a lane lives.
    portions = balance(copies_of([1, *[0] * 20]), [0, 0])
    assert sorted(len(portion) for portion in portions) == [10, 11]


@pytest.mark.parametrize(
    ("wanted", "slots", "partitions", "count"),
    [
        (None, 4, 10, 3),  # auto: what Spark has room for, less one slot
        (None, 4, 2, 2),  # no lane without a partition
        (None, 1, 10, 1),
        (2, 4, 10, 2),
        (8, 4, 10, 8),  # what was asked for, even above the slots
        (8, 4, 3, 3),
        (None, 0, 10, 1),
        (None, 4, 0, 1),
        (1, 1, 1, 1),
    ],
)
def test_lanes_are_what_was_asked_for_but_none_is_without_a_partition(
    wanted: int | None, slots: int, partitions: int, count: int
) -> None:
    assert lane_count(wanted, slots=slots, partitions=partitions) == count


@pytest.mark.parametrize(
    ("wanted", "local_slots", "count"), [(8, 3, 2), (2, 8, 2), (8, None, 8), (1, 0, 1), (1, 1, 1), (3, 3, 2)]
)
def test_only_a_local_master_limits_the_lanes_and_one_of_its_slots_is_left_free(
    wanted: int, local_slots: int | None, count: int
) -> None:
    assert cap_lanes(wanted, local_slots) == count


@given(st.lists(st.integers(0, 50), min_size=1, max_size=9), st.integers(0, 60), st.integers(0, 1000))
def test_what_lanes_have_of_other_links_counts(held: list[int], partitions: int, goal: int) -> None:
    """However it is shared, no lane gets one while another has two fewer."""
    portions = balance(copies_of([goal] * partitions), held)
    counts = [count + len(portion) for count, portion in zip(held, portions, strict=True)]
    given_to = [count for count, portion in zip(counts, portions, strict=True) if portion]
    assert goal or all(count - min(counts) <= 1 for count in given_to)


def test_links_of_one_partition_each_do_not_all_go_to_the_first_lane() -> None:
    held = [0] * 4
    for number in range(8):
        portions = balance([copy(partition(number), goal=100)], held)
        held = [count + len(portion) for count, portion in zip(held, portions, strict=True)]
    assert held == [2, 2, 2, 2]
