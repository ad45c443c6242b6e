"""Questions to a leader: what exactly is asked, and which answers are taken (the client's broker is a fake)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.admin import DescribeProducersResponse
from kafka.protocol.consumer import ListOffsetsResponse

from heliograph.cluster.list_offsets import CONSUMER, OURSELVES
from heliograph.cluster.log_ends import LogEnds
from heliograph.cluster.log_reads import read_producer, read_producers, read_span
from heliograph.cluster.metadata import ClusterMetadata, Leader, TopicMetadata
from heliograph.cluster.producer_states import ProducerState
from heliograph.model.errors import BrokerRefused, ProtocolError
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

from .peers import properties_for

WHERE = TopicPartition("orders", 0)
EPOCH = 7


class FakeClient:
    """Leads every partition on node 1 with epoch 7, except those of `elsewhere`; `answer` makes the answers."""

    name = "sf"

    def __init__(self, answer: Any) -> None:
        self.properties = properties_for(1)
        self.metadata = ClusterMetadata(cluster_id="sf-id", controller=1, brokers={})
        self.elsewhere: set[TopicPartition] = set()
        self.asked: list[Any] = []
        self._answer = answer

    def leader(self, where: TopicPartition) -> Leader:
        return Leader(2 if where in self.elsewhere else 1, EPOCH)

    async def call(self, _node: int, request: Any, _response_class: Any) -> Any:
        self.asked.append(request)
        return self._answer(request)

    async def call_again(self, _node: int, call: Any, _asked: Any, make: Any) -> Any:
        self.asked.append(make())
        return call.read(self._answer(self.asked[-1]))


def offsets(answers: dict[TopicPartition, tuple[int, int]]) -> ListOffsetsResponse:
    """By partition: error code and offset."""
    topic = ListOffsetsResponse.ListOffsetsTopicResponse
    partition = topic.ListOffsetsPartitionResponse
    return ListOffsetsResponse(
        throttle_time_ms=0,
        topics=[
            topic(
                name=where.topic,
                partitions=[partition(partition_index=where.partition, error_code=code, offset=offset)],
            )
            for where, (code, offset) in answers.items()
        ],
    )


def producers(states: dict[int, dict[str, int]], error: int = 0) -> DescribeProducersResponse:
    """By producer id: the fields that differ from those of an idle producer."""
    topic = DescribeProducersResponse.TopicResponse
    partition = topic.PartitionResponse
    idle = {
        "producer_epoch": 0,
        "last_sequence": 4,
        "last_timestamp": 100,
        "coordinator_epoch": -1,
        "current_txn_start_offset": -1,
    }
    active = [partition.ProducerState(producer_id=n, **{**idle, **state}) for n, state in states.items()]
    answer = partition(partition_index=0, error_code=error, error_message=None, active_producers=active)
    return DescribeProducersResponse(throttle_time_ms=0, topics=[topic(name="orders", partitions=[answer])])


def span_of(start: int, watermark: int, end: int) -> Any:
    """Answers ListOffsets as a leader with this log does: the end for us alone."""

    def answer(request: Any) -> ListOffsetsResponse:
        latest = end if request.replica_id == OURSELVES else watermark
        timestamp = request.topics[0].partitions[0].timestamp
        return offsets({WHERE: (0, start if timestamp == -2 else latest)})

    return answer


async def test_a_logs_end_is_asked_for_as_a_replica_and_its_high_watermark_as_a_consumer() -> None:
    client: Any = FakeClient(span_of(3, 5, 9))
    span = await read_span(client, WHERE)
    assert (span.start, span.high_watermark, span.end) == (3, 5, 9)
    assert [request.replica_id for request in client.asked] == [CONSUMER, CONSUMER, OURSELVES]
    assert OURSELVES not in (-1, -2)


async def test_every_question_for_an_offset_names_the_leader_epoch() -> None:
    client: Any = FakeClient(span_of(3, 5, 9))
    await read_span(client, WHERE)
    await LogEnds(client).read(1, [WHERE])
    epochs = [r.topics[0].partitions[0].current_leader_epoch for r in client.asked]
    assert epochs == [EPOCH] * 4


@pytest.mark.parametrize("log", [(0, 9, 5), (9, 5, 5), (-1, 5, 5)])
async def test_a_log_that_cannot_be_is_refused_and_not_clamped(log: tuple[int, int, int]) -> None:
    client: Any = FakeClient(span_of(*log))
    with pytest.raises(ProtocolError):
        await read_span(client, WHERE)


@pytest.mark.parametrize("code", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH])
async def test_a_fenced_question_has_no_answer(code: int) -> None:
    client: Any = FakeClient(lambda _request: offsets({WHERE: (code, -1)}))
    with pytest.raises(BrokerRefused) as caught:
        await read_span(client, WHERE)
    assert caught.value.code == code


async def test_ends_are_asked_for_together_and_as_a_replica() -> None:
    wheres = [TopicPartition(topic, n) for topic in ("orders", "payments") for n in range(3)]
    client: Any = FakeClient(lambda _request: offsets({where: (0, 10 + where.partition) for where in wheres}))
    ends = await LogEnds(client).read(1, wheres)
    assert ends == {where: 10 + where.partition for where in wheres}
    (request,) = client.asked
    assert request.replica_id == OURSELVES
    assert {topic.name: len(topic.partitions) for topic in request.topics} == {"orders": 3, "payments": 3}


async def test_an_end_that_a_broker_refuses_to_tell_is_left_out() -> None:
    refused = TopicPartition("orders", 1)
    client: Any = FakeClient(
        lambda _request: offsets({WHERE: (0, 5), refused: (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)})
    )
    assert await LogEnds(client).read(1, [WHERE, refused]) == {WHERE: 5}


async def test_a_broker_is_not_asked_for_the_end_of_what_it_does_not_lead() -> None:
    moved = TopicPartition("orders", 1)
    client: Any = FakeClient(lambda _request: offsets({WHERE: (0, 5)}))
    client.elsewhere = {moved}
    await LogEnds(client).read(1, [WHERE, moved])
    (request,) = client.asked
    assert [p.partition_index for p in request.topics[0].partitions] == [0]


async def test_ends_that_make_no_sense_are_a_protocol_error() -> None:
    client: Any = FakeClient(lambda _request: ListOffsetsResponse(throttle_time_ms=0, topics=None))
    with pytest.raises(ProtocolError):
        await LogEnds(client).read(1, [WHERE])


async def test_a_producers_state_tells_its_last_sequence_and_time() -> None:
    client: Any = FakeClient(lambda _request: producers({7: {"last_sequence": 41}, 8: {}}))
    assert await read_producer(client, WHERE, 7) == ProducerState(
        epoch=0, last_sequence=41, last_timestamp=100
    )
    assert await read_producer(client, WHERE, 9) is None


async def test_everybody_whom_the_leader_remembers_is_told_with_the_epoch_of_the_last_marker() -> None:
    states = {7: {"producer_epoch": 3, "last_sequence": -1, "coordinator_epoch": 900}, 8: {}}
    client: Any = FakeClient(lambda _request: producers(states))
    assert await read_producers(client, WHERE) == {
        7: ProducerState(epoch=3, last_sequence=-1, last_timestamp=100, coordinator_epoch=900),
        8: ProducerState(epoch=0, last_sequence=4, last_timestamp=100),
    }


async def test_producers_that_may_not_be_described_are_refused() -> None:
    client: Any = FakeClient(lambda _request: producers({}, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(BrokerRefused):
        await read_producers(client, WHERE)


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
async def test_a_topic_that_metadata_refuses_is_told_by_its_code_and_not_as_one_without_a_leader(
    code: ErrorCode,
) -> None:
    client: Any = FakeClient(lambda _request: None)
    client.metadata = replace(
        client.metadata,
        topics={
            "orders": TopicMetadata(
                name="orders", topic_id="", internal=False, error=code, leaders={}, replication_factor=0
            )
        },
    )
    with pytest.raises(BrokerRefused) as refused:
        await read_span(client, WHERE)
    assert refused.value.code == code
    assert "orders" in refused.value.message
