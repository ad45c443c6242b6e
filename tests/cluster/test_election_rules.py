"""The rules of membership without a network: what each answer does to standing and lease (P2)."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from heliograph.cluster.group_membership import Membership, NextStep
from heliograph.cluster.leader_group import LeaderGroup
from heliograph.cluster.standing import Permitted, Seeking, Standby, Standing, Term
from heliograph.model.errors import ProtocolError
from heliograph.wire.error_codes import ErrorCode

SESSION_S = 6


def joined(leader: str = "me", generation: int = 1, member_id: str = "me") -> Any:
    members = [SimpleNamespace(member_id=name, metadata=b"") for name in ("me", "other")]
    return SimpleNamespace(
        error_code=0, generation_id=generation, leader=leader, member_id=member_id, members=members
    )


def active(generation: int = 1, member: str = "me") -> Permitted:
    return Permitted(term=Term(generation=generation, member=member))


def new(host: str = "h", pid: int = 1, config: str = "1") -> Membership:
    return Membership("g", LeaderGroup(host, pid, config))


def synced(assignment: bytes = b"") -> Any:
    return SimpleNamespace(error_code=0, assignment=assignment)


def said(code: int, member_id: str = "me") -> Any:
    return SimpleNamespace(error_code=code, member_id=member_id)


def member(leader: str = "me", at: float = 100.0) -> Membership:
    """Joined and synced at this moment."""
    membership = new()
    assert membership.answered(joined(leader), sent_at=at) is NextStep.GO_ON
    assert membership.answered(synced(), sent_at=at) is NextStep.REST
    return membership


def asks(membership: Membership) -> str:
    return str(membership.next_ask().message.name)


def test_the_lease_counts_from_when_the_answered_request_was_sent() -> None:
    membership = new()
    membership.answered(joined(), sent_at=100)
    membership.answered(synced(), sent_at=103)
    assert membership.lease_until == 103 + SESSION_S
    membership.answered(said(0), sent_at=106)
    assert membership.lease_until == 106 + SESSION_S


def test_a_rebalance_neither_renews_the_lease_nor_ends_the_standing() -> None:
    membership = member(at=100)
    assert membership.answered(said(ErrorCode.REBALANCE_IN_PROGRESS), sent_at=101) is NextStep.GO_ON
    assert asks(membership) == "JoinGroupRequest"
    assert membership.lease_until == 100 + SESSION_S
    assert membership.standing(105.9) == active(1)
    membership.answered(joined(generation=2), sent_at=101)
    membership.answered(synced(), sent_at=104)
    assert membership.standing(104) == active(2)


def test_who_joins_again_after_its_lease_is_active_again_as_the_same_member() -> None:
    membership = member(at=100)
    membership.answered(said(ErrorCode.REBALANCE_IN_PROGRESS), sent_at=101)
    membership.answered(joined(generation=2), sent_at=101)
    assert isinstance(membership.standing(107), Seeking)
    membership.answered(synced(), sent_at=107)
    assert membership.standing(107) == active(2)


def test_without_answers_the_standing_stays_until_the_lease_ends_and_comes_back_with_the_next_one() -> None:
    membership = member(at=100)
    membership.trouble("the coordinator is away")
    assert membership.standing(105.9) == active(1)
    assert membership.standing(106) == Seeking(problem="the coordinator is away")
    membership.answered(said(0), sent_at=110)
    assert membership.standing(110) == active(1)


def test_who_was_out_of_the_group_is_active_again_as_another_member() -> None:
    membership = member(at=100)
    membership.answered(said(ErrorCode.UNKNOWN_MEMBER_ID), sent_at=101)
    membership.answered(said(ErrorCode.MEMBER_ID_REQUIRED, "me again"), sent_at=101)
    membership.answered(joined(leader="me again", member_id="me again"), sent_at=101)
    membership.answered(synced(), sent_at=102)
    assert membership.standing(102) == active(1, "me again")


def test_an_answer_from_before_a_freeze_gives_no_standing() -> None:
    membership = member(at=100)
    membership.answered(said(0), sent_at=101)
    assert isinstance(membership.standing(130), Seeking)


def test_a_standby_that_hears_nothing_seeks() -> None:
    membership = member(leader="other", at=100)
    assert membership.standing(105.9) == Standby(active=None)
    assert isinstance(membership.standing(106), Seeking)


@pytest.mark.parametrize(
    ("code", "keeps_id"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, False),
        (ErrorCode.ILLEGAL_GENERATION, True),
        (ErrorCode.FENCED_INSTANCE_ID, False),
    ],
)
def test_who_is_out_of_the_group_loses_standing_and_lease_at_once(code: int, keeps_id: bool) -> None:
    membership = member(at=100)
    membership.answered(said(code), sent_at=101)
    assert isinstance(membership.standing(101), Seeking)
    assert membership.lease_until == -math.inf
    join = membership.next_ask().message
    assert (join.name, join.member_id) == ("JoinGroupRequest", "me" if keeps_id else "")


def test_an_active_one_that_hears_of_another_leader_loses_its_standing_before_it_syncs() -> None:
    membership = member(at=100)
    membership.answered(said(ErrorCode.REBALANCE_IN_PROGRESS), sent_at=101)
    membership.answered(joined(leader="other", generation=2), sent_at=101)
    assert isinstance(membership.standing(101), Seeking)
    assert membership.lease_until == -math.inf


def test_a_member_id_that_is_given_is_used() -> None:
    membership = new()
    assert membership.answered(said(ErrorCode.MEMBER_ID_REQUIRED, "m7"), sent_at=0) is NextStep.GO_ON
    assert membership.next_ask().message.member_id == "m7"


def test_session_and_rebalance_timeout_are_one_and_grow_when_refused() -> None:
    membership = new()
    refused = said(ErrorCode.INVALID_SESSION_TIMEOUT)
    for session_s, then in ((6, NextStep.GO_ON), (10, NextStep.GO_ON), (30, NextStep.BACK_OFF)):
        join = membership.next_ask().message
        assert join.session_timeout_ms == join.rebalance_timeout_ms == session_s * 1000
        assert membership.answered(refused, sent_at=0) is then
    assert "group.min.session.timeout.ms" in problem_of(membership.standing(0))


def problem_of(standing: Standing) -> str:
    assert isinstance(standing, Seeking)
    return standing.problem or ""


def test_a_missing_right_is_named() -> None:
    membership = new()
    assert membership.answered(said(ErrorCode.GROUP_AUTHORIZATION_FAILED), sent_at=0) is NextStep.BACK_OFF
    assert "grant READ on the group g" in problem_of(membership.standing(0))


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_moved_is_found_again_and_the_standing_stays(code: int) -> None:
    membership = member(at=100)
    assert membership.answered(said(code), sent_at=101) is NextStep.FIND
    assert isinstance(membership.standing(101), Permitted)
    assert asks(membership) == "HeartbeatRequest"


def test_a_coordinator_that_loads_is_asked_the_same_again() -> None:
    membership = new()
    membership.answered(joined(), sent_at=0)
    loading = said(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert membership.answered(loading, sent_at=0) is NextStep.BACK_OFF
    assert asks(membership) == "SyncGroupRequest"


def test_a_sync_that_is_refused_for_good_leads_back_to_a_join() -> None:
    membership = new()
    membership.answered(joined(), sent_at=0)
    membership.answered(said(ErrorCode.UNKNOWN_SERVER_ERROR), sent_at=0)
    assert asks(membership) == "JoinGroupRequest"


def test_leaving_gives_up_standing_and_lease_and_names_the_member() -> None:
    membership = member(at=100)
    goodbye = membership.leave()
    assert goodbye is not None
    assert [m.member_id for m in goodbye.message.members] == ["me"]
    assert membership.standing(100) == Seeking()
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
        new().answered(answer, sent_at=0)
