"""Produce requests and acknowledgements, byte for byte against kafka-python in every version."""

from __future__ import annotations

import hashlib
import uuid
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.producer.produce import ProduceRequest, ProduceResponse

from heliograph.model.errors import ProtocolError
from heliograph.wire.produce import (
    PRODUCE_BY_ID_FROM,
    PRODUCE_VERSIONS,
    ProducedPartition,
    ProduceEntry,
    ProduceReply,
    decode_produce,
    encode_produce,
)

from .hostile import assert_value_or_protocol_error, mutations

Topic = ProduceRequest.TopicProduceData
AnswerTopic = ProduceResponse.TopicProduceResponse
Answer = AnswerTopic.PartitionProduceResponse

versions = st.sampled_from(PRODUCE_VERSIONS)
int16s = st.integers(-(2**15), 2**15 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
names = st.text(max_size=200)
batches = st.integers(0, 20_000).map(lambda size: memoryview(bytes(size)))


def id_of(name: str) -> bytes:
    """An id for every name, so that a reply says the same by either."""
    return hashlib.md5(name.encode(), usedforsecurity=False).digest()


entries_lists = st.lists(st.builds(ProduceEntry, names, int32s, batches), max_size=6).map(
    lambda entries: [entry._replace(topic_id=id_of(entry.topic)) for entry in entries]
)
produced = st.builds(ProducedPartition, names, int32s, int16s, int64s, int64s, st.text(max_size=20), int64s)
replies = st.builds(ProduceReply, int32s, st.lists(produced, max_size=6))
record_errors = st.lists(st.tuples(int32s, st.none() | st.text(max_size=5)), max_size=3)


def peer_request(entries: list[ProduceEntry], **settings: Any) -> Any:
    by_topic: dict[str, list[Any]] = {}
    for topic, partition, batch, _ in entries:
        one = Topic.PartitionProduceData(index=partition, records=bytes(batch))
        by_topic.setdefault(topic, []).append(one)
    topics = [
        Topic(name=name, topic_id=uuid.UUID(bytes=id_of(name)), partition_data=partitions)
        for name, partitions in by_topic.items()
    ]
    return ProduceRequest(transactional_id=None, topic_data=topics, **settings)


def peer_answer(version: int, reply: ProduceReply, errors: list[tuple[int, str | None]]) -> bytes:
    """A topic of its own for every partition: the protocol allows it and the order stays plain."""
    topics = [
        AnswerTopic(
            name=p.topic,
            topic_id=uuid.UUID(bytes=id_of(p.topic)),
            partition_responses=[peer_partition(p, errors)],
        )
        for p in reply.partitions
    ]
    endpoint = ProduceResponse.NodeEndpoint(node_id=3, host="broker", port=9092, rack=None)
    answer = ProduceResponse(responses=topics, throttle_time_ms=reply.throttle_ms, node_endpoints=[endpoint])
    return bytes(answer.encode(version=version))


def peer_partition(partition: ProducedPartition, errors: list[tuple[int, str | None]]) -> Any:
    return Answer(
        index=partition.partition,
        error_code=partition.error,
        base_offset=partition.base_offset,
        log_append_time_ms=partition.append_time,
        log_start_offset=partition.log_start_offset,
        record_errors=[
            Answer.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in errors
        ],
        error_message=partition.message or None,
        current_leader=Answer.LeaderIdAndEpoch(leader_id=3, leader_epoch=7),  # tagged, from version 10 on
    )


def names_in(reply: ProduceReply) -> dict[bytes, str]:
    return {id_of(partition.topic): partition.topic for partition in reply.partitions}


def as_version(version: int, reply: ProduceReply, errors: list[tuple[int, str | None]]) -> ProduceReply:
    """What of a reply a version can say."""
    first_of_a_record = next((message for _, message in errors if message), "")
    partitions = [
        p._replace(
            log_start_offset=p.log_start_offset if version >= 5 else -1,
            message=(p.message or first_of_a_record) if version >= 8 else "",
        )
        for p in reply.partitions
    ]
    return ProduceReply(reply.throttle_ms, partitions)


@given(version=versions, entries=entries_lists, timeout_ms=int32s, acks=st.sampled_from([-1, 0, 1]))
def test_requests_are_the_bytes_that_kafka_python_sends(
    version: int, entries: list[ProduceEntry], timeout_ms: int, acks: int
) -> None:
    peer = peer_request(entries, timeout_ms=timeout_ms, acks=acks).encode(version=version)
    buffers = encode_produce(version, entries, timeout_ms=timeout_ms, acks=acks)
    assert b"".join(buffers) == bytes(peer)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_batches_are_handed_on_and_not_copied(version: int) -> None:
    batch = memoryview(bytearray(1000))
    buffers = encode_produce(version, [ProduceEntry("t", 0, batch, id_of("t"))], timeout_ms=1)
    assert any(buffer is batch for buffer in buffers)
    assert sum(len(buffer) for buffer in buffers if buffer is not batch) < 50


@pytest.mark.parametrize("edge", [0x7F, 0x3FFF, 0x4000, 0x1F_FFFF, 0x20_0000])
def test_sizes_around_the_steps_of_their_encoding_are_right(edge: int) -> None:
    entries = [ProduceEntry("t", n, memoryview(bytes(edge + n)), id_of("t")) for n in (-2, -1, 0, 1)]
    for version in (PRODUCE_BY_ID_FROM - 1, PRODUCE_BY_ID_FROM):
        peer = peer_request(entries, timeout_ms=1, acks=-1).encode(version=version)
        assert b"".join(encode_produce(version, entries, timeout_ms=1)) == bytes(peer)


@given(version=versions, reply=replies, errors=record_errors)
def test_answers_are_read_as_kafka_python_writes_them(
    version: int, reply: ProduceReply, errors: list[tuple[int, str | None]]
) -> None:
    body = memoryview(peer_answer(version, reply, errors))
    assert decode_produce(version, body, names_in(reply)) == as_version(version, reply, errors)


def test_several_partitions_of_one_topic_come_in_order() -> None:
    numbered = [ProducedPartition("t", n, 0, n, 0, "") for n in range(200)]
    topic = AnswerTopic(
        name="t",
        topic_id=uuid.UUID(bytes=id_of("t")),
        partition_responses=[peer_partition(p, []) for p in numbered],
    )
    for version in PRODUCE_VERSIONS:
        answer = ProduceResponse(responses=[topic], throttle_time_ms=0).encode(version=version)
        expected = as_version(version, ProduceReply(0, numbered), [])
        assert decode_produce(version, memoryview(bytes(answer)), {id_of("t"): "t"}) == expected


def test_an_answer_about_a_topic_that_was_not_sent_is_refused() -> None:
    reply = ProduceReply(0, [ProducedPartition("t", 0, 0, 0, 0, "")])
    body = memoryview(peer_answer(PRODUCE_BY_ID_FROM, reply, []))
    with pytest.raises(ProtocolError, match=id_of("t").hex()):
        decode_produce(PRODUCE_BY_ID_FROM, body, {id_of("u"): "u"})


def test_two_topics_of_one_name_stay_apart_by_their_ids() -> None:
    """One was deleted and created again while the other was on its way."""
    batch = memoryview(b"x")
    entries = [ProduceEntry("t", 0, batch, id_of("old")), ProduceEntry("t", 1, batch, id_of("new"))]
    sent = b"".join(encode_produce(PRODUCE_BY_ID_FROM, entries, timeout_ms=1))
    assert id_of("old") in sent
    assert id_of("new") in sent


def test_an_entry_without_an_id_cannot_go_by_id() -> None:
    with pytest.raises(AssertionError):
        encode_produce(PRODUCE_BY_ID_FROM, [ProduceEntry("t", 0, memoryview(b""))], timeout_ms=1)


@given(version=versions, reply=replies)
def test_bytes_left_over_are_refused(version: int, reply: ProduceReply) -> None:
    with pytest.raises(ProtocolError, match="too many"):
        decode_produce(version, memoryview(peer_answer(version, reply, []) + b"\0"), names_in(reply))


@given(version=versions, reply=replies, data=st.data())
def test_an_answer_cut_anywhere_is_refused(version: int, reply: ProduceReply, data: st.DataObject) -> None:
    body = peer_answer(version, reply, [(0, "why")])
    size = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(ProtocolError):
        decode_produce(version, memoryview(body)[:size], names_in(reply))


@given(version=versions, body=st.binary(max_size=400))
def test_random_bytes_are_refused_or_read(version: int, body: bytes) -> None:
    assert_value_or_protocol_error(decode_produce, version, body)


@given(version=versions, reply=replies, mutation=mutations)
def test_mutated_answers_are_refused_or_read(version: int, reply: ProduceReply, mutation: Any) -> None:
    decode = partial(decode_produce, names=names_in(reply))
    assert_value_or_protocol_error(decode, version, mutation(peer_answer(version, reply, [(1, "x")])))
