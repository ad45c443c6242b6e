"""Which partitions an operator means."""

from __future__ import annotations

import pytest

from heliograph.model.errors import UsageError
from heliograph.model.link import Link
from heliograph.model.partition import MirrorPartition
from heliograph.operations.aim import Aim, aim_at_list, take_aim, topic_filters

SF = Link(name="sf-to-nyc", source="sf", target="nyc", topics=(r"orders.*", "a.b"), exclude=("orders-old",))
NYC = Link(name="nyc-to-sf", source="nyc", target="sf", topics=(".*",))


def means(aim: Aim, topic: str, number: int) -> bool:
    return aim.means(MirrorPartition(aim.link.name, topic, topic, number))


def test_the_link_may_be_left_out_where_there_is_one() -> None:
    assert take_aim([SF], ["orders"]).link is SF
    assert take_aim([SF], ["sf-to-nyc", "orders"]).link is SF
    assert take_aim([SF, NYC], ["nyc-to-sf", "orders"]).link is NYC
    with pytest.raises(UsageError, match="2 links: which one") as refused:
        take_aim([SF, NYC], ["orders"])
    assert "sf-to-nyc, nyc-to-sf" in refused.value.hint


def test_partitions_are_those_that_were_named() -> None:
    aim = take_aim([SF], ["orders:0,3", "orders:5", "orders-eu"])
    assert [means(aim, "orders", n) for n in (0, 1, 3, 5)] == [True, False, True, True]
    assert means(aim, "orders-eu", 7)
    assert not means(aim, "a.b", 0)
    assert means(take_aim([SF], ["orders:1", "orders"]), "orders", 9)
    assert means(take_aim([SF], [], everything=True), "a.b", 0)


@pytest.mark.parametrize("word", ["orders:", "orders:x", ":1", "orders:1,", "orders:-1", "orders:1:2"])
def test_what_is_no_topic_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="is no topic"):
        take_aim([SF], [word])


@pytest.mark.parametrize("topic", ["payments", "orders-old", "__heliograph_ledger", "axb" + "b"])
def test_a_topic_that_the_link_does_not_mirror_is_refused(topic: str) -> None:
    with pytest.raises(UsageError, match="does not mirror topic"):
        take_aim([SF], [topic])


def test_nothing_and_everything_at_once_are_refused() -> None:
    with pytest.raises(UsageError, match="no topic is named"):
        take_aim([SF], ["sf-to-nyc"])
    with pytest.raises(UsageError, match="both --all and orders"):
        take_aim([SF], ["orders"], everything=True)


def test_only_what_is_named_is_read_from_the_clusters() -> None:
    narrowed = take_aim([SF], ["a.b", "orders:1"]).narrowed
    assert [narrowed.matches(name) for name in ("a.b", "axb", "orders", "orders-eu")] == [
        True,
        False,
        True,
        False,
    ]
    assert take_aim([SF], [], everything=True).narrowed is SF


# -- filters


def test_a_filter_is_a_name_that_is_mirrored_or_any_regular_expression() -> None:
    named, numbered, matched = topic_filters([SF], ["a.b", "orders:0,3", "pay.*:7"])
    assert (named.pattern, named.partitions) == ("a.b", None)
    assert (numbered.pattern, numbered.partitions) == ("orders", frozenset({0, 3}))
    assert (matched.pattern, matched.partitions) == ("pay.*", frozenset({7}))
    assert [each.pattern for each in topic_filters([SF], ["(?:a|b)c"])] == ["(?:a|b)c"]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("payments", "does not mirror topic payments"),
        ("orders:x", "is no topic"),
        ("orders.*:", "is no topic"),
        ("", "is no topic"),
        ("orders[", "bad regular expression"),
    ],
)
def test_a_filter_that_cannot_keep_anything_is_refused(word: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        topic_filters([SF], [word])


def test_words_of_a_list_name_a_link_and_topics_and_filters_match() -> None:
    links, filters = aim_at_list([SF, NYC], ["sf-to-nyc", "orders:1"], ["a.*"])
    assert list(links) == [SF]
    assert [(each.pattern, each.partitions) for each in filters] == [("orders", {1}), ("a.*", None)]
    assert aim_at_list([SF, NYC], []) == ([SF, NYC], ())
