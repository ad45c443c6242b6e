"""How a link copies: one value that nothing of is lost on the way."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.link import Link
from heliograph.model.policy import (
    DEFAULT_POLICY,
    Isolation,
    LinkPolicy,
    OnLoss,
    OnSourceDelete,
    TopicPolicy,
)

policies = st.builds(LinkPolicy)
SKIPPING = replace(DEFAULT_POLICY, on_loss=OnLoss.CONTINUE)


@given(policies)
def test_a_policy_written_as_texts_is_the_same_when_read(policy: LinkPolicy) -> None:
    assert LinkPolicy.from_texts(policy.texts()) == policy


@pytest.mark.parametrize("key", DEFAULT_POLICY.texts())
def test_a_key_that_was_lost_on_the_way_is_no_default(key: str) -> None:
    texts = DEFAULT_POLICY.texts()
    del texts[key]
    with pytest.raises(KeyError, match=key):
        LinkPolicy.from_texts(texts)


def test_a_word_that_is_no_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="sometimes"):
        LinkPolicy.from_texts(DEFAULT_POLICY.texts() | {"on_loss": "sometimes"})


def test_only_what_is_not_the_default_is_a_difference() -> None:
    assert DEFAULT_POLICY.differences() == {}
    chosen = replace(SKIPPING, isolation=Isolation.READ_UNCOMMITTED)
    assert chosen.differences() == {"isolation": "read_uncommitted", "on_loss": "continue"}


def link_of(*entries: TopicPolicy) -> Link:
    return Link(name="l", source="sf", target="nyc", topics=tuple(e.match for e in entries), policies=entries)


def test_the_first_entry_that_matches_decides() -> None:
    wide = TopicPolicy(match="orders.*", policy=DEFAULT_POLICY)
    narrow = TopicPolicy(match="orders[.]eu", policy=SKIPPING)
    assert link_of(narrow, wide).policy_of("orders.eu") == SKIPPING
    assert link_of(narrow, wide).policy_of("orders.us") == DEFAULT_POLICY
    assert link_of(wide, narrow).policy_of("orders.eu") == DEFAULT_POLICY


def test_a_link_deletes_if_one_of_its_topics_is_to_be_deleted_with_its_source() -> None:
    deleting = replace(DEFAULT_POLICY, on_source_delete=OnSourceDelete.DELETE)
    keeping, entry = link_of(), TopicPolicy(match="orders", policy=deleting)
    assert not keeping.deletes
    assert replace(keeping, policy=deleting).deletes
    assert link_of(TopicPolicy(match="clicks", policy=DEFAULT_POLICY), entry).deletes


def test_an_entry_matches_the_whole_name() -> None:
    link = link_of(TopicPolicy(match="orders", policy=SKIPPING))
    assert link.policy_of("orders") == SKIPPING
    assert link.policy_of("orders.eu") == link.policy
