"""Empty transactions on real brokers: each fills one offset that no consumer sees; fencing off ends what was begun."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from heliograph.cluster.empty_transactions import EmptyTransactions, FillProducer
from heliograph.cluster.rights import try_transactional_id
from heliograph.lab.cluster import LabCluster
from heliograph.model.errors import BrokerRefused, Disconnected
from heliograph.model.fill_way import transactional_id
from heliograph.model.partition import TopicPartition
from heliograph.wire.control_batch import MarkerKind, read_marker
from heliograph.wire.error_codes import ErrorCode
from tests.support.log_reader import read_topic
from tests.support.records import Record
from tests.support.topics import create_topic
from tests.support.workload import produce_records

from .test_markers_kafka import always, target_on

pytestmark = pytest.mark.kafka

FENCED = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}


async def test_an_empty_transaction_fills_an_offset_and_fencing_off_ends_what_was_begun(
    target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    bootstrap, topic = target_cluster.bootstrap_servers, unique_topic("empty")
    where, name = TopicPartition(topic, 0), transactional_id("source", topic, 0)
    await asyncio.to_thread(create_topic, bootstrap, topic)
    await asyncio.to_thread(produce_records, bootstrap, topic, [Record(value=b"before")])
    async with target_on(bootstrap, topic) as target:
        transactions = EmptyTransactions(target.client, "link")

        async def end() -> int:
            return (await target.span(where)).end

        # One marker each, in the log when the call returns.
        producer = await target.fence_fills(name)
        for filled in range(1, 21):
            await target.write_empty_transaction(name, producer, where, always)
            assert await end() == 1 + filled
        found = await target.batches_in(where, 1, 21)
        markers = [read_marker(*each) for each in zip(found.headers, found.views, strict=True)]
        assert {each[:3] for each in markers} == {(MarkerKind.ABORT, producer.producer_id, producer.epoch)}

        # A holder that died in the middle: its marker is in the log before its successor is let in.
        await transactions.begin(name, producer, where, always)
        successor = await target.fence_fills(name)
        assert await end() == 22
        assert successor.producer_id == producer.producer_id  # by which both know their markers
        await _assert_fenced_off(transactions, name, producer, where)
        assert await end() == 22

        # A permit that is refused between the two: nothing is ended until the next one fences it off.
        answers = iter([True, False])
        with pytest.raises(Disconnected):
            await target.write_empty_transaction(name, successor, where, lambda: next(answers))
        assert await end() == 22
        last = await target.fence_fills(name)
        assert await end() == 23
        await target.write_empty_transaction(name, last, where, always)

        # Whether this would be allowed can be asked for without making anything.
        (node, *_) = target.client.metadata.brokers
        code = await try_transactional_id(target.client, node, transactional_id("source", "not-there", 0))
        assert code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    await asyncio.to_thread(produce_records, bootstrap, topic, [Record(value=b"behind")])
    seen = await asyncio.to_thread(read_topic, bootstrap, topic)
    assert [(each.offset, each.value) for each in seen[0]] == [(0, b"before"), (24, b"behind")]


async def _assert_fenced_off(
    transactions: EmptyTransactions, name: str, old: FillProducer, where: TopicPartition
) -> None:
    with pytest.raises(BrokerRefused) as refused:
        await transactions.begin(name, old, where, always)
    assert refused.value.code in FENCED
    with pytest.raises(BrokerRefused) as refused:
        await transactions.end(name, old, always)
    assert refused.value.code in FENCED
