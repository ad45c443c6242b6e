"""To whom a target topic belongs: to the first claim that covers it, and to nobody else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.claims import Claim, Claimant, Claims, UnreadClaim, in_order
from heliograph.model.link import Link
from heliograph.model.topic_naming import SAME

TOPICS = ("orders", "orders-eu", "payments", "__consumer_offsets")
PATTERNS = ("orders", "orders.*", "pay.*", ".*", "nothing")

claims = st.builds(
    Claim,
    link=st.sampled_from(("x", "y")),
    topics=st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2).map(tuple),
    exclude=st.lists(st.sampled_from(PATTERNS), max_size=1).map(tuple),
    naming=st.sampled_from(("same", "prefix", "copy-of-{topic}")),
    source=st.sampled_from(("sf", "nyc")),
)
claimants = st.lists(
    st.builds(
        Claimant,
        member=st.uuids().map(str),
        seniority=st.integers(1, 4),
        host=st.just("h"),
        pid=st.just(1),
        claims=st.lists(claims | st.just(UnreadClaim()), max_size=3).map(tuple),
    ),
    max_size=5,
    unique_by=lambda each: each.member,
)
names = st.sampled_from(TOPICS)


def claimant(member: str, *of: Claim, seniority: int = 1) -> Claimant:
    return Claimant(member=member, seniority=seniority, host="h", pid=7, claims=of)


@given(claimants, names)
def test_a_topic_has_the_first_holder_that_covers_it_and_no_other(
    some: list[Claimant], target_topic: str
) -> None:
    order = in_order(some)
    holder = order.holder(target_topic)
    covering = [each for each in order.claimants if any(claim.covers(target_topic) for claim in each.claims)]
    assert (holder.claimant if holder else None) == (covering[0] if covering else None)


@given(claimants, claimants, names)
def test_who_comes_later_takes_nothing_from_those_that_are_there(
    some: list[Claimant], more: list[Claimant], topic: str
) -> None:
    there = in_order(some)
    last = max((each.seniority for each in some), default=0)
    joined = [
        Claimant(member=f"new {each.member}", seniority=last + 1, host="n", pid=2, claims=each.claims)
        for each in more
    ]
    holder = there.holder(topic)
    if holder is not None:
        assert in_order([*some, *joined]).holder(topic) == holder


@given(claimants, names)
def test_who_goes_leaves_what_others_hold_to_them(some: list[Claimant], topic: str) -> None:
    order = in_order(some)
    for gone in some:
        rest = in_order(each for each in some if each != gone)
        holder = order.holder(topic)
        if holder is not None and holder.claimant != gone:
            assert rest.holder(topic) == holder


@given(claimants, claims, names)
def test_a_twin_in_front_holds_all_that_we_select(
    some: list[Claimant], ours: Claim, target_topic: str
) -> None:
    me = claimant("me", ours, seniority=9)
    order = in_order([*some, me])
    twin = order.twin_of(ours, "me")
    if twin is not None and ours.covers(target_topic):
        holder = order.holder(target_topic)
        assert holder is not None
        assert holder.claimant != me


@given(claims, names)
def test_a_link_selects_and_names_as_its_claim_does(claim: Claim, topic: str) -> None:
    link = Link(
        name=claim.link,
        source=claim.source,
        target="t",
        topics=claim.topics,
        exclude=claim.exclude,
        naming=claim.naming,
    )
    assert link.claim == claim
    assert claim.covers(link.target_topic(topic)) == link.matches(topic)
    assert claim.naming == SAME or not claim.covers("another name")


def test_the_patterns_of_those_behind_are_not_matched_with_what_is_ours() -> None:
    """This one would take longer than anybody waits."""
    hostile = claimant("2", Claim(link="y", topics=("(a|a)*b",)), seniority=2)
    order = in_order([hostile, claimant("1", Claim(link="x", topics=("a+",)))])
    assert str(order.holder("a" * 200)) == "h (pid 7), link x"


def test_disjoint_claims_hold_their_own_and_overlapping_ones_yield_to_the_first() -> None:
    one = claimant("1", Claim(link="x", topics=("a", "b")))
    two = claimant("2", Claim(link="x", topics=("b", "c")), seniority=2)
    order = in_order([two, one])
    assert [str(order.holder(topic)) for topic in "abc"] == ["h (pid 7), link x"] * 3
    holders = [order.holder(topic) for topic in "abc"]
    assert [each.claimant for each in holders if each] == [one, one, two]


def test_one_source_topic_under_two_names_is_two_target_topics() -> None:
    one = claimant("1", Claim(link="x", topics=("a",)))
    two = claimant("2", Claim(link="x", topics=("a",), naming="prefix", source="sf"), seniority=2)
    order = in_order([one, two])
    assert [each and each.claimant for each in (order.holder("a"), order.holder("sf.a"))] == [
        one,
        two,
    ]


def test_a_renamed_link_claims_the_same() -> None:
    one, two = Claim(link="x", topics=("a", "b")), Claim(link="y", topics=("b", "a"))
    assert one.selection == two.selection


def test_who_is_not_among_the_claimants_has_nobody_in_front() -> None:
    assert Claims().in_front_of("me") == ()
    assert Claims().holder("a") is None


def test_a_target_topic_has_one_holder_also_where_two_source_topics_get_its_name() -> None:
    named = claimant("1", Claim(link="x", topics=("a",), naming="x.{topic}"))
    same = claimant("2", Claim(link="y", topics=("x.a",)), seniority=2)
    holder = in_order([named, same]).holder("x.a")
    assert holder is not None
    assert holder.claimant == named
