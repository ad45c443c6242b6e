"""Whose transaction is open: the leader names the producer, its coordinator the transactional id, if it may and can."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka.protocol.admin import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)

from heliograph.cluster import transactions
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.metadata import Leader
from heliograph.cluster.transactions import OpenTransaction, OpenTransactions, Owner
from heliograph.model.errors import BrokerRefused, Disconnected
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

from .peers import properties_for

WHERE = TopicPartition("orders", 3)
OWNER = Owner(transactional_id="payments-1", state="Ongoing", since_ms=5_000)


class Cluster:
    """Brokers 1 to 3; 1 leads, 3 coordinates. `producers`: by id where their transactions began, -1 for none."""

    def __init__(self, **producers: int) -> None:
        self.producers = {int(name[1:]): start for name, start in producers.items()} or {7: 20}
        self.states = {7: ("payments-1", "Ongoing")}
        self.began_ms = 5_000
        self.answers: dict[int, Callable[[], Any]] = {}  # of ListTransactions, by broker
        self.asked: list[tuple[int, str]] = []

    @property
    def client(self) -> ClusterClient:
        fake = SimpleNamespace(
            name="sf",
            metadata=SimpleNamespace(brokers=dict.fromkeys((1, 2, 3)), topics={}),
            properties=properties_for(9092),
            leader=lambda _where: Leader(1, 0),
            call=self._call,
        )
        return cast(ClusterClient, fake)

    async def _call(self, node: int, request: Any, _response: Any) -> Any:
        self.asked.append((node, type(request).__name__))
        if isinstance(request, DescribeProducersRequest):
            (asked,) = request.topics
            (number,) = asked.partition_indexes
            return SimpleNamespace(
                topics=[SimpleNamespace(name=asked.name, partitions=[self._producers(number)])]
            )
        if isinstance(request, ListTransactionsRequest):
            if node in self.answers:
                answer = self.answers[node]()
                return await answer if asyncio.iscoroutine(answer) else answer
            return self._listed(node, request.producer_id_filters)
        assert isinstance(request, DescribeTransactionsRequest)
        assert (node, request.transactional_ids) == (3, ["payments-1"])
        state = SimpleNamespace(error_code=0, transaction_start_time_ms=self.began_ms)
        return SimpleNamespace(transaction_states=[state])

    def _producers(self, partition: int) -> Any:
        active = [
            SimpleNamespace(
                producer_id=number,
                producer_epoch=0,
                last_sequence=4,
                last_timestamp=100,
                coordinator_epoch=0,
                current_txn_start_offset=start,
            )
            for number, start in self.producers.items()
        ]
        return SimpleNamespace(partition_index=partition, error_code=0, active_producers=active)

    def _listed(self, node: int, wanted: list[int]) -> Any:
        found = [
            SimpleNamespace(transactional_id=name, transaction_state=state)
            for number, (name, state) in self.states.items()
            if node == 3 and number in wanted
        ]
        return SimpleNamespace(error_code=0, transaction_states=found)

    async def oldest(self) -> OpenTransaction | None:
        return await OpenTransactions(self.client).oldest(WHERE)

    async def owner(self) -> Owner | None:
        found = await self.oldest()
        assert found is not None
        assert found.producer_id == 7  # it is named whatever its coordinator says
        return found.owner


async def test_the_oldest_open_transaction_is_named_with_its_owner_and_the_line_that_ends_it() -> None:
    found = await Cluster(p6=-1, p8=30, p7=20).oldest()
    assert found == OpenTransaction(
        where=WHERE,
        producer_id=7,
        start_offset=20,
        last_record_ms=100,
        owner=OWNER,
        servers="127.0.0.1:9092",
    )
    assert found.abort_command == (
        "kafka-transactions.sh --bootstrap-server 127.0.0.1:9092 abort --topic orders --partition 3 --start-offset 20"
    )


async def test_where_none_is_open_no_coordinator_is_asked() -> None:
    cluster = Cluster(p7=-1)
    assert await cluster.oldest() is None
    assert cluster.asked == [(1, "DescribeProducersRequest")]


def refuse() -> Any:
    raise BrokerRefused("it offers no version of ListTransactions", code=ErrorCode.UNSUPPORTED_VERSION)


def break_off() -> Any:
    raise Disconnected("broker 3 is gone")


@pytest.mark.parametrize(
    "answer",
    [
        refuse,
        break_off,
        lambda: asyncio.sleep(60),
        lambda: SimpleNamespace(
            error_code=int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), transaction_states=[]
        ),
        lambda: SimpleNamespace(error_code=0, transaction_states=[]),  # this client may not see it
        lambda: None,
    ],
    ids=["old", "away", "hangs", "loads", "hidden", "nonsense"],
)
async def test_a_coordinator_that_does_not_tell_leaves_the_transactional_id_unknown(
    answer: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "BROKER_LIMIT_S", 0.05)
    cluster = Cluster()
    cluster.answers[3] = answer
    assert await cluster.owner() is None


async def test_brokers_that_hang_do_not_hide_what_the_coordinator_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transactions, "BROKER_LIMIT_S", 0.05)
    cluster = Cluster()
    cluster.answers[1] = cluster.answers[2] = lambda: asyncio.sleep(60)
    assert await cluster.owner() == OWNER


async def test_a_transaction_that_its_coordinator_has_forgotten_has_no_beginning() -> None:
    cluster = Cluster()
    cluster.states[7], cluster.began_ms = ("payments-1", "Empty"), -1
    assert await cluster.owner() == Owner(transactional_id="payments-1", state="Empty", since_ms=None)


async def test_a_producer_that_hangs_on_many_partitions_is_looked_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    asking = OpenTransactions(cluster.client)
    places = [TopicPartition("orders", number) for number in range(50)]
    found = await asyncio.gather(*map(asking.oldest, places))
    assert [each.where for each in found if each and each.owner == OWNER] == places
    assert len([kind for _, kind in cluster.asked if kind == "ListTransactionsRequest"]) == 3
    monkeypatch.setattr(transactions, "OWNER_LASTS_S", -1.0)
    again = OpenTransactions(cluster.client)
    await again.oldest(WHERE)
    await again.oldest(WHERE)
    assert len([kind for _, kind in cluster.asked if kind == "ListTransactionsRequest"]) == 9
