"""One question about many partitions: each leader is asked about its own, and each partition has its own answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from heliograph.cluster.by_leader import (
    PORTIONS_AT_ONCE,
    Epochs,
    Problem,
    answer_about,
    ask_leaders,
    led_together,
    look_twice,
)
from heliograph.cluster.metadata import ClusterMetadata, Leader
from heliograph.model.errors import (
    BrokerRefused,
    Disconnected,
    HeliographError,
    ProtocolError,
    RequestTimedOut,
)
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

WHERES = [TopicPartition("orders", number) for number in range(12)]


class Client:
    """Broker n leads the partitions whose number is n modulo 3, but for those without a leader."""

    name = "sf"
    metadata = ClusterMetadata(cluster_id="sf-id", controller=1, brokers={})

    def __init__(self, *leaderless: TopicPartition) -> None:
        self.leaderless = set(leaderless)
        self.refreshes = 0

    def leader(self, where: TopicPartition) -> Leader | None:
        return None if where in self.leaderless else Leader(where.partition % 3, where.partition)

    async def refresh(self) -> None:
        self.refreshes += 1
        self.leaderless.clear()


class Brokers:
    """`fails`: what a broker's answers are instead."""

    def __init__(self, fails: Mapping[int, HeliographError] | None = None) -> None:
        self.fails = fails or {}
        self.asked: list[tuple[int, list[TopicPartition]]] = []

    async def ask(self, node: int, epochs: Epochs) -> dict[TopicPartition, int | Problem]:
        self.asked.append((node, list(epochs)))
        if node in self.fails:
            raise self.fails[node]
        return {where: epoch * 10 for where, epoch in epochs.items()}


async def test_each_leader_is_asked_about_its_own_with_their_epochs() -> None:
    client: Any = Client()
    brokers = Brokers()
    found = await ask_leaders(client, WHERES, brokers.ask)
    assert found == {where: where.partition * 10 for where in WHERES}
    assert sorted(brokers.asked) == [(node, WHERES[node::3]) for node in range(3)]


async def test_many_are_asked_in_portions() -> None:
    client: Any = Client()
    brokers = Brokers()
    await ask_leaders(client, WHERES, brokers.ask, most=3)
    assert sorted(len(wheres) for _, wheres in brokers.asked) == [1, 1, 1, 3, 3, 3]


async def test_a_partition_without_a_leader_says_so_and_the_others_are_answered() -> None:
    client: Any = Client(WHERES[4])
    found = await ask_leaders(client, WHERES, Brokers().ask)
    with pytest.raises(BrokerRefused, match="orders:4 of cluster 'sf' has no leader"):
        answer_about(WHERES[4], found)
    assert answer_about(WHERES[5], found) == 50


@pytest.mark.parametrize(
    "problem",
    [Disconnected("gone"), RequestTimedOut("late"), ProtocolError("noise"), BrokerRefused("no", code=35)],
)
async def test_what_a_broker_does_not_answer_is_a_problem_of_its_partitions_alone(
    problem: HeliographError,
) -> None:
    client: Any = Client()
    found = await ask_leaders(client, WHERES, Brokers({1: problem}).ask)
    assert [where for where in WHERES if found[where] is problem] == WHERES[1::3]
    assert found[WHERES[0]] == 0


async def test_a_broker_that_is_away_is_not_asked_for_every_portion() -> None:
    client: Any = Client()
    brokers = Brokers({1: RequestTimedOut("late")})
    found = await ask_leaders(client, WHERES, brokers.ask, most=1)
    assert sum(node == 1 for node, _ in brokers.asked) <= PORTIONS_AT_ONCE
    assert all(found[where] is brokers.fails[1] for where in WHERES[1::3])


async def test_those_of_one_leader_are_together_and_those_without() -> None:
    client: Any = Client(WHERES[4])
    groups = led_together(client, WHERES)
    assert sorted(map(len, groups)) == [1, 3, 4, 4]
    assert [WHERES[4]] in groups


class Looks:
    """What each look sees of some partitions; all else is well."""

    def __init__(self, *problems: Mapping[TopicPartition, Problem]) -> None:
        self.problems = list(problems)
        self.looked: list[list[TopicPartition]] = []

    async def look(self, wheres: Collection[TopicPartition]) -> dict[TopicPartition, str | Problem]:
        self.looked.append(list(wheres))
        seen: Mapping[TopicPartition, Problem] = self.problems.pop(0) if self.problems else {}
        return {where: seen.get(where, "well") for where in wheres}


MOVED = BrokerRefused("moved", code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
DENIED = BrokerRefused("denied", code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)


async def test_what_may_pass_is_looked_at_once_more_after_metadata_was_read() -> None:
    client: Any = Client()
    looks = Looks({WHERES[0]: MOVED, WHERES[1]: DENIED, WHERES[2]: Disconnected("gone")})
    found = await look_twice(client, WHERES, looks.look)
    assert looks.looked == [WHERES, [WHERES[0], WHERES[2]]]
    assert client.refreshes == 1
    assert {where for where, each in found.items() if each != "well"} == {WHERES[1]}


@pytest.mark.parametrize("problem", [DENIED, RequestTimedOut("late"), ProtocolError("noise")])
async def test_what_does_not_pass_costs_no_further_question(problem: Problem) -> None:
    client: Any = Client()
    looks = Looks({WHERES[0]: problem})
    assert (await look_twice(client, WHERES, looks.look))[WHERES[0]] is problem
    assert (len(looks.looked), client.refreshes) == (1, 0)


async def test_what_has_not_passed_by_then_is_told() -> None:
    client: Any = Client()
    looks = Looks({WHERES[0]: MOVED}, {WHERES[0]: MOVED})
    assert (await look_twice(client, WHERES, looks.look))[WHERES[0]] is MOVED
