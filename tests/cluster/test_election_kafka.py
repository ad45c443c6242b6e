"""The group of claims on real brokers: one holder of a topic, named by the others, followed when it is gone (P2)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path

import pytest

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.election import Election
from heliograph.cluster.properties import parse_properties
from heliograph.cluster.standing import Placed, Seeking, Standing
from heliograph.lab.cluster import LabCluster
from heliograph.model.clock import clock_of_suspended_time

from .held_topics import TOPIC, claiming, holder_of, holds, stands_by

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[2]
SESSION_S = 6.0


class Party:
    """Members of one group in this process. Every few milliseconds it looks whether two of them hold one topic."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.group = f"heliograph-{uuid.uuid4().hex[:8]}"
        self.standings: dict[str, list[Standing]] = {}
        self.members: dict[str, Election] = {}
        self.overlaps: list[tuple[str, ...]] = []
        self._clients: list[ClusterClient] = []

    async def join(self, name: str, topics: Iterable[str] = (TOPIC,), link: str = "link") -> Election:
        client = ClusterClient("target", parse_properties({"bootstrap.servers": self.bootstrap}))
        await client.connect()
        self._clients.append(client)
        seen = self.standings[name] = []
        said = claiming(name, 7, topics, link)
        election = Election(client, self.group, said, on_change=seen.append)
        self.members[name] = election
        election.start()
        return election

    async def sample(self) -> None:
        while True:
            for topic in (TOPIC, "a", "b", "c"):
                holding = tuple(name for name, member in self.members.items() if holds(member, topic))
                if len(holding) > 1:
                    self.overlaps.append((topic, *holding))
            await asyncio.sleep(0.002)

    async def aclose(self) -> None:
        for member in self.members.values():
            await member.aclose()
        for client in self._clients:
            await client.aclose()


@contextlib.asynccontextmanager
async def party(bootstrap: str) -> AsyncIterator[Party]:
    together = Party(bootstrap)
    sampling = asyncio.create_task(together.sample())
    try:
        yield together
        assert together.overlaps == []
    finally:
        sampling.cancel()
        await together.aclose()


async def until(true: Callable[[], bool], within_s: float) -> float:
    """How long it took."""
    began = clock_of_suspended_time()
    while not true():
        assert clock_of_suspended_time() - began < within_s, f"not within {within_s} s"
        await asyncio.sleep(0.01)
    return clock_of_suspended_time() - began


def generation_of(member: Election) -> int:
    assert isinstance(member.standing, Placed)
    return member.standing.term.generation


def name_of(member: Election) -> str:
    assert isinstance(member.standing, Placed)
    return member.standing.term.member


async def test_the_first_holds_the_topic_and_the_second_names_it(target_cluster: LabCluster) -> None:
    async with party(target_cluster.bootstrap_servers) as together:
        first = await together.join("one", link="its-link")
        await until(lambda: holds(first), 10)
        assert generation_of(first) == 1
        second = await together.join("two")
        await until(lambda: str(holder_of(second)) == "one (pid 7), link its-link", 10)
        assert not holds(second)


async def test_claims_that_are_disjoint_are_held_side_by_side_and_others_by_the_first(
    target_cluster: LabCluster,
) -> None:
    async with party(target_cluster.bootstrap_servers) as together:
        first = await together.join("one", ["a"])
        await until(lambda: holds(first, "a"), 10)
        second = await together.join("two", ["[bc]"])
        await until(lambda: holds(second, "b") and holds(second, "c"), 10)
        third = await together.join("three", ["[abc]"])
        await until(lambda: isinstance(third.standing, Placed), 10)
        assert [str(holder_of(third, topic)) for topic in "abc"] == [
            f"{host} (pid 7), link link" for host in ("one", "two", "two")
        ]
        assert holds(first, "a")
        await second.aclose()
        await until(lambda: holds(third, "b") and holds(third, "c"), 10)
        assert holds(first, "a")
        assert not holds(third, "a")


async def test_a_holder_keeps_its_topic_while_others_join_and_leave(target_cluster: LabCluster) -> None:
    async with party(target_cluster.bootstrap_servers) as together:
        first = await together.join("one")
        await until(lambda: holds(first), 10)
        begun = generation_of(first)
        for name in ("two", "three"):
            other = await together.join(name)
            await until(partial(stands_by, other), 10)
        await together.members["two"].aclose()
        await until(lambda: generation_of(first) >= begun + 3, 10)
        standings = together.standings["one"]
        placed = [standing for standing in standings if isinstance(standing, Placed)]
        assert placed == standings
        assert [standing.term.generation for standing in placed] == [1, 2, 3, 4]
        assert {standing.claims.claimants[0] for standing in placed} == {placed[0].claims.claimants[0]}


async def test_the_next_one_takes_over_at_once_when_the_holder_leaves(target_cluster: LabCluster) -> None:
    async with party(target_cluster.bootstrap_servers) as together:
        first = await together.join("one")
        await until(lambda: holds(first), 10)
        second = await together.join("two")
        await until(lambda: stands_by(second), 10)
        before, left = generation_of(first), name_of(first)
        await first.aclose()
        assert first.standing == Seeking()
        assert first.lease_until < 0
        assert await until(lambda: holds(second), 10) < 2.5
        assert generation_of(second) > before
        assert name_of(second) != left


async def test_the_next_one_takes_over_when_the_holder_falls_silent(target_cluster: LabCluster) -> None:
    async with party(target_cluster.bootstrap_servers) as together:
        first = await together.join("one")
        await until(lambda: holds(first), 10)
        second = await together.join("two")
        await until(lambda: stands_by(second), 10)
        lease_until = first.lease_until
        await first.aclose(leave=False)
        assert await until(lambda: holds(second), 12) > 3
        assert clock_of_suspended_time() > lease_until


