"""A link's own group, held for one version: runs of the version before and of this one are never both active (P2)."""

from __future__ import annotations

import json

import pytest

from heliograph.cluster.leader_group import BY_CLAIMS, LeaderGroup, leader_group_of
from heliograph.cluster.standing import Permitted, Seeking, Standby, Term

from .election_world import BeforeLeaderGroup
from .group_table import Table

TERM = Term(generation=1, member="me")


def test_the_group_is_named_as_in_the_version_before() -> None:
    assert leader_group_of("sf-to-nyc", "id-1") == "heliograph.sf-to-nyc.id-1"


def test_a_leader_says_who_it_is_to_the_version_before_and_leaves_the_rest_to_the_claims() -> None:
    said = LeaderGroup("h", 1, "config").assign(TERM, {"me": b"", "other": b""})
    assert set(said) == {"me", "other"}
    leader = json.loads(said["other"])
    assert leader == {"host": "h", "pid": 1, "config": "config", "member": "me", BY_CLAIMS: True}


def test_all_runs_of_this_version_are_permitted_where_one_of_them_leads() -> None:
    table = Table()
    for name in ("one", "two", "three"):
        table.sit_down(name, LeaderGroup(name, 1, name))
    assert all(isinstance(member.standing(table.now), Permitted) for member in table.members.values())


@pytest.mark.parametrize(("config", "alike"), [("ours", True), ("theirs", False)])
def test_where_a_run_of_the_version_before_leads_it_is_active_and_named(config: str, alike: bool) -> None:
    table = Table()
    table.sit_down("before", BeforeLeaderGroup("b", 7, config))
    member = table.sit_down("after", LeaderGroup("a", 1, "ours"))
    words = "b (pid 7), a run of the version before this one"
    assert member.standing(table.now) == Standby(active=words, alike=alike)
    assert member.lease_until < 0
    table.leave("before")
    table.settle()
    assert isinstance(member.standing(table.now), Permitted)


def test_where_a_run_of_this_version_leads_one_of_the_version_before_stands_by() -> None:
    table = Table()
    table.sit_down("after", LeaderGroup("a", 1, "config"))
    member = table.sit_down("before", BeforeLeaderGroup("b", 7, "config"))
    assert isinstance(member.standing(table.now), Standby)
    assert isinstance(table.members["after"].standing(table.now), Permitted)


@pytest.mark.parametrize("assignment", [b"", b"\xff", b"[]", b"3", b'{"host": "h"}', b'{"by_claims": "yes"}'])
def test_a_leader_that_cannot_be_read_is_not_named_and_permits_nothing(assignment: bytes) -> None:
    assert LeaderGroup("h", 1, "c").read(assignment, TERM, False) == Standby(active=None)


def test_who_does_not_lead_gives_its_permission_up_before_it_joins_again() -> None:
    """The next generation may be led by a run of the version before."""
    table = Table()
    table.sit_down("leader", LeaderGroup("a", 1, "config"))
    member = table.sit_down("member", LeaderGroup("b", 1, "config"))
    table.sit_down("before", BeforeLeaderGroup("c", 1, "config"))
    table.coordinator._prepare(table.now)
    table._turn("leader")
    assert isinstance(table.members["leader"].standing(table.now), Permitted)
    table._turn("member")
    assert member.standing(table.now) == Seeking()
    assert member.lease_until < 0
    table.settle()
    assert isinstance(member.standing(table.now), Permitted)


def active_after_a_late_join() -> list[str]:
    """The first join of `x` comes when the leader, of this version too, has left: who is active?"""
    table = Table()
    table.sit_down("leader", LeaderGroup("a", 1, "config"))
    table.sit_down("before", BeforeLeaderGroup("b", 1, "config"))
    late = table.lose_a_join("x", LeaderGroup("x", 1, "config"))
    table.settle()
    table.leave("leader")
    table.arrive(late)
    table.now += 1
    table.settle("before")
    return [name for name, member in table.members.items() if table.now < member.lease_until]


def test_a_join_from_before_it_was_permitted_does_not_let_both_versions_be_active() -> None:
    assert active_after_a_late_join() == ["x"]


def test_a_member_that_kept_its_name_would_let_both_be_active(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeaderGroup, "keeps_id", lambda _self, _leads: True)
    assert active_after_a_late_join() == ["before", "x"]
