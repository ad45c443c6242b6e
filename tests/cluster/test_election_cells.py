"""What a member writes down: under its term, beside its membership, which goes on whatever comes of it."""

from __future__ import annotations

import asyncio

import pytest

from heliograph.cluster import election as election_module
from heliograph.cluster.fenced_cells import Cell
from heliograph.model.errors import BrokerRefused, Disconnected, RequestTimedOut
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

from .test_election import stage, until

CELLS = {TopicPartition("orders", 0): Cell(number=5, text="five")}


async def test_a_commit_carries_the_term_of_the_standing() -> None:
    async with stage() as play:
        await until(lambda: play.active)
        await play.election.commit(CELLS)
        assert await play.election.cells() == {}
        assert play.coordinator.terms == [("m1", 1)]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    ],
)
async def test_a_refused_commit_does_not_disturb_the_membership(code: ErrorCode) -> None:
    async with stage() as play:
        await until(lambda: play.active)
        before = list(play.standings)
        play.coordinator.codes["OffsetCommitRequest"] = [code]
        with pytest.raises(BrokerRefused) as refused:
            await play.election.commit(CELLS)
        assert refused.value.code == code
        await play.election.commit(CELLS)
        beats = play.coordinator.asked.count("HeartbeatRequest")
        await until(lambda: play.coordinator.asked.count("HeartbeatRequest") > beats)
        assert play.standings == before
        assert play.coordinator.asked.count("JoinGroupRequest") == 2  # the second with the id that was given


async def test_who_has_no_term_is_refused_unasked() -> None:
    async with stage() as play:
        play.coordinator.mute = {"JoinGroupRequest"}
        await play.election.aclose()
        with pytest.raises(BrokerRefused) as refused:
            await play.election.commit(CELLS)
        assert refused.value.code == ErrorCode.UNKNOWN_MEMBER_ID
        assert "OffsetCommitRequest" not in play.coordinator.asked


async def test_cells_do_not_wait_behind_a_join() -> None:
    async with stage() as play:
        await until(lambda: play.active)
        play.coordinator.mute = {"JoinGroupRequest"}
        play.coordinator.codes["HeartbeatRequest"] = [ErrorCode.REBALANCE_IN_PROGRESS]
        joins = play.coordinator.asked.count("JoinGroupRequest")
        await until(lambda: play.coordinator.asked.count("JoinGroupRequest") > joins)
        async with asyncio.timeout(1):
            assert await play.election.cells() == {}
            await play.election.commit(CELLS)
        assert play.active


async def test_a_coordinator_that_ends_the_connection_leaves_the_outcome_unknown() -> None:
    async with stage() as play:
        await until(lambda: play.active)
        play.coordinator.hang_up = {"OffsetCommitRequest"}
        with pytest.raises(Disconnected):
            await play.election.commit(CELLS)
        assert play.active


async def test_a_coordinator_that_is_silent_is_a_timeout_and_no_end_of_the_standing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(election_module, "CELLS_ANSWER_S", 0.2)
    async with stage() as play:
        await until(lambda: play.active)
        play.coordinator.mute = {"OffsetCommitRequest", "OffsetFetchRequest"}
        with pytest.raises(RequestTimedOut):
            await play.election.commit(CELLS)
        with pytest.raises(RequestTimedOut):
            await play.election.cells()
        assert play.active


async def test_cells_are_found_while_the_membership_looks_for_its_coordinator() -> None:
    async with stage() as play:
        await until(lambda: play.active)
        play.election._coordinator = None
        assert await play.election.cells() == {}
        assert play.active