async def test_elections_of_two_groups_on_one_client_do_not_wait_for_each_other(
    target_cluster: LabCluster,
) -> None:
    async with party(target_cluster.bootstrap_servers) as together:
        first = await together.join("one")
        await until(lambda: holds(first), 10)
        client = first._client
        other = Election(client, f"{together.group}-b", claiming("one", 7), on_change=lambda _standing: None)
        other.start()
        assert await until(lambda: holds(other), 5) < 2
        await other.aclose()
        assert holds(first)


def settled(*members: Election) -> bool:
    """One holds the topic, the others stand by."""
    return [holds(member) for member in members].count(True) == 1 and all(
        isinstance(member.standing, Placed) for member in members
    )


def moved(node: int, *members: Election) -> bool:
    return settled(*members) and all(member._coordinator not in (node, None) for member in members)


# -- members in processes of their own, killed and frozen


class Process:
    """`lines`: what it said, see election_member.py."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[tuple[float, str, int, float]] = []
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            self.lines.append(tuple(json.loads(line)))

    @property
    def standing(self) -> str:
        return self.lines[-1][1] if self.lines else ""

    def leases(self) -> list[tuple[float, float]]:
        """When it held a lease: from when it said so to when that ends, or to when it said that it has none."""
        held = []
        for nth, (moment, standing, _, lease_until) in enumerate(self.lines):
            if standing == "Active":
                later = [line[0] for line in self.lines[nth + 1 :] if line[1] != "Active"]
                held.append((moment, min([lease_until, *later])))
        return held

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    async def end(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await self.reading


@contextlib.asynccontextmanager
async def processes(cluster: LabCluster) -> AsyncIterator[Callable[[str], Awaitable[Process]]]:
    group = f"heliograph-{uuid.uuid4().hex[:8]}"
    started: list[Process] = []

    async def start(name: str) -> Process:
        command = (
            sys.executable,
            "-m",
            "tests.cluster.election_member",
            cluster.bootstrap_servers,
            group,
            name,
        )
        child = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, cwd=ROOT)
        started.append(Process(child))
        return started[-1]

    try:
        yield start
    finally:
        for process in started:
            await process.end()


def assert_no_overlap(one: Process, other: Process) -> None:
    assert one.leases()
    assert other.leases()
    for begin, end in one.leases():
        assert not [(b, e) for b, e in other.leases() if b < end and begin < e]


@pytest.mark.faults
async def test_a_standby_takes_over_within_12_seconds_of_a_kill(target_cluster: LabCluster) -> None:
    async with processes(target_cluster) as start:
        first = await start("one")
        await until(lambda: first.standing == "Active", 15)
        second = await start("two")
        await until(lambda: second.standing == "Standby", 15)
        first.signal(signal.SIGKILL)
        await until(lambda: second.standing == "Active", 12)
        assert_no_overlap(first, second)
        assert second.lines[-1][2] > first.lines[-1][2]


@pytest.mark.faults
async def test_a_frozen_member_wakes_as_no_longer_active_and_then_stands_by(
    target_cluster: LabCluster,
) -> None:
    async with processes(target_cluster) as start:
        first = await start("one")
        await until(lambda: first.standing == "Active", 15)
        second = await start("two")
        await until(lambda: second.standing == "Standby", 15)
        first.signal(signal.SIGSTOP)
        await until(lambda: second.standing == "Active", 12)
        await asyncio.sleep(1)
        said = len(first.lines)
        first.signal(signal.SIGCONT)
        await until(lambda: first.standing == "Standby", 10)
        woken = [line[1] for line in first.lines[said:]]
        assert woken[0] == "Seeking"
        assert "Active" not in woken
        await asyncio.sleep(2)
        assert second.standing == "Active"
        assert_no_overlap(first, second)


@pytest.mark.faults
async def test_the_active_one_is_active_again_after_its_coordinator_restarts() -> None:
    with LabCluster.start(name="election") as cluster:
        async with party(cluster.bootstrap_servers) as together:
            first = await together.join("one")
            await until(lambda: holds(first), 15)
            second = await together.join("two")
            await until(lambda: stands_by(second), 15)
            await asyncio.to_thread(cluster.brokers[0].kill)
            assert holds(first)
            await until(lambda: isinstance(first.standing, Seeking), SESSION_S + 1)
            assert isinstance(first.standing, Seeking)
            assert first.standing.problem
            await asyncio.to_thread(cluster.brokers[0].start)
            await until(lambda: holds(first) != holds(second), 40)
            active, other = (first, second) if holds(first) else (second, first)
            await until(lambda: stands_by(other), 20)
            assert holds(active)


@pytest.mark.faults
@pytest.mark.slow
async def test_the_group_moves_to_another_broker_when_its_coordinator_dies_or_hangs() -> None:
    with LabCluster.start(name="election", brokers=3) as cluster:
        async with party(cluster.bootstrap_servers) as together:
            first = await together.join("one")
            second = await together.join("two")
            await until(lambda: settled(first, second), 30)
            for fault in ("kill", "freeze"):
                broker = next(b for b in cluster.brokers if b.node_id == first._coordinator)
                await asyncio.to_thread(getattr(broker, fault))
                await asyncio.sleep(1)
                await until(partial(moved, broker.node_id, first, second), 40)
                await asyncio.to_thread(broker.thaw if fault == "freeze" else broker.start)
                await until(lambda: settled(first, second), 30)
