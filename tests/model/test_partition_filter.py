"""Which partitions are asked for, and which are shown."""

from __future__ import annotations

import pytest

from heliograph.model.partition import MirrorPartition
from heliograph.model.partition_filter import EVERY_PARTITION, PartitionFilter, TopicFilter
from heliograph.model.states import PartitionState


def where(topic: str = "orders", number: int = 0) -> MirrorPartition:
    return MirrorPartition("sf-to-nyc", topic, f"sf.{topic}", number)


def keeps(
    shown: PartitionFilter, state: PartitionState = PartitionState.COPYING, lag: int | None = 0
) -> bool:
    return shown.keeps(where(), state, lag, "lost")


@pytest.mark.parametrize(
    ("pattern", "named", "others"),
    [
        ("a.b", ["a.b"], ["axb", "a.bc", "sf.a.b"]),
        ("a.*", ["a", "a.b", "axb"], ["ba"]),
        ("orders|payments", ["orders", "payments"], ["orders-eu"]),
        ("orders(?:-eu)?", ["orders", "orders-eu"], ["orders-us"]),
    ],
)
def test_a_word_that_could_be_a_name_is_one_and_any_other_matches_whole_names(
    pattern: str, named: list[str], others: list[str]
) -> None:
    matches = TopicFilter(pattern=pattern).matches
    assert [matches(each) for each in (*named, *others)] == [True] * len(named) + [False] * len(others)


def test_partitions_are_those_of_one_of_the_topics_that_are_asked_for() -> None:
    shown = PartitionFilter(
        topics=(TopicFilter(pattern="orders", partitions=frozenset({0, 3})), TopicFilter(pattern="p.*"))
    )
    asked = [where("orders", 0), where("orders", 3), where("payments", 7)]
    assert all(map(shown.means, asked))
    assert not any(map(shown.means, [where("orders", 1), where("other", 0)]))
    assert not shown.chooses_rows
    assert not shown.is_empty


def test_a_topic_without_partitions_is_asked_for_by_its_name() -> None:
    shown = PartitionFilter(topics=(TopicFilter(pattern="orders", partitions=frozenset({0})),))
    assert [shown.means_topic(name) for name in ("orders", "others")] == [True, False]


def test_what_is_empty_keeps_all() -> None:
    assert EVERY_PARTITION.is_empty
    assert EVERY_PARTITION.means_topic("orders")
    assert keeps(EVERY_PARTITION, PartitionState.UNKNOWN, None)


def test_states_codes_and_lag_choose_rows_and_not_what_is_asked_for() -> None:
    stopped = PartitionFilter(states={PartitionState.STOPPED})
    assert keeps(stopped, PartitionState.STOPPED)
    assert not keeps(stopped)
    assert keeps(PartitionFilter(codes={"lost"}))
    assert not keeps(PartitionFilter(codes={"gap"}))
    for each in (stopped, PartitionFilter(codes={"gap"}), PartitionFilter(lagging=True)):
        assert each.means(where())
        assert each.chooses_rows


@pytest.mark.parametrize(("lag", "kept"), [(0, False), (1, True), (None, True)])
def test_lagging_is_what_is_not_known_to_be_copied_whole(lag: int | None, kept: bool) -> None:
    assert keeps(PartitionFilter(lagging=True), lag=lag) is kept
