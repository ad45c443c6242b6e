"""The election's task against coordinators that misbehave: real sockets, no Kafka. It never ends and never lies."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from kafka.protocol.consumer import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.election import Election
from heliograph.cluster.leader_group import LeaderGroup
from heliograph.cluster.standing import Permitted, Seeking, Standing, Term
from heliograph.model.clock import clock_of_suspended_time
from heliograph.wire.error_codes import ErrorCode

from .peers import answer, peer, properties_for, read_request
from .test_client import api_versions, metadata

API_VERSIONS, METADATA = 18, 3
# The last versions that are not flexible: their headers are the simple ones that peers.py reads.
VERSIONS: dict[Any, int] = {
    FindCoordinatorRequest: 1,
    JoinGroupRequest: 5,
    SyncGroupRequest: 3,
    HeartbeatRequest: 3,
    LeaveGroupRequest: 2,
    OffsetCommitRequest: 7,
    OffsetFetchRequest: 5,
}
BY_KEY = {request.API_KEY: request for request in VERSIONS}


class Coordinator:
    """A group of one. `codes` refuses the next requests of a kind; a kind in `mute` is not answered."""

    def __init__(self) -> None:
        self.port = 0
        self.asked: list[str] = []
        self.codes: dict[str, list[int]] = {}
        self.mute: set[str] = set()
        self.hang_up: set[str] = set()
        self.generation = 1
        self.terms: list[tuple[str, int]] = []  # of commits

    async def behave(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            api_key, version, correlation_id, body = await read_request(reader)
            if api_key == API_VERSIONS:
                offered = [(key, 0, VERSIONS[kind]) for key, kind in BY_KEY.items()]
                said = api_versions(offered=[(3, 0, 7), (18, 0, 0), *offered])
            elif api_key == METADATA:
                said = metadata({1: self.port}, {})
            else:
                request = BY_KEY[api_key].decode(memoryview(body), version=version)
                self.asked.append(request.name)
                if request.name in self.hang_up:
                    return
                if request.name in self.mute:
                    continue
                said = bytes(self._respond(request).encode(version=version))
            writer.write(answer(correlation_id, said))

    def _respond(self, request: Any) -> Any:
        codes = self.codes.get(request.name, [])
        code = codes.pop(0) if codes else 0
        common = {"throttle_time_ms": 0, "error_code": code}
        if isinstance(request, FindCoordinatorRequest):
            return FindCoordinatorResponse(
                **common, error_message=None, node_id=1, host="127.0.0.1", port=self.port
            )
        if isinstance(request, JoinGroupRequest):
            return self._joined(request, common)
        if isinstance(request, SyncGroupRequest):
            return SyncGroupResponse(**common, assignment=b"{}")
        if isinstance(request, OffsetCommitRequest):
            return self._committed(request, code)
        if isinstance(request, OffsetFetchRequest):
            return OffsetFetchResponse(**common, topics=[])
        return (LeaveGroupResponse if isinstance(request, LeaveGroupRequest) else HeartbeatResponse)(**common)

    def _committed(self, request: Any, code: int) -> Any:
        self.terms.append((request.member_id, request.generation_id_or_member_epoch))
        topic = OffsetCommitResponse.OffsetCommitResponseTopic
        partition = topic.OffsetCommitResponsePartition
        return OffsetCommitResponse(
            throttle_time_ms=0,
            topics=[
                topic(
                    name=each.name,
                    partitions=[
                        partition(partition_index=one.partition_index, error_code=code)
                        for one in each.partitions
                    ],
                )
                for each in request.topics
            ],
        )

    def _joined(self, request: Any, common: dict[str, int]) -> Any:
        if not request.member_id and not common["error_code"]:
            common["error_code"] = ErrorCode.MEMBER_ID_REQUIRED
        one = JoinGroupResponse.JoinGroupResponseMember(member_id="m1", group_instance_id=None, metadata=b"")
        return JoinGroupResponse(
            **common,
            generation_id=self.generation,
            protocol_name="heliograph/1",
            leader="m1",
            member_id="m1",
            members=[one],
        )


async def until(true: Callable[[], bool], within_s: float = 8.0) -> None:
    deadline = clock_of_suspended_time() + within_s
    while not true():
        assert clock_of_suspended_time() < deadline, f"not within {within_s} s"
        await asyncio.sleep(0.01)


class Stage:
    """A coordinator and one election on it, whose clock can be moved on."""

    def __init__(self, coordinator: Coordinator, client: ClusterClient) -> None:
        self.coordinator = coordinator
        self.standings: list[Standing] = []
        self.listener: Callable[[Standing], None] = self.standings.append
        self.ahead_s = 0.0
        self.bugs: list[dict[str, Any]] = []
        self.election = Election(
            client,
            "g",
            LeaderGroup("h", 1, "config"),
            on_change=lambda standing: self.listener(standing),
            clock=lambda: clock_of_suspended_time() + self.ahead_s,
        )

    @property
    def active(self) -> bool:
        return isinstance(self.election.standing, Permitted)

    @property
    def problem(self) -> str:
        standing = self.election.standing
        return (standing.problem or "") if isinstance(standing, Seeking) else ""


@contextlib.asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    coordinator = Coordinator()
    async with peer(coordinator.behave) as port:
        coordinator.port = port
        client = ClusterClient("nyc", properties_for(port))
        await client.connect()
        play = Stage(coordinator, client)
        asyncio.get_running_loop().set_exception_handler(lambda _, context: play.bugs.append(context))
        play.election.start()
        try:
            yield play
        finally:
            await play.election.aclose()
            await client.aclose()


async def test_a_member_leaves_when_it_is_closed_and_its_listener_hears_of_it_first() -> None:
    async with stage() as play:
        await until(lambda: play.active)
        asked_when_told: list[str] = []
        play.listener = lambda _standing: asked_when_told.extend(play.coordinator.asked)
        await play.election.aclose()
        assert play.election.standing == Seeking()
        assert "LeaveGroupRequest" not in asked_when_told
        assert play.coordinator.asked[-1] == "LeaveGroupRequest"


async def test_who_waits_for_its_join_can_leave_all_the_same() -> None:
    async with stage() as play:
        await until(lambda: play.active)
        play.coordinator.mute = {"JoinGroupRequest"}
        play.coordinator.codes = {"HeartbeatRequest": [ErrorCode.REBALANCE_IN_PROGRESS]}
        await until(lambda: play.coordinator.asked[-1] == "JoinGroupRequest")
        async with asyncio.timeout(1):
            await play.election.aclose()
        assert play.coordinator.asked[-1] == "LeaveGroupRequest"


async def test_a_closed_line_is_opened_again_and_the_standing_stays() -> None:
    async with stage() as play:
        await until(lambda: play.active)
        play.coordinator.hang_up = {"HeartbeatRequest"}
        beats = len(play.coordinator.asked)
        await until(lambda: play.coordinator.asked[beats:].count("HeartbeatRequest") >= 2)
        play.coordinator.hang_up = set()
        before = play.election.lease_until
        await until(lambda: play.election.lease_until > before)
        assert [type(standing) for standing in play.standings] == [Permitted]


async def test_a_coordinator_that_falls_silent_costs_the_standing_when_the_lease_ends_and_no_earlier() -> (
    None
):
    async with stage() as play:
        await until(lambda: play.active)
        play.coordinator.mute = {"HeartbeatRequest"}
        await asyncio.sleep(2.5)
        assert play.active
        lease_until = play.election.lease_until
        await until(lambda: not play.active)
        assert clock_of_suspended_time() - lease_until < 0.5
        await until(lambda: isinstance(play.standings[-1], Seeking))
        assert "HeartbeatRequest" in play.problem
        play.coordinator.mute = set()
        await until(lambda: play.active)


async def test_a_machine_that_slept_knows_at_once_that_its_lease_is_over() -> None:
    async with stage() as play:
        await until(lambda: play.active)
        play.ahead_s = 3600
        assert not play.active
        await until(lambda: play.active)  # nobody else was there: the next heartbeat is answered
        assert [type(standing) for standing in play.standings] == [Permitted, Seeking, Permitted]


async def test_nobody_hears_of_a_lease_before_the_listener_has_heard_of_the_term() -> None:
    """Other threads ask for it at any time; what was of the term before must have ended by then."""

    async with stage() as play:
        election, tell = play.election, play.election._tell
        for term in (1, 5):
            election._tell = lambda: None  # type: ignore[method-assign]
            play.coordinator.generation = term
            play.coordinator.codes = {"HeartbeatRequest": [ErrorCode.REBALANCE_IN_PROGRESS]}
            now_active = Permitted(term=Term(generation=term, member="m1"))
            await until(lambda now_active=now_active: election.standing == now_active)  # type: ignore[misc]
            assert now_active not in play.standings
            assert election.lease_until == -math.inf
            tell()
            assert play.standings[-1] == now_active
            assert election.lease_until > clock_of_suspended_time()


async def test_who_is_thrown_out_joins_again_by_itself() -> None:
    async with stage() as play:
        await until(lambda: play.active)
        play.coordinator.codes = {"HeartbeatRequest": [ErrorCode.UNKNOWN_MEMBER_ID]}
        await until(lambda: len(play.standings) >= 3)
        assert [type(standing) for standing in play.standings[:3]] == [Permitted, Seeking, Permitted]


async def test_a_coordinator_that_moves_and_loads_is_followed() -> None:
    async with stage() as play:
        await until(lambda: play.active)
        moves = [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        play.coordinator.codes = {
            "HeartbeatRequest": list(moves),
            "FindCoordinatorRequest": [ErrorCode.COORDINATOR_NOT_AVAILABLE],
        }
        await until(lambda: not any(play.coordinator.codes.values()))
        before = play.election.lease_until
        await until(lambda: play.election.lease_until > before)
        assert [type(standing) for standing in play.standings] == [Permitted]


@pytest.mark.parametrize("kind", ["FindCoordinatorRequest", "JoinGroupRequest"])
async def test_a_right_that_is_missing_is_named_whichever_request_is_refused(kind: str) -> None:
    async with stage() as play:
        play.coordinator.codes = {kind: [ErrorCode.GROUP_AUTHORIZATION_FAILED] * 3}
        await until(lambda: bool(play.problem))
        assert "grant READ on the group g" in play.problem
        await until(lambda: play.active)


async def test_a_bug_is_reported_and_does_not_end_the_election() -> None:
    async with stage() as play:
        await until(lambda: play.active)
        sound = play.election._membership.next_ask

        def broken() -> Any:
            play.election._membership.next_ask = sound  # type: ignore[method-assign]
            raise LookupError("a bug")

        play.election._membership.next_ask = broken  # type: ignore[method-assign]
        await until(lambda: bool(play.bugs))
        before = play.election.lease_until
        await until(lambda: play.election.lease_until > before)
        assert isinstance(play.bugs[0]["exception"], LookupError)


async def test_a_listener_that_fails_is_reported_and_does_not_end_the_election() -> None:
    async with stage() as play:

        def fail(_standing: Standing) -> None:
            raise LookupError("a listener's bug")

        play.listener = fail
        await until(lambda: play.active)
        before = play.election.lease_until
        await until(lambda: play.election.lease_until > before)
        assert isinstance(play.bugs[0]["exception"], LookupError)


async def test_a_cluster_that_comes_later_is_found() -> None:
    coordinator = Coordinator()
    async with peer(coordinator.behave) as port:
        coordinator.port = port
        client = ClusterClient("nyc", properties_for(port))  # never connected: it knows no broker
        election = Election(client, "g", LeaderGroup("h", 1, "config"), on_change=lambda _standing: None)
        election.start()
        await until(lambda: isinstance(election.standing, Permitted))
        await election.aclose()
        await client.aclose()
