"""Cells: what is asked of the coordinator, and which answers are refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka.protocol.consumer import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

from heliograph.cluster.fenced_cells import COMMITTED_AT_ONCE, Cell, commit_cells, read_cells
from heliograph.cluster.group_requests import Ask
from heliograph.model.errors import BrokerRefused, ProtocolError
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

COMMIT_VERSION, FETCH_VERSION = 8, 7
A, B, C = (TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("payments", 0))


class Coordinator:
    """Holds cells. `code` refuses all that is asked, those of `codes` single partitions. All passes through bytes."""

    def __init__(self) -> None:
        self.cells: dict[TopicPartition, Cell] = {}
        self.asked: list[Any] = []
        self.code = 0
        self.codes: dict[TopicPartition, int] = {}

    async def ask(self, ask: Ask) -> Any:
        assert ask.timeout_s == 3.0
        commits = isinstance(ask.message, OffsetCommitRequest)
        version = COMMIT_VERSION if commits else FETCH_VERSION
        encoded = memoryview(bytes(ask.message.encode(version=version)))
        request = type(ask.message).decode(encoded, version=version)
        self.asked.append(request)
        response = self._committed(request) if commits else self._fetched(request)
        return ask.response_class.decode(memoryview(bytes(response.encode(version=version))), version=version)

    def _committed(self, request: Any) -> Any:
        topic = OffsetCommitResponse.OffsetCommitResponseTopic
        partition = topic.OffsetCommitResponsePartition
        answered = []
        for asked in request.topics:
            partitions = []
            for each in asked.partitions:
                where = TopicPartition(asked.name, each.partition_index)
                code = self.code or self.codes.get(where, 0)
                if not code:
                    self.cells[where] = Cell(number=each.committed_offset, text=each.committed_metadata)
                partitions.append(partition(partition_index=where.partition, error_code=code))
            answered.append(topic(name=asked.name, partitions=partitions))
        return OffsetCommitResponse(throttle_time_ms=0, topics=answered)

    def _fetched(self, request: Any) -> Any:
        assert isinstance(request, OffsetFetchRequest)
        assert request.topics is None
        topic = OffsetFetchResponse.OffsetFetchResponseTopic
        partition = topic.OffsetFetchResponsePartition
        topics = [
            topic(
                name=where.topic,
                partitions=[
                    partition(
                        partition_index=where.partition,
                        committed_offset=cell.number,
                        committed_leader_epoch=-1,
                        metadata=cell.text or None,
                        error_code=self.codes.get(where, 0),
                    )
                ],
            )
            for where, cell in self.cells.items()
        ]
        return OffsetFetchResponse(throttle_time_ms=0, topics=topics, error_code=self.code)


async def commit(coordinator: Coordinator, cells: dict[TopicPartition, Cell]) -> None:
    await commit_cells(coordinator.ask, "g", "m1", 4, cells, timeout_s=3.0)


async def read(coordinator: Coordinator) -> dict[TopicPartition, Cell]:
    return await read_cells(coordinator.ask, "g", timeout_s=3.0)


async def test_cells_are_committed_by_a_member_of_a_generation_and_read_by_anybody() -> None:
    coordinator = Coordinator()
    cells = {A: Cell(number=5, text="five"), C: Cell(number=0, text=""), B: Cell(number=2**62, text="größe")}
    await commit(coordinator, cells)
    (request,) = coordinator.asked
    assert (request.group_id, request.member_id, request.generation_id_or_member_epoch) == ("g", "m1", 4)
    assert request.group_instance_id is None
    assert {topic.name: len(topic.partitions) for topic in request.topics} == {"orders": 2, "payments": 1}
    assert await read(coordinator) == cells


async def test_many_cells_go_in_portions() -> None:
    coordinator = Coordinator()
    cells = {TopicPartition(f"t{n % 7}", n): Cell(number=n, text=str(n)) for n in range(2500)}
    await commit(coordinator, cells)
    sizes = [sum(len(topic.partitions) for topic in request.topics) for request in coordinator.asked]
    assert sizes == [COMMITTED_AT_ONCE, COMMITTED_AT_ONCE, 500]
    assert await read(coordinator) == cells


async def test_no_cells_are_no_question() -> None:
    coordinator = Coordinator()
    await commit(coordinator, {})
    assert coordinator.asked == []


@pytest.mark.parametrize(
    "code",
    [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS, 9999],
)
async def test_a_member_that_is_fenced_is_told_the_coordinators_code(code: int) -> None:
    coordinator = Coordinator()
    coordinator.code = code
    with pytest.raises(BrokerRefused) as refused:
        await commit(coordinator, {A: Cell(number=1, text="")})
    assert refused.value.code == code


async def test_the_partition_that_was_refused_is_named() -> None:
    coordinator = Coordinator()
    coordinator.codes = {C: ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    with pytest.raises(BrokerRefused, match="payments:0") as refused:
        await commit(coordinator, {A: Cell(number=1, text=""), C: Cell(number=1, text="")})
    assert "READ" in refused.value.hint


async def test_after_a_refused_portion_no_more_are_asked_for() -> None:
    coordinator = Coordinator()
    coordinator.code = ErrorCode.ILLEGAL_GENERATION
    cells = {TopicPartition("t", n): Cell(number=n, text="") for n in range(2 * COMMITTED_AT_ONCE)}
    with pytest.raises(BrokerRefused):
        await commit(coordinator, cells)
    assert len(coordinator.asked) == 1


async def test_cells_that_cannot_be_read_are_no_empty_group() -> None:
    coordinator = Coordinator()
    coordinator.code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    with pytest.raises(BrokerRefused) as refused:
        await read(coordinator)
    assert refused.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_one_cell_that_cannot_be_read_is_not_left_out() -> None:
    coordinator = Coordinator()
    coordinator.cells = {A: Cell(number=1, text="one"), B: Cell(number=2, text="two")}
    coordinator.codes = {B: ErrorCode.UNSTABLE_OFFSET_COMMIT}
    with pytest.raises(BrokerRefused, match="orders:1"):
        await read(coordinator)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (Cell(number=1, text="x" * 4097), "4097 bytes of text"),
        (Cell(number=1, text="ü" * 2049), "4098 bytes of text"),
        (Cell(number=-1, text=""), "number -1"),
    ],
)
async def test_what_a_broker_does_not_take_is_not_sent(cell: Cell, words: str) -> None:
    coordinator = Coordinator()
    with pytest.raises(AssertionError, match=words):
        await commit(coordinator, {A: Cell(number=1, text=""), B: cell})
    assert coordinator.asked == []


@pytest.mark.parametrize(
    "make", [lambda: OffsetCommitResponse(throttle_time_ms=0, topics=[]), lambda: object()]
)
async def test_an_answer_that_says_nothing_of_a_cell_is_refused(make: Callable[[], Any]) -> None:
    async def ask(_ask: Ask) -> Any:
        return make()

    with pytest.raises(ProtocolError):
        await commit_cells(ask, "g", "m1", 4, {A: Cell(number=1, text="")}, timeout_s=3.0)
