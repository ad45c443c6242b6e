"""Cells on a real coordinator: durable, and refused to everybody but a member of the current generation (P2)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from heliograph.cluster import fenced_cells
from heliograph.cluster.election import Election
from heliograph.cluster.fenced_cells import Cell, commit_cells
from heliograph.cluster.group_requests import Ask
from heliograph.cluster.standing import Placed, Term
from heliograph.lab.cluster import LabCluster
from heliograph.model.errors import BrokerRefused
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode
from tests.support.topics import create_topic, delete_topic

from .held_topics import holds, stands_by
from .test_election_kafka import Party, party, until

pytestmark = pytest.mark.kafka

PARTITIONS = 12
TIMEOUT_S = 10.0


@pytest.fixture(scope="module")
def where(target_cluster: LabCluster) -> TopicPartition:
    topic = f"cells-{uuid.uuid4().hex[:8]}"
    create_topic(target_cluster.bootstrap_servers, topic, PARTITIONS)
    return TopicPartition(topic, 3)


def term_of(member: Election) -> Term:
    assert isinstance(member.standing, Placed)
    return member.standing.term


async def commit_as(asker: Election, group: str, term: Term, cells: dict[TopicPartition, Cell]) -> None:
    """With a term of anybody's, over the connection of `asker`."""

    async def asking(ask: Ask) -> Any:
        return await asker._ask_apart(ask)

    await commit_cells(asking, group, term.member, term.generation, cells, timeout_s=TIMEOUT_S)


async def refused_code(asker: Election, together: Party, term: Term, where: TopicPartition) -> int:
    with pytest.raises(BrokerRefused) as refused:
        await commit_as(asker, together.group, term, {where: Cell(number=99, text="late")})
    return refused.value.code


async def test_cells_are_kept_over_a_leave_and_read_by_the_next_member(
    target_cluster: LabCluster, where: TopicPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 3 KB of text, and more of them than go in one request."""
    monkeypatch.setattr(fenced_cells, "COMMITTED_AT_ONCE", 5)
    cells = {TopicPartition(where.topic, n): Cell(number=n, text=f"cell {n}") for n in range(PARTITIONS)}
    cells[where] = Cell(number=2**40, text="ä€x" * 512)
    async with party(target_cluster.bootstrap_servers) as together:
        first = await together.join("one")
        await until(lambda: holds(first), 10)
        assert await first.cells() == {}
        await first.commit(cells)
        assert await first.cells() == cells
        await first.aclose()
        second = await together.join("two")
        await until(lambda: holds(second), 10)
        assert await second.cells() == cells
        await second.commit({where: Cell(number=7, text="")})
        assert await second.cells() == cells | {where: Cell(number=7, text="")}


async def test_a_member_of_an_older_generation_changes_no_cell(
    target_cluster: LabCluster, where: TopicPartition
) -> None:
    async with party(target_cluster.bootstrap_servers) as together:
        first = await together.join("one")
        await until(lambda: holds(first), 10)
        before = term_of(first)
        await first.commit({where: Cell(number=1, text="one")})
        second = await together.join("two")
        await until(lambda: stands_by(second) and term_of(first).generation > before.generation, 10)
        assert await refused_code(first, together, before, where) == ErrorCode.ILLEGAL_GENERATION
        await first.commit({where: Cell(number=2, text="two")})  # under its new one
        await first.aclose()
        await until(lambda: holds(second), 10)
        assert await refused_code(second, together, before, where) == ErrorCode.UNKNOWN_MEMBER_ID
        await second.commit({where: Cell(number=3, text="three")})
        assert await second.cells() == {where: Cell(number=3, text="three")}
        assert holds(second)


async def test_who_is_no_member_changes_no_cell_while_there_are_members(
    target_cluster: LabCluster, where: TopicPartition
) -> None:
    async with party(target_cluster.bootstrap_servers) as together:
        first = await together.join("one")
        await until(lambda: holds(first), 10)
        await first.commit({where: Cell(number=1, text="one")})
        nobody = Term(generation=-1, member="")
        assert await refused_code(first, together, nobody, where) == ErrorCode.UNKNOWN_MEMBER_ID
        invented = Term(generation=term_of(first).generation, member="somebody")
        assert await refused_code(first, together, invented, where) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await first.cells() == {where: Cell(number=1, text="one")}
        assert holds(first)


async def test_the_largest_text_is_kept(target_cluster: LabCluster, where: TopicPartition) -> None:
    async with party(target_cluster.bootstrap_servers) as together:
        first = await together.join("one")
        await until(lambda: holds(first), 10)
        cell = Cell(number=1, text="x" * 4096)
        await first.commit({where: cell})
        assert await first.cells() == {where: cell}


async def test_a_cell_is_a_partitions_that_is_there_and_goes_with_its_topic(
    target_cluster: LabCluster, where: TopicPartition, unique_topic: Callable[[str], str]
) -> None:
    bootstrap, topic = target_cluster.bootstrap_servers, unique_topic("short-lived")
    short_lived, cell = TopicPartition(topic, 0), Cell(number=1, text="one")
    await asyncio.to_thread(create_topic, bootstrap, topic)
    async with party(bootstrap) as together:
        first = await together.join("one")
        await until(lambda: holds(first), 10)
        for missing in (TopicPartition(unique_topic("not-there"), 0), TopicPartition(topic, 1)):
            with pytest.raises(BrokerRefused, match=str(missing)) as refused:
                await first.commit({missing: cell, where: cell})
            assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert await first.cells() == {where: cell}  # the others of the request are committed
        await first.commit({short_lived: cell})
        assert await first.cells() == {where: cell, short_lived: cell}
        await asyncio.to_thread(delete_topic, bootstrap, topic)
        async with asyncio.timeout(20):
            while True:
                if await first.cells() == {where: cell}:
                    break
                await asyncio.sleep(0.1)
