"""Empty transactions: what is asked of a coordinator, for how long, and what its answers mean; brokers are a fake."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)

from heliograph.cluster.empty_transactions import EmptyTransactions, FillProducer
from heliograph.cluster.flight import CAREFUL_UNACKNOWLEDGED_MS
from heliograph.model.errors import BrokerRefused, Disconnected, RequestTimedOut
from heliograph.model.fill_way import transactional_id
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

from .peers import properties_for

WHERE = TopicPartition("orders", 3)
ID = transactional_id("sf-id", "orders", 3)
REQUESTS = {
    each.API_KEY: (each, answer)
    for each, answer in (
        (FindCoordinatorRequest, FindCoordinatorResponse),
        (InitProducerIdRequest, InitProducerIdResponse),
        (AddPartitionsToTxnRequest, AddPartitionsToTxnResponse),
        (EndTxnRequest, EndTxnResponse),
    )
}
# As Kafka 4 offers them, and 2.8.
NEW = {10: (0, 6), 22: (0, 6), 24: (0, 5), 26: (0, 5)}
OLD = {10: (0, 3), 22: (0, 4), 24: (0, 3), 26: (0, 3)}


class FakeBrokers:
    """A client, and all its connections. `codes`: what the next requests of a name are answered with; 0 after that."""

    name = "nyc"

    def __init__(self, versions: dict[int, tuple[int, int]] | None = None) -> None:
        self.properties = properties_for(9092)
        self.metadata = SimpleNamespace(brokers={1: None, 2: None})
        self.versions = versions or NEW
        self.coordinator = 2
        self.codes: dict[str, list[int | Exception]] = {}
        self.asked: list[tuple[int, str, int]] = []  # node, request, version
        self.requests: list[Any] = []
        self.permits: list[tuple[str, Callable[[], bool] | None]] = []
        self.purposes: set[str] = set()

    async def connection(self, node: int, purpose: str, *, unacknowledged_ms: int) -> FakeConnection:
        assert unacknowledged_ms == CAREFUL_UNACKNOWLEDGED_MS
        self.purposes.add(purpose)
        return FakeConnection(self, node)


class FakeConnection:
    def __init__(self, brokers: FakeBrokers, node: int) -> None:
        self._brokers, self._node = brokers, node
        self.versions = brokers.versions
        self.address = f"broker-{node}:9092"

    async def request(
        self, key: int, version: int, parts: list[bytes], *, permit: Any, timeout_ms: int, **_: Any
    ) -> memoryview:
        assert timeout_ms <= self._brokers.properties.request_timeout_ms
        brokers = self._brokers
        asked, answer = REQUESTS[key]
        name = asked.__name__.removesuffix("Request")
        brokers.asked.append((self._node, name, version))
        brokers.requests.append(asked.decode(memoryview(b"".join(parts)), version=version))
        brokers.permits.append((name, permit))
        await asyncio.sleep(0)
        planned = brokers.codes.get(name) or [0]
        code = planned.pop(0)
        if isinstance(code, Exception):
            raise code
        return memoryview(bytes(self._answer(answer, code).encode(version=version)))

    def _answer(self, made: Any, code: int) -> Any:
        node = self._brokers.coordinator
        if made is FindCoordinatorResponse:
            one = made.Coordinator(key=ID, node_id=node, host="", port=0, error_code=code, error_message=None)
            return made(
                throttle_time_ms=0,
                error_code=code,
                error_message=None,
                node_id=node,
                host="",
                port=0,
                coordinators=[one],
            )
        if made is InitProducerIdResponse:
            return made(throttle_time_ms=0, error_code=code, producer_id=4000, producer_epoch=7)
        if made is AddPartitionsToTxnResponse:
            topic = made.AddPartitionsToTxnTopicResult
            partition = topic.AddPartitionsToTxnPartitionResult(partition_index=3, partition_error_code=code)
            results = [topic(name="orders", results_by_partition=[partition])]
            return made(throttle_time_ms=0, results_by_topic_v3_and_below=results)
        return made(throttle_time_ms=0, error_code=code)


def on(brokers: FakeBrokers) -> EmptyTransactions:
    client: Any = brokers
    return EmptyTransactions(client, "link")


def always() -> bool:
    return True


PRODUCER = FillProducer(4000, 7)


@pytest.mark.parametrize(("versions", "used"), [(NEW, (6, 4, 3, 4)), (OLD, (3, 4, 3, 3))])
async def test_an_empty_transaction_is_begun_aborted_and_awaited(
    versions: dict[int, tuple[int, int]], used: tuple[int, ...]
) -> None:
    """By versions that old brokers know, too, and in which a transaction has no epoch of its own."""
    brokers = FakeBrokers(versions)
    transactions = on(brokers)
    assert await transactions.fence(ID) == PRODUCER
    await transactions.write(ID, PRODUCER, WHERE, always)
    names = [name for _, name, _ in brokers.asked]
    assert names == ["FindCoordinator", "InitProducerId", "AddPartitionsToTxn", "EndTxn", "EndTxn"]
    assert {node for node, name, _ in brokers.asked if name != "FindCoordinator"} == {2}
    assert [version for _, _, version in brokers.asked[:4]] == list(used)
    add, end = brokers.requests[2], brokers.requests[3]
    assert (add.v3_and_below_transactional_id, add.v3_and_below_topics[0].partitions) == (ID, [3])
    assert (end.producer_id, end.producer_epoch, end.committed) == (4000, 7, False)


async def test_what_leads_to_a_marker_leaves_under_a_permit() -> None:
    brokers = FakeBrokers()
    await on(brokers).write(ID, PRODUCER, WHERE, always)
    permits = dict(brokers.permits)
    assert permits == {"FindCoordinator": None, "AddPartitionsToTxn": always, "EndTxn": always}


@pytest.mark.parametrize("name", ["InitProducerId", "AddPartitionsToTxn", "EndTxn"])
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    ],
)
async def test_what_passes_is_waited_for_and_the_coordinator_looked_for_again(name: str, code: int) -> None:
    brokers = FakeBrokers()
    brokers.codes[name] = [code, code]
    transactions = on(brokers)
    producer = await transactions.fence(ID)
    await transactions.write(ID, producer, WHERE, always)
    names = [asked for _, asked, _ in brokers.asked]
    moved = code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
    assert names.count("FindCoordinator") == (3 if moved else 1)
    assert names.count(name) == (4 if name == "EndTxn" else 3)


async def test_what_does_not_pass_in_time_is_told() -> None:
    brokers = FakeBrokers()
    brokers.codes["InitProducerId"] = [ErrorCode.CONCURRENT_TRANSACTIONS] * 1000
    with pytest.raises(BrokerRefused, match=f"{ID}: InitProducerId: CONCURRENT_TRANSACTIONS") as refused:
        await on(brokers).fence(ID)
    assert refused.value.code == ErrorCode.CONCURRENT_TRANSACTIONS


async def test_who_was_fenced_off_is_told_at_once() -> None:
    brokers = FakeBrokers()
    brokers.codes["EndTxn"] = [ErrorCode.PRODUCER_FENCED]
    with pytest.raises(BrokerRefused, match="PRODUCER_FENCED"):
        await on(brokers).write(ID, PRODUCER, WHERE, always)
    assert [name for _, name, _ in brokers.asked].count("EndTxn") == 1


async def test_a_missing_right_is_told_with_the_line_that_grants_it() -> None:
    brokers = FakeBrokers()
    brokers.codes["InitProducerId"] = [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    with pytest.raises(BrokerRefused) as refused:
        await on(brokers).fence(ID)
    assert (
        "--operation Write --transactional-id heliograph.sf-id.orders. --resource-pattern-type prefixed"
        in refused.value.hint
    )
    brokers.codes["AddPartitionsToTxn"] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(BrokerRefused) as refused:
        await on(brokers).write(ID, PRODUCER, WHERE, always)
    assert "--operation Write --topic orders" in refused.value.hint


async def test_a_broker_that_hangs_is_not_the_only_one_asked_for_the_coordinator() -> None:
    brokers = FakeBrokers()
    brokers.codes["FindCoordinator"] = [RequestTimedOut("no answer")]
    assert await on(brokers).fence(ID) == PRODUCER


async def test_a_coordinator_that_is_gone_is_looked_for_again_by_the_next_request() -> None:
    brokers = FakeBrokers()
    transactions = on(brokers)
    await transactions.fence(ID)
    brokers.codes["EndTxn"] = [Disconnected("gone")]
    with pytest.raises(Disconnected):
        await transactions.write(ID, PRODUCER, WHERE, always)
    brokers.coordinator = 1
    await transactions.fence(ID)
    assert brokers.asked[-1][0] == 1


async def test_partitions_of_one_coordinator_share_a_few_connections() -> None:
    brokers = FakeBrokers()
    transactions = on(brokers)
    ids = [transactional_id("sf-id", "orders", partition) for partition in range(40)]
    assert set(await asyncio.gather(*(transactions.fence(each) for each in ids))) == {PRODUCER}
    assert len(brokers.purposes) == 4 + 1  # the last to find coordinators by


async def test_the_first_transaction_of_a_cluster_waits_for_its_coordinators() -> None:
    brokers = FakeBrokers()
    brokers.codes["FindCoordinator"] = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
    assert await on(brokers).fence(ID) == PRODUCER


def test_names_of_transactions_tell_partitions_apart() -> None:
    assert transactional_id("c", "a.1", 2) == "heliograph.c.a.1.2"
    assert transactional_id("c", "a", 12) != transactional_id("c", "a.1", 2)
    assert len(transactional_id("c" * 22, "t" * 249, 2**31 - 1)) < 32_767
