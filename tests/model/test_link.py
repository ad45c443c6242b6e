"""A link's topics and their names on the target."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.ledger import OWN_TOPICS
from heliograph.model.link import Link
from heliograph.model.settings import Settings
from heliograph.model.topic_naming import naming_problem
from heliograph.model.topic_patterns import pattern_problem, split_patterns

topic_names = st.text("abcXYZ019._-", min_size=1, max_size=30)


def link(topics: tuple[str, ...] = (".*",), exclude: tuple[str, ...] = (), naming: str = "same") -> Link:
    return Link(name="sf-to-nyc", source="sf", target="nyc", topics=topics, exclude=exclude, naming=naming)


@given(topic_names.filter(lambda topic: not topic.startswith("__")))
def test_a_pattern_must_match_the_whole_name(topic: str) -> None:
    assert link((re.escape(topic),)).matches(topic)
    assert not link((re.escape(topic),)).matches(topic + "x")
    assert not link((re.escape(topic),)).matches("x" + topic)


def test_an_alternative_is_held_to_the_whole_name_too() -> None:
    assert link(("orders|payments",)).matches("payments")
    assert not link(("orders|payments",)).matches("orders2")


@given(topic_names)
def test_an_excluded_topic_is_never_matched(topic: str) -> None:
    assert not link(exclude=(re.escape(topic),)).matches(topic)


def test_internal_topics_are_left_out_whatever_the_patterns_say() -> None:
    assert not link(("__consumer_offsets", ".*")).matches("__consumer_offsets")
    assert not link().matches("connect-offsets", internal=True)
    assert link().matches("_schemas")


@pytest.mark.parametrize("topic", sorted(OWN_TOPICS))
def test_topics_of_heliographs_own_are_never_copied(topic: str) -> None:
    assert not link((".*", topic, re.escape(topic))).matches(topic)


@pytest.mark.parametrize(
    ("naming", "expected"),
    [
        ("same", "orders"),
        ("prefix", "sf.orders"),
        ("{topic}-of-{source}", "orders-of-sf"),
        ("{topic}", "orders"),
    ],
)
def test_a_target_topic_is_named_by_the_rule(naming: str, expected: str) -> None:
    assert naming_problem(naming) is None
    assert link(naming=naming).target_topic("orders") == expected


def test_a_prefix_uses_the_separator() -> None:
    mirror = Link(name="l", source="sf", target="nyc", topics=("a",), naming="prefix", separator="_")
    assert mirror.target_topic("a") == "sf_a"


@pytest.mark.parametrize(
    "naming",
    ["", "prefx", "{source}", "{topic", "{topic}{x}", "{topic!r}", "{topic:>9}", "{}{topic}", "a b{topic}"],
)
def test_a_bad_naming_rule_is_told(naming: str) -> None:
    assert naming_problem(naming) is not None


@pytest.mark.parametrize("pattern", ["[", "(", "*", "a{99999999999}", ""])
def test_a_bad_pattern_is_told(pattern: str) -> None:
    assert pattern_problem(pattern) is not None


def test_a_comma_of_a_repetition_does_not_split_a_pattern() -> None:
    assert split_patterns("a, b{1,3} ,,c") == ["a", "b{1,3}", "c"]


def test_a_links_own_properties_override_its_clusters() -> None:
    mirror = Link(name="l", source="sf", target="nyc", topics=("a",), consumer={"client.id": "x"})
    settings = Settings(
        clusters={"sf": {"client.id": "y", "k": "v"}, "nyc": {"client.id": "z"}}, links=(mirror,)
    )
    assert settings.source_properties(mirror) == {"client.id": "x", "k": "v"}
    assert settings.target_properties(mirror) == {"client.id": "z"}


def test_a_link_can_be_a_key() -> None:
    assert {link(): 1}[link()] == 1


def test_properties_stay_out_of_a_repr() -> None:
    properties = {"ssl.key.password": "hunter2", "client.id": "a"}
    assert "hunter2" not in repr(Settings(clusters={"sf": properties}, links=()))
