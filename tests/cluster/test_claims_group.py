"""The group of claims: an order that is handed to everybody, and in which who was first stays first (P2)."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

import pytest

from heliograph.cluster.claims_group import ClaimsGroup, claims_group_of, read_claims, read_runner
from heliograph.cluster.standing import Placed, Seeking, Term
from heliograph.model.claims import Claim, Claims, UnreadClaim
from heliograph.model.errors import ProtocolError

from .group_table import Table

ORDERS = Claim(link="x", topics=("orders.*",), exclude=("orders-test",), naming="prefix", source="sf")


def group(host: str = "h", *claims: Claim) -> ClaimsGroup:
    return ClaimsGroup(host, 7, claims or (ORDERS,))


def order_of(table: Table, name: str) -> list[tuple[str, int]]:
    """Hosts and their seniority, as this member was told."""
    placed = table.members[name].standing(table.now)
    assert isinstance(placed, Placed)
    return [(each.host, each.seniority) for each in placed.claims.claimants]


def told(assignment: Any, *, name: str = "m") -> Placed:
    packed = zlib.compress(json.dumps(assignment).encode())
    placed = group().read(packed, Term(generation=3, member=name), False)
    assert isinstance(placed, Placed)
    return placed


def test_the_group_is_named_by_the_source_cluster_alone() -> None:
    assert claims_group_of("id-1") == "heliograph.id-1"


def test_every_member_is_told_all_claims_in_one_order() -> None:
    table = Table()
    other = Claim(link="y", topics=("a", "b"))
    for name, claims in (("one", [ORDERS]), ("two", [ORDERS, other]), ("three", [other])):
        table.sit_down(name, group(name, *claims))
    orders = [order_of(table, name) for name in ("one", "two", "three")]
    assert orders == [[("one", 1), ("two", 2), ("three", 3)]] * 3
    placed = table.members["one"].standing(table.now)
    assert isinstance(placed, Placed)
    assert [each.claims for each in placed.claims.claimants] == [(ORDERS,), (ORDERS, other), (other,)]


def test_who_leaves_makes_room_and_who_comes_back_is_last() -> None:
    table = Table()
    for name in ("one", "two"):
        table.sit_down(name, group(name))
    table.leave("one")
    table.settle()
    assert order_of(table, "two") == [("two", 2)]
    table.sit_down("one", group("one"))
    assert order_of(table, "one") == order_of(table, "two") == [("two", 2), ("one", 4)]


def test_who_was_dropped_has_lost_its_seniority() -> None:
    table = Table()
    for name in ("one", "two"):
        table.sit_down(name, group(name))
    table.now += 4
    table.settle("two")
    table.now += 3
    table.coordinator.tick(table.now)  # nothing was heard of the first for 7 s
    table.settle()
    assert [host for host, _ in order_of(table, "two")] == ["two", "one"]


def test_a_coordinator_that_fails_over_keeps_the_order() -> None:
    table = Table()
    for name in ("one", "two"):
        table.sit_down(name, group(name))
    table.coordinator.fail_over(table.now)
    table.settle()
    table.sit_down("three", group("three"))
    assert order_of(table, "two") == [("one", 1), ("two", 2), ("three", 3)]


def holders_after_a_late_join() -> list[str]:
    """The first join of `x` comes when it has a place, in front of `y`: who holds the topic that both claim?"""
    table = Table()
    table.sit_down("leader", group("leader", Claim(link="l", topics=("else",))))
    claim = Claim(link="l", topics=("orders",))
    late = table.lose_a_join("x", group("x", claim))
    table.settle()
    table.sit_down("y", group("y", claim))
    table.arrive(late)
    table.now += 1
    table.settle("leader", "y")
    holding = []
    for name in ("x", "y"):
        placed = table.members[name].standing(table.now)
        if isinstance(placed, Placed):
            holder = placed.claims.holder("orders")
            assert holder is not None
            if holder.claimant.member == placed.term.member:
                holding.append(name)
    return holding


def test_a_join_from_before_it_had_a_place_does_not_move_a_member_back() -> None:
    assert holders_after_a_late_join() == ["x"]


def test_a_member_that_kept_its_name_would_be_moved_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClaimsGroup, "keeps_id", lambda _self, _leads: True)
    assert holders_after_a_late_join() == ["x", "y"]


def test_a_late_join_of_our_own_is_named_as_ours_and_not_as_a_rival() -> None:
    table = Table()
    table.sit_down("leader", group("leader", Claim(link="l", topics=("else",))))
    next(table.coordinator.ids)  # names are in no order: the next two are, and the earlier join is in front
    late = table.lose_a_join("x", group("x"))
    table.settle("x")  # joins under another name, and waits for the leader to join again
    table.arrive(late)
    table.settle()
    placed = table.members["x"].standing(table.now)
    assert isinstance(placed, Placed)
    twin = placed.claims.twin_of(ORDERS, placed.term.member)
    assert twin is not None
    assert twin.claimant.member == late.member_id
    assert str(twin).startswith("this run itself by an earlier join that was not answered (x (pid 7)")
    others = table.members["leader"].standing(table.now)
    assert isinstance(others, Placed)
    assert str(others.claims.holder("sf.orders")) == "x (pid 7), link x"


@pytest.mark.parametrize(
    "wrong",
    [
        {"topics": ["("]},
        {"topics": "orders"},
        {"topics": [3]},
        {"naming": "nothing"},
        {"naming": 3},
        {"link": None},
        {"a key of a later version": 1},
    ],
    ids=str,
)
def test_a_claim_that_cannot_be_read_covers_everything(wrong: dict[str, Any]) -> None:
    claim = json.loads(group().metadata())["claims"][0] | wrong
    me = {"member": "m", "seniority": 2, "host": "h", "pid": 1, "claims": []}
    other = {"member": "o", "seniority": 1, "host": "h", "pid": 1, "claims": [claim, 3]}
    first, second = told([me, other]).claims.claimants[0].claims
    assert isinstance(second, UnreadClaim)
    assert isinstance(first, UnreadClaim)
    assert first.covers("at all")


@pytest.mark.parametrize(
    "metadata", [b"", b"\xff", b"[]", b"3", b"{}", b'{"seniority": "first", "claims": []}']
)
def test_a_member_that_cannot_be_read_comes_last_and_covers_everything(metadata: bytes) -> None:
    leader = group("leader")
    packed = leader.assign(Term(generation=9, member="m"), {"m": leader.metadata(), "a": metadata})
    assert set(packed) == {"m", "a"}
    older = json.loads(leader.metadata()) | {"seniority": 8}
    packed = leader.assign(Term(generation=9, member="m"), {"m": json.dumps(older).encode(), "a": metadata})
    placed = leader.read(packed["m"], Term(generation=9, member="m"), True)
    assert isinstance(placed, Placed)
    mine, unread = placed.claims.claimants
    assert (mine.member, mine.seniority) == ("m", 8)
    assert (unread.member, unread.seniority, unread.claims) == ("a", 9, (UnreadClaim(),))


ME = {"member": "m", "seniority": 2, "host": "h", "pid": 1, "claims": []}


@pytest.mark.parametrize(
    "assignment",
    [[], {}, None, [ME | {"member": "other"}], [ME | {"seniority": -1}], [ME | {"host": 3}], [ME, 3]],
    ids=str,
)
def test_an_order_that_cannot_be_read_or_lacks_us_gives_no_rights(assignment: Any) -> None:
    with pytest.raises(ProtocolError):
        told(assignment)


@pytest.mark.parametrize("assignment", [b"", b"{}", b"\xff\xff"])
def test_an_assignment_of_something_else_gives_no_rights(assignment: bytes) -> None:
    with pytest.raises(ProtocolError, match="cannot be read"):
        group().read(assignment, Term(generation=3, member="m"), False)


def test_a_place_that_has_changed_gives_no_rights() -> None:
    member = group()
    term = Term(generation=3, member="m")
    member.read(zlib.compress(json.dumps([ME]).encode()), term, False)
    with pytest.raises(ProtocolError, match="our place in the group was 2"):
        member.read(zlib.compress(json.dumps([ME | {"seniority": 3}]).encode()), term, False)


class GarbledGroup(ClaimsGroup):
    """Leads with bytes that nobody can read."""

    def assign(self, _term: Term, members: Mapping[str, bytes]) -> dict[str, bytes]:
        return dict.fromkeys(members, b"garbage")

    def read(self, _assignment: bytes, term: Term, _leads: bool, /) -> Placed:
        return Placed(term=term, claims=Claims())


def garbled_table() -> Table:
    """The leader begins to write garbage when `front` has its place."""
    table = Table()
    leader = group("leader", Claim(link="l", topics=("else",)))
    table.sit_down("leader", leader)
    table.sit_down("front", group("front"))
    table.members["leader"]._protocol = GarbledGroup("leader", 7, ())
    table.coordinator._prepare(table.now)
    return table


def test_who_cannot_read_its_assignment_leaves_the_group_and_says_why() -> None:
    table = garbled_table()
    front = table.members["front"]
    before = set(table.coordinator.members)
    for _ in range(6):
        table._turn("leader")
        table._turn("front")
    standing = front.standing(table.now)
    assert isinstance(standing, Seeking)
    assert "cannot be read" in (standing.problem or "")
    assert "this run leaves the group" in (standing.problem or "")
    assert front.lease_until < 0
    assert len(before & set(table.coordinator.members)) == 1  # the leader; the other name is given up


def test_who_left_is_placed_again_behind_the_others_when_assignments_can_be_read() -> None:
    table = garbled_table()
    for _ in range(6):
        table._turn("leader")
        table._turn("front")
    table.leave("leader")
    table.settle()
    table.sit_down("later", group("later"))
    assert [host for host, _ in order_of(table, "front")] == ["front", "later"]


def test_a_leave_that_nobody_answers_keeps_the_reason_and_leads_to_a_join_under_another_name() -> None:
    table = garbled_table()
    front = table.members["front"]
    while front.next_ask().message.name != "LeaveGroupRequest":
        table._turn("leader")
        table._turn("front")
    front.trouble("no answer")
    join = front.next_ask().message
    assert (join.name, join.member_id) == ("JoinGroupRequest", "")
    standing = front.standing(table.now)
    assert isinstance(standing, Seeking)
    assert "cannot be read" in (standing.problem or "")


def test_a_long_list_of_topics_stays_small_in_what_brokers_keep() -> None:
    """They keep all that was said in one record of at most 1 MB."""
    many = Claim(link="x", topics=tuple(f"department-{n}.orders-of-the-day-{n}" for n in range(3000)))
    leader = group("h", many)
    members = {f"m{n}": leader.metadata() for n in range(3)}
    kept = sum(map(len, members.values())) + sum(
        map(len, leader.assign(Term(generation=1, member="m0"), members).values())
    )
    assert kept < 700_000


def test_a_stranger_reads_who_a_member_is_and_nothing_else() -> None:
    assert read_runner(ClaimsGroup("desk", 7, []).metadata()) == ("desk", 7)
    assert read_runner(b"") is None
    assert read_runner(b'{"host": 5, "pid": 1}') is None


def test_what_a_run_selects_is_read_from_what_it_says_and_what_cannot_be_read_covers_everything() -> None:
    claim = Claim(link="sf-to-nyc", topics=("orders",))
    assert read_claims(ClaimsGroup("desk", 7, [claim]).metadata()) == (claim,)
    for unread in (b"", b'{"claims": 5}', b'{"claims": [{"link": "later"}]}'):
        assert [each.covers("anything") for each in read_claims(unread)] == [True]
