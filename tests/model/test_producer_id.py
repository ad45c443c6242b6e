"""The producer id says where a batch came from, and fits what a broker accepts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.model.producer_id import MARK, cluster_code, is_mirrored, mirrored_from, producer_id

names = st.text(max_size=60)


@settings(deadline=None)
@given(cluster=names, topic=names)
def test_every_id_is_a_positive_63_bit_number_with_our_mark(cluster: str, topic: str) -> None:
    number = producer_id(cluster, topic)
    assert 0 < number < 1 << 63
    assert number >> 56 == MARK
    assert is_mirrored(number)
    assert mirrored_from(number, cluster)


@settings(deadline=None)
@given(cluster=names, other=names, topic=names)
def test_an_id_names_its_cluster_and_no_other(cluster: str, other: str, topic: str) -> None:
    number = producer_id(cluster, topic)
    assert mirrored_from(number, other) == (cluster_code(other) == cluster_code(cluster))


@settings(deadline=None)
@given(candidate=st.integers(-(1 << 63), (0x48 << 56) - 1) | st.integers(0x49 << 56, (1 << 63) - 1))
def test_no_id_without_the_mark_counts_as_mirrored(candidate: int) -> None:
    assert not is_mirrored(candidate)
    assert not mirrored_from(candidate, "any")


def test_ids_of_plain_and_idempotent_producers_are_not_ours() -> None:
    assert not is_mirrored(-1)
    assert not is_mirrored(0)
    assert not is_mirrored(4000)


def test_an_id_is_the_same_in_every_release() -> None:
    """A mirror's id is what the target's log knows it by: another one would be a stranger to it."""
    assert producer_id("5L6g3nShT-eMCtK--X86sw", "orders") == PINNED


def test_topics_of_one_cluster_have_ids_of_their_own() -> None:
    assert len({producer_id("sf", f"topic-{n}") for n in range(1000)}) == 1000


def test_the_border_between_cluster_and_topic_counts() -> None:
    assert producer_id("ab", "c") & 0xFFFFFFFF != producer_id("a", "bc") & 0xFFFFFFFF


PINNED = 0x48110C19E35C024B
