"""Deleting records: asked of the leader, on a connection of its own (its broker is a fake)."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin import DeleteRecordsRequest, DeleteRecordsResponse

from heliograph.cluster.metadata import ClusterMetadata, Leader
from heliograph.cluster.record_deletion import delete_records
from heliograph.model.errors import BrokerRefused, ProtocolError
from heliograph.model.partition import TopicPartition
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.error_codes import ErrorCode

from .peers import properties_for

WHERE = TopicPartition("orders", 3)


class FakeBroker:
    """A client, and its connection."""

    name = "nyc"
    address = "fake:1"
    versions = {int(ApiKey.DELETE_RECORDS): (0, 2)}  # noqa: RUF012 - never changed

    def __init__(self, *codes: int) -> None:
        self.properties = properties_for(9092)
        self.metadata = ClusterMetadata(cluster_id="nyc-id", controller=1, brokers={})
        self.asked: list[Any] = []
        self.opened: list[tuple[int, str]] = []
        self._codes = codes

    def leader(self, _where: TopicPartition) -> Leader:
        return Leader(2, 7)

    async def connection(self, node: int, purpose: str) -> FakeBroker:
        self.opened.append((node, purpose))
        return self

    async def request(self, _key: int, version: int, parts: list[bytes], **_: Any) -> memoryview:
        self.asked.append(DeleteRecordsRequest.decode(memoryview(b"".join(parts)), version=version))
        topic = DeleteRecordsResponse.DeleteRecordsTopicResult
        partitions = [
            topic.DeleteRecordsPartitionResult(partition_index=3, low_watermark=0, error_code=code)
            for code in self._codes
        ]
        response = DeleteRecordsResponse(
            throttle_time_ms=0, topics=[topic(name="orders", partitions=partitions)]
        )
        return memoryview(bytes(response.encode(version=version)))


async def delete(broker: FakeBroker, before_offset: int) -> None:
    client: Any = broker
    await delete_records(client, WHERE, before_offset, purpose="delete records for link")


async def test_the_leader_is_asked_on_a_connection_on_which_nothing_else_waits() -> None:
    broker = FakeBroker(0)
    await delete(broker, 100)
    assert broker.opened == [(2, "delete records for link")]
    (request,) = broker.asked
    (topic,) = request.topics
    (partition,) = topic.partitions
    assert (topic.name, partition.partition_index, partition.offset) == ("orders", 3, 100)
    assert request.timeout_ms == broker.properties.request_timeout_ms


@pytest.mark.parametrize("code", [ErrorCode.POLICY_VIOLATION, ErrorCode.REQUEST_TIMED_OUT])
async def test_a_refusal_has_the_brokers_code(code: ErrorCode) -> None:
    with pytest.raises(BrokerRefused, match="orders:3 below 100") as refused:
        await delete(FakeBroker(code), 100)
    assert refused.value.code == code


async def test_an_answer_without_the_partition_makes_no_sense() -> None:
    with pytest.raises(ProtocolError):
        await delete(FakeBroker(), 100)


async def test_all_records_are_never_asked_for() -> None:
    with pytest.raises(AssertionError):
        await delete(FakeBroker(0), -1)


async def test_who_may_not_delete_is_given_the_line_that_grants_it() -> None:
    with pytest.raises(BrokerRefused) as refused:
        await delete(FakeBroker(ErrorCode.TOPIC_AUTHORIZATION_FAILED), 100)
    assert refused.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert refused.value.hint == (
        "grant DELETE on the topic: kafka-acls.sh --bootstrap-server 127.0.0.1:9092 --add"
        " --allow-principal User:ANONYMOUS --operation Delete --topic orders"
    )
