"""The rules of the election without a network: what each answer does to role and lease (P2)."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from heliograph.cluster.group_membership import Active, Membership, Role, Seeking, Standby, Then
from heliograph.model.errors import ProtocolError
from heliograph.wire.error_codes import ErrorCode

from .group_model import Driver, World

SESSION_S = 6


def joined(leader: str = "me", generation: int = 1, member_id: str = "me") -> Any:
    members = [SimpleNamespace(member_id=name) for name in ("me", "other")]
    return SimpleNamespace(
        error_code=0, generation_id=generation, leader=leader, member_id=member_id, members=members
    )


def synced(assignment: bytes = b"") -> Any:
    return SimpleNamespace(error_code=0, assignment=assignment)


def said(code: int, member_id: str = "me") -> Any:
    return SimpleNamespace(error_code=code, member_id=member_id)


def member(leader: str = "me", at: float = 100.0) -> Membership:
    """Joined and synced at this moment."""
    membership = Membership("g", {"host": "h", "pid": 1})
    assert membership.answered(joined(leader), sent_at=at) is Then.GO_ON
    assert membership.answered(synced(), sent_at=at) is Then.REST
    return membership


def asks(membership: Membership) -> str:
    return str(membership.next_ask().message.name)


def test_the_leader_is_active_and_tells_every_member_who_it_is() -> None:
    membership = Membership("g", {"host": "h", "pid": 1})
    assert membership.role(0) == Seeking()
    membership.answered(joined(), sent_at=0)
    assignments = membership.next_ask().message.assignments
    assert [given.member_id for given in assignments] == ["me", "other"]
    other = Membership("g", {"host": "x", "pid": 2})
    other.answered(joined(leader="me", member_id="other"), sent_at=0)
    assert other.next_ask().message.assignments == []
    other.answered(synced(assignments[1].assignment), sent_at=0)
    assert other.role(0) == Standby(active="h (pid 1)")
    assert other.lease_until == -math.inf


@pytest.mark.parametrize(
    ("theirs", "ours", "alike"),
    [
        ({"config": "1"}, {"config": "1"}, True),
        ({"config": "1"}, {"config": "2"}, False),
        ({}, {"config": "2"}, True),
    ],
)
def test_a_standby_knows_whether_the_active_one_has_its_config(
    theirs: dict[str, str], ours: dict[str, str], alike: bool
) -> None:
    """A run of an older release tells nothing of it."""
    active = Membership("g", {"host": "h", "pid": 1, **theirs})
    active.answered(joined(), sent_at=0)
    other = Membership("g", {"host": "x", "pid": 2, **ours})
    other.answered(joined(leader="me", member_id="other"), sent_at=0)
    other.answered(synced(active.next_ask().message.assignments[1].assignment), sent_at=0)
    assert other.role(0) == Standby(active="h (pid 1)", alike=alike)


@pytest.mark.parametrize("assignment", [b"", b"\xff", b"[]", b"3", b'{"host": "h"}'])
def test_an_assignment_that_cannot_be_read_leaves_the_active_one_unnamed(assignment: bytes) -> None:
    membership = Membership("g", {})
    membership.answered(joined(leader="other"), sent_at=0)
    membership.answered(synced(assignment), sent_at=0)
    assert membership.role(0) == Standby(active=None)


def test_the_lease_counts_from_when_the_answered_request_was_sent() -> None:
    membership = Membership("g", {})
    membership.answered(joined(), sent_at=100)
    membership.answered(synced(), sent_at=103)
    assert membership.lease_until == 103 + SESSION_S
    membership.answered(said(0), sent_at=106)
    assert membership.lease_until == 106 + SESSION_S


def test_a_rebalance_neither_renews_the_lease_nor_ends_the_role() -> None:
    membership = member(at=100)
    assert membership.answered(said(ErrorCode.REBALANCE_IN_PROGRESS), sent_at=101) is Then.GO_ON
    assert asks(membership) == "JoinGroupRequest"
    assert membership.lease_until == 100 + SESSION_S
    assert membership.role(105.9) == Active(generation=1, member="me")
    membership.answered(joined(generation=2), sent_at=101)
    membership.answered(synced(), sent_at=104)
    assert membership.role(104) == Active(generation=2, member="me")


def test_who_joins_again_after_its_lease_is_active_again_as_the_same_member() -> None:
    membership = member(at=100)
    membership.answered(said(ErrorCode.REBALANCE_IN_PROGRESS), sent_at=101)
    membership.answered(joined(generation=2), sent_at=101)
    assert isinstance(membership.role(107), Seeking)
    membership.answered(synced(), sent_at=107)
    assert membership.role(107) == Active(generation=2, member="me")


def test_without_answers_the_role_stays_until_the_lease_ends_and_comes_back_with_the_next_one() -> None:
    membership = member(at=100)
    membership.trouble("the coordinator is away")
    assert membership.role(105.9) == Active(generation=1, member="me")
    assert membership.role(106) == Seeking(problem="the coordinator is away")
    membership.answered(said(0), sent_at=110)
    assert membership.role(110) == Active(generation=1, member="me")


def test_who_was_out_of_the_group_is_active_again_as_another_member() -> None:
    membership = member(at=100)
    membership.answered(said(ErrorCode.UNKNOWN_MEMBER_ID), sent_at=101)
    membership.answered(said(ErrorCode.MEMBER_ID_REQUIRED, "me again"), sent_at=101)
    membership.answered(joined(leader="me again", member_id="me again"), sent_at=101)
    membership.answered(synced(), sent_at=102)
    assert membership.role(102) == Active(generation=1, member="me again")


def test_an_answer_from_before_a_freeze_gives_no_role() -> None:
    membership = member(at=100)
    membership.answered(said(0), sent_at=101)
    assert isinstance(membership.role(130), Seeking)


def test_a_standby_that_hears_nothing_seeks() -> None:
    membership = member(leader="other", at=100)
    assert membership.role(105.9) == Standby(active=None)
    assert isinstance(membership.role(106), Seeking)


@pytest.mark.parametrize(
    ("code", "keeps_id"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, False),
        (ErrorCode.ILLEGAL_GENERATION, True),
        (ErrorCode.FENCED_INSTANCE_ID, False),
    ],
)
def test_who_is_out_of_the_group_loses_role_and_lease_at_once(code: int, keeps_id: bool) -> None:
    membership = member(at=100)
    membership.answered(said(code), sent_at=101)
    assert isinstance(membership.role(101), Seeking)
    assert membership.lease_until == -math.inf
    join = membership.next_ask().message
    assert (join.name, join.member_id) == ("JoinGroupRequest", "me" if keeps_id else "")


def test_an_active_one_that_hears_of_another_leader_loses_its_role_before_it_syncs() -> None:
    membership = member(at=100)
    membership.answered(said(ErrorCode.REBALANCE_IN_PROGRESS), sent_at=101)
    membership.answered(joined(leader="other", generation=2), sent_at=101)
    assert isinstance(membership.role(101), Seeking)
    assert membership.lease_until == -math.inf


def test_a_member_id_that_is_given_is_used() -> None:
    membership = Membership("g", {})
    assert membership.answered(said(ErrorCode.MEMBER_ID_REQUIRED, "m7"), sent_at=0) is Then.GO_ON
    assert membership.next_ask().message.member_id == "m7"


def test_session_and_rebalance_timeout_are_one_and_grow_when_refused() -> None:
    membership = Membership("g", {})
    refused = said(ErrorCode.INVALID_SESSION_TIMEOUT)
    for session_s, then in ((6, Then.GO_ON), (10, Then.GO_ON), (30, Then.BACK_OFF)):
        join = membership.next_ask().message
        assert join.session_timeout_ms == join.rebalance_timeout_ms == session_s * 1000
        assert membership.answered(refused, sent_at=0) is then
    assert "group.min.session.timeout.ms" in problem_of(membership.role(0))


def problem_of(role: Role) -> str:
    assert isinstance(role, Seeking)
    return role.problem or ""


def test_a_missing_right_is_named() -> None:
    membership = Membership("g", {})
    assert membership.answered(said(ErrorCode.GROUP_AUTHORIZATION_FAILED), sent_at=0) is Then.BACK_OFF
    assert "grant READ on the group g" in problem_of(membership.role(0))


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_moved_is_found_again_and_the_role_stays(code: int) -> None:
    membership = member(at=100)
    assert membership.answered(said(code), sent_at=101) is Then.FIND
    assert isinstance(membership.role(101), Active)
    assert asks(membership) == "HeartbeatRequest"


def test_a_coordinator_that_loads_is_asked_the_same_again() -> None:
    membership = Membership("g", {})
    membership.answered(joined(), sent_at=0)
    loading = said(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert membership.answered(loading, sent_at=0) is Then.BACK_OFF
    assert asks(membership) == "SyncGroupRequest"


def test_a_sync_that_is_refused_for_good_leads_back_to_a_join() -> None:
    membership = Membership("g", {})
    membership.answered(joined(), sent_at=0)
    membership.answered(said(ErrorCode.UNKNOWN_SERVER_ERROR), sent_at=0)
    assert asks(membership) == "JoinGroupRequest"


def test_leaving_gives_up_role_and_lease_and_names_the_member() -> None:
    membership = member(at=100)
    goodbye = membership.leave()
    assert goodbye is not None
    assert [m.member_id for m in goodbye.message.members] == ["me"]
    assert membership.role(100) == Seeking()
    assert membership.lease_until == -math.inf
    assert membership.leave() is None


@pytest.mark.parametrize(
    "answer",
    [
        SimpleNamespace(),
        SimpleNamespace(error_code=None),
        SimpleNamespace(error_code=0),
        joined(member_id=""),
    ],
)
def test_a_join_answer_without_sense_is_a_protocol_error(answer: Any) -> None:
    with pytest.raises(ProtocolError):
        Membership("", {}).answered(answer, sent_at=0)


def two_leases(seed: int) -> str | None:
    """Ten minutes of this seed: who held a lease at the same time as somebody else, and when."""
    world = World(seed, members=2 + seed % 3)
    active: set[int] = set()
    while world.now < 600:
        world.step()
        holding = world.holding()
        if len(holding) > 1:
            return f"seed {seed}: {holding} at {world.now:.3f} s"
        active.update(holding)
    assert len(active) > 1, "nobody ever took over: the test shows nothing"
    return None


@pytest.mark.parametrize("seed", range(30))
def test_never_two_leases_at_once_whatever_is_lost_late_or_frozen(seed: int) -> None:
    assert two_leases(seed) is None


def count_from_the_answer(driver: Driver, number: int, response: Any, _sent_at: float) -> None:
    sound_heard(driver, number, response, driver._world.now)


def renew_in_a_rebalance(membership: Membership, response: Any, sent_at: float) -> Then:
    if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
        membership._until = sent_at + membership.session_s
    return sound_answered(membership, response, sent_at=sent_at)


sound_heard, sound_answered = Driver.heard, Membership.answered


@pytest.mark.parametrize(
    ("where", "sound", "planted"),
    [(Driver, "heard", count_from_the_answer), (Membership, "answered", renew_in_a_rebalance)],
)
def test_a_lease_that_lasts_too_long_is_found(
    where: type, sound: str, planted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, sound, planted)
    assert any(two_leases(seed) for seed in range(10))
