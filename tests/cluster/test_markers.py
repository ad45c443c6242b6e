"""Markers: what is asked of a broker, in which order, and what its answer may be; the connection is a fake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka.protocol.producer import WriteTxnMarkersRequest, WriteTxnMarkersResponse

from heliograph.cluster.flight import CAREFUL_UNACKNOWLEDGED_MS
from heliograph.cluster.markers import Marker, write_markers
from heliograph.model.errors import BrokerRefused, ProtocolError
from heliograph.model.marker_label import MarkerLabel, marker_label
from heliograph.model.partition import TopicPartition
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.error_codes import ErrorCode

from .peers import properties_for

OURS = 0x48 << 56 | 0xABC << 32 | 7
A, B, C = (TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("payments", 0))


class FakeBroker:
    """A client, and its connection: notes requests, answers each marker with `code`, or with what `answer` makes."""

    name = "nyc"
    address = "fake:1"

    def __init__(self, code: int = 0, highest: int = 2) -> None:
        self.properties = properties_for(9092)
        self.versions = {int(ApiKey.WRITE_TXN_MARKERS): (1, highest)}
        self.asked: list[Any] = []
        self.permits: list[Callable[[], bool] | None] = []
        self.opened: list[tuple[int, str, int]] = []
        self.answer: Callable[[Any], Any] = lambda request: answer_to(request, code)

    async def connection(self, node: int, purpose: str, *, unacknowledged_ms: int) -> FakeBroker:
        self.opened.append((node, purpose, unacknowledged_ms))
        return self

    async def request(
        self,
        key: int,
        version: int,
        parts: list[bytes],
        *,
        flexible: bool,
        permit: Callable[[], bool] | None,
        timeout_ms: int,
    ) -> memoryview:
        assert (key, version, flexible, timeout_ms) == (27, 1, True, 500)
        self.permits.append(permit)
        self.asked.append(WriteTxnMarkersRequest.decode(memoryview(b"".join(parts)), version=version))
        return memoryview(bytes(self.answer(self.asked[-1]).encode(version=version)))


def answer_to(request: Any, code: int) -> Any:
    """As brokers make it: one code for each producer id and partition."""
    by_id: dict[int, dict[str, set[int]]] = {}
    for marker in request.markers:
        for topic in marker.topics:
            topics = by_id.setdefault(marker.producer_id, {})
            topics.setdefault(topic.name, set()).update(topic.partition_indexes)
    result = WriteTxnMarkersResponse.WritableTxnMarkerResult
    topic_result = result.WritableTxnMarkerTopicResult
    partition_result = topic_result.WritableTxnMarkerPartitionResult
    return WriteTxnMarkersResponse(
        markers=[
            result(
                producer_id=producer_id,
                topics=[
                    topic_result(
                        name=name,
                        partitions=[
                            partition_result(partition_index=each, error_code=code) for each in partitions
                        ],
                    )
                    for name, partitions in topics.items()
                ],
            )
            for producer_id, topics in by_id.items()
        ]
    )


def always() -> bool:
    return True


async def write(broker: FakeBroker, *markers: Marker) -> dict[tuple[TopicPartition, int], int]:
    client: Any = broker
    return await write_markers(client, 1, "fill for link", markers, always, timeout_ms=500)


def at(where: TopicPartition, offset: int, attempt: int = 1) -> Marker:
    return Marker(where, marker_label(OURS, offset, attempt))


def entries(broker: FakeBroker) -> list[tuple[MarkerLabel, list[TopicPartition]]]:
    (request,) = broker.asked
    return [
        (
            MarkerLabel(marker.producer_id, marker.producer_epoch, marker.coordinator_epoch),
            [TopicPartition(topic.name, each) for topic in marker.topics for each in topic.partition_indexes],
        )
        for marker in request.markers
    ]


async def test_a_marker_is_an_abort_with_its_label_under_a_permit_on_a_careful_line() -> None:
    broker = FakeBroker()
    marker = at(A, 65_536 + 3)
    assert await write(broker, marker) == {(A, marker.label.producer_id): 0}
    assert entries(broker) == [(marker.label, [A])]
    assert broker.asked[0].markers[0].transaction_result is False
    assert broker.permits == [always]
    assert broker.opened == [(1, "fill for link", CAREFUL_UNACKNOWLEDGED_MS)]


async def test_markers_of_a_partition_keep_their_order() -> None:
    broker = FakeBroker()
    await write(broker, *(at(A, offset) for offset in range(100)))
    assert [label for label, _ in entries(broker)] == [at(A, offset).label for offset in range(100)]


async def test_partitions_at_one_offset_share_an_entry_and_others_do_not() -> None:
    broker = FakeBroker()
    await write(broker, at(A, 5), at(A, 6), at(B, 5), at(C, 5), at(B, 6), at(B, 7))
    assert entries(broker) == [(at(A, 5).label, [A, B, C]), (at(A, 6).label, [A, B]), (at(B, 7).label, [B])]


async def test_no_marker_shares_an_entry_that_is_before_its_partitions_last_one() -> None:
    broker = FakeBroker()
    await write(broker, at(A, 5), at(B, 6), at(B, 5), at(A, 6))
    assert entries(broker) == [
        (at(A, 5).label, [A]),
        (at(B, 6).label, [B, A]),
        (at(B, 5).label, [B]),
    ]


async def test_the_same_marker_twice_is_sent_twice() -> None:
    broker = FakeBroker()
    await write(broker, at(A, 5), at(A, 5))
    assert entries(broker) == [(at(A, 5).label, [A]), (at(A, 5).label, [A])]


async def test_every_code_comes_by_partition_and_producer_id() -> None:
    broker = FakeBroker(code=ErrorCode.INVALID_PRODUCER_EPOCH)
    below, above = at(A, 65_535), at(B, 65_536)
    assert await write(broker, below, above) == {
        (A, below.label.producer_id): 47,
        (B, above.label.producer_id): 47,
    }


async def test_who_may_not_write_markers_is_told_which_rights_allow_it() -> None:
    broker = FakeBroker(code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(BrokerRefused) as refused:
        await write(broker, at(A, 5))
    assert refused.value.code == 31
    for words in ("ALTER", "CLUSTER_ACTION", "--operation Alter --cluster", "--operation ClusterAction"):
        assert words in refused.value.hint
    assert "kafka-acls.sh --bootstrap-server 127.0.0.1:9092" in refused.value.hint


async def test_an_answer_that_leaves_a_marker_out_is_refused() -> None:
    broker = FakeBroker()
    broker.answer = lambda _request: WriteTxnMarkersResponse(markers=[])
    with pytest.raises(ProtocolError, match="nothing is said of 1"):
        await write(broker, at(A, 5))


async def test_a_broker_that_cannot_be_asked_is_told_so() -> None:
    broker = FakeBroker()
    broker.versions = {}
    with pytest.raises(BrokerRefused) as refused:
        await write(broker, at(A, 5))
    assert refused.value.code == ErrorCode.UNSUPPORTED_VERSION
