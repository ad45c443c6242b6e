"""What makes no noise by itself: a target that lost its end, a transaction that hangs, while a copy idles."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from heliograph.cluster.transactions import OpenTransaction, Owner
from heliograph.copier import vigil
from heliograph.model.errors import Disconnected
from heliograph.model.events import Event
from heliograph.model.partition import TopicPartition
from heliograph.model.states import StopReason

from .lane_world import place, until, world, write
from .source_batches import batch


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    assert vigil.LOOK_S == 3
    assert vigil.HELD_LIMIT_S == 30
    monkeypatch.setattr(vigil, "LOOK_S", 0.05)
    monkeypatch.setattr(vigil, "HELD_LIMIT_S", 0.3)
    monkeypatch.setattr(vigil, "ANSWER_LIMIT_S", 0.1)


async def test_a_truncated_target_is_noticed_while_idle_told_of_and_filled_again() -> None:
    async with world() as it:
        it.create(0, 10)
        copy = it.assign(0)
        await until(lambda: it.is_copied(0))
        target = it.target.logs[place(0)]
        kept = target.batches[5].header.next_offset
        end = target.end
        target.truncate(kept)
        await until(lambda: it.is_copied(0))
        it.assert_identical(0)
        (notice,) = copy.notices
        assert notice.event is Event.TARGET_TRUNCATED
        assert f"[{kept}, {end})" in notice.message


async def test_a_record_of_somebody_else_is_noticed_while_idle_and_stops_the_copy() -> None:
    async with world() as it:
        it.create(0, 10)
        copy = it.assign(0)
        await until(lambda: it.is_copied(0))
        log = it.target.logs[place(0)]
        log.store(batch(log.end, producer_id=77))
        write(it.source.logs[place(0)], 0)
        await until(lambda: copy.stopped is not None)
        assert copy.stopped is not None
        assert copy.stopped.reason in (StopReason.FOREIGN, StopReason.TARGET_AHEAD)


async def test_the_ends_of_one_brokers_partitions_are_asked_in_one_request() -> None:
    """Whatever their leader epochs are."""

    async with world() as it:
        asked: list[list[TopicPartition]] = []
        ends = it.target.log_ends

        async def record(node: int, wheres: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
            asked.append(list(wheres))
            return await ends(node, wheres)

        it.target.log_ends = record  # type: ignore[method-assign]
        for partition in range(6):
            it.create(partition, 1)
            for _ in range(partition):
                it.target.move(place(partition), 1)
        await it.target.refresh()
        for partition in range(6):
            it.assign(partition)
        await until(lambda: any(len(wheres) == 6 for wheres in asked))


async def test_a_copy_that_is_at_its_place_is_not_disturbed() -> None:
    async with world() as it:
        it.create(0, 5)
        copy = it.assign(0)
        await until(lambda: it.is_copied(0))
        before, asked = copy.interruptions, it.target.ends_asked
        await until(lambda: it.target.ends_asked > asked + 3)
        assert copy.interruptions == before
        assert not copy.notices


async def test_a_broker_that_does_not_answer_keeps_nobody_from_being_looked_at() -> None:
    async with world() as it:
        it.create(0, 5, target_node=1)
        it.create(1, 5, target_node=2)
        it.create(2, 5, target_node=3)
        ends = it.target.log_ends

        async def some_hang(node: int, wheres: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
            if node == 2:
                await asyncio.sleep(60)
            if node == 3:
                raise Disconnected("broker 3 is gone")
            return await ends(node, wheres)

        it.target.log_ends = some_hang  # type: ignore[method-assign]
        for partition in range(3):
            it.assign(partition)
        await until(lambda: all(it.is_copied(partition) for partition in range(3)))
        await asyncio.sleep(0.2)
        target = it.target.logs[place(0)]
        target.truncate(target.batches[2].header.next_offset)
        await until(lambda: it.is_copied(0), 1.0)


async def test_a_hanging_transaction_is_told_of_once_with_whose_it_is_and_how_to_end_it() -> None:
    async with world() as it:
        it.create(0, 5)
        source = it.source.logs[place(0)]
        source.open_at = source.end
        write(source, 3)
        it.source.open_transactions[place(0)] = OpenTransaction(
            where=place(0),
            producer_id=4711,
            start_offset=source.open_at,
            last_record_ms=0,
            owner=Owner(transactional_id="payments-1", state="Ongoing", since_ms=0),
            servers="sf:9092",
        )
        copy = it.assign(0)
        await until(lambda: copy.next_offset == source.open_at)
        await asyncio.sleep(0.2)
        assert not copy.notices
        await until(lambda: bool(copy.notices))
        await asyncio.sleep(0.6)
        (notice,) = copy.notices
        assert notice.event is Event.TRANSACTION_OPEN
        assert (
            "producer id 4711, transactional id payments-1, open since 1970-01-01T00:00:00Z" in notice.message
        )
        assert f"held back {source.end - source.open_at} offsets" in notice.message
        assert notice.hint is not None
        assert notice.hint.startswith(
            f"kafka-transactions.sh --bootstrap-server sf:9092 abort --topic {place(0).topic}"
        )
        assert str(source.open_at) in notice.message
        assert it.source.transactions_asked == 1


async def test_transactions_that_end_are_not_told_of_however_many_follow_each_other() -> None:
    async with world() as it:
        it.create(0, 5)
        source = it.source.logs[place(0)]
        source.open_at = source.end
        copy = it.assign(0)
        for _ in range(6):
            write(source, 1)
            source.open_at = source.end
            write(source, 1)
            await until(lambda: copy.next_offset == source.open_at)
            await asyncio.sleep(0.1)
        assert not copy.notices


async def test_a_transaction_whose_producer_cannot_be_asked_for_is_told_of_all_the_same() -> None:
    async with world() as it:
        it.create(0, 5)
        source = it.source.logs[place(0)]
        source.open_at = source.end
        write(source, 3)

        async def hang(_where: TopicPartition) -> OpenTransaction | None:
            await asyncio.sleep(60)
            return None

        it.source.open_transaction = hang  # type: ignore[method-assign, assignment]
        copy = it.assign(0)
        await until(lambda: bool(copy.notices))
        assert copy.notices[0].event is Event.TRANSACTION_OPEN
        assert "its producer cannot be asked for: no answer" in copy.notices[0].message
        assert copy.notices[0].hint is None
