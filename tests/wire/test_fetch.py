"""Fetch requests and answers, byte for byte against kafka-python in every version."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse

from heliograph.model.errors import ProtocolError
from heliograph.wire.fetch import (
    FETCH_ISOLATED_FROM,
    FETCH_VERSIONS,
    FetchedPartition,
    FetchReply,
    FetchWant,
    decode_fetch,
)
from heliograph.wire.fetch_request import FetchAsk, encode_fetch

from .hostile import assert_value_or_protocol_error, mutations

Topic = FetchRequest.FetchTopic
Forgotten = FetchRequest.ForgottenTopic
AnswerTopic = FetchResponse.FetchableTopicResponse
Answer = AnswerTopic.PartitionData

versions = st.sampled_from(FETCH_VERSIONS)
int16s = st.integers(-(2**15), 2**15 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
names = st.text(max_size=200)
bare_wants = st.builds(FetchWant, names, int32s, int64s, int32s, int32s, int32s)
wants_lists = st.lists(
    bare_wants.map(lambda want: want._replace(topic_id=id_of(want.topic).bytes)), max_size=6
)
asks = st.builds(FetchAsk, wants_lists, wants_lists, int32s, int32s, st.none())
pairs = st.none() | st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
fetched = st.builds(
    FetchedPartition,
    names,
    int32s,
    int16s,
    int64s,
    int64s,
    int64s,
    int32s,
    st.binary(max_size=300).map(memoryview),
    pairs,
    pairs,
    st.lists(st.tuples(int64s, int64s), max_size=3).map(tuple),
)
replies = st.builds(FetchReply, int32s, int16s, st.lists(fetched, max_size=6), st.just(True), int32s)


def id_of(topic: str) -> UUID:
    """Every name has an id of its own."""
    return uuid5(UUID(int=1), topic)


def peer_request(ask: FetchAsk, **settings: Any) -> Any:
    by_topic: dict[str, list[Any]] = {}
    for want in ask.wants:
        partition = Topic.FetchPartition(
            partition=want.partition,
            current_leader_epoch=want.leader_epoch,
            fetch_offset=want.next_offset,
            last_fetched_epoch=want.last_fetched_epoch,
            log_start_offset=-1,
            partition_max_bytes=want.max_bytes,
        )
        by_topic.setdefault(want.topic, []).append(partition)
    topics = [
        Topic(topic=topic, topic_id=id_of(topic), partitions=partitions)
        for topic, partitions in by_topic.items()
    ]
    forgotten: dict[str, list[int]] = {}
    for want in ask.forgotten:
        forgotten.setdefault(want.topic, []).append(want.partition)
    session = {
        "session_id": ask.session_id,
        "session_epoch": ask.session_epoch,
        "forgotten_topics_data": [
            Forgotten(topic=topic, topic_id=id_of(topic), partitions=partitions)
            for topic, partitions in forgotten.items()
        ],
        "rack_id": "",
    }
    return FetchRequest(replica_id=-1, topics=topics, **settings, **session)


def peer_partition(partition: FetchedPartition, none_aborted: list[Any] | None = None) -> Any:
    """`none_aborted`: how it is said that there are none."""
    tags: dict[str, Any] = {}
    if partition.diverging_epoch:
        epoch, end_offset = partition.diverging_epoch
        tags["diverging_epoch"] = Answer.EpochEndOffset(epoch=epoch, end_offset=end_offset)
    if partition.current_leader:
        leader_id, leader_epoch = partition.current_leader
        tags["current_leader"] = Answer.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
    return Answer(
        partition_index=partition.partition,
        error_code=partition.error,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log_start_offset,
        preferred_read_replica=partition.preferred_read_replica,
        records=bytes(partition.records) or None,
        aborted_transactions=[
            Answer.AbortedTransaction(producer_id=a, first_offset=b) for a, b in partition.aborted
        ]
        or none_aborted,
        **tags,
    )


def peer_answer(version: int, reply: FetchReply, none_aborted: list[Any] | None = None) -> bytes:
    """A topic of its own for every partition: the protocol allows it and the order stays plain."""
    topics = [
        AnswerTopic(topic=p.topic, topic_id=id_of(p.topic), partitions=[peer_partition(p, none_aborted)])
        for p in reply.partitions
    ]
    answer = FetchResponse(
        throttle_time_ms=reply.throttle_ms,
        error_code=reply.error,
        session_id=reply.session_id,
        responses=topics,
    )
    return bytes(answer.encode(version=version))


def names_in(reply: FetchReply) -> dict[bytes, str]:
    return {id_of(partition.topic).bytes: partition.topic for partition in reply.partitions}


def as_version(version: int, reply: FetchReply) -> FetchReply:
    """What of a reply a version can say."""
    partitions = [
        p._replace(
            last_stable_offset=p.last_stable_offset if version >= 4 else -1,
            aborted=p.aborted if version >= 4 else (),
            log_start_offset=p.log_start_offset if version >= 5 else -1,
            preferred_read_replica=p.preferred_read_replica if version >= 11 else -1,
            diverging_epoch=p.diverging_epoch if version >= 12 else None,
            current_leader=p.current_leader if version >= 12 else None,
        )
        for p in reply.partitions
    ]
    error, session_id = (reply.error, reply.session_id) if version >= 7 else (0, 0)
    throttle_ms = reply.throttle_ms if version >= 1 else 0
    return FetchReply(throttle_ms, error, partitions, version >= 12, session_id)


@given(version=versions, ask=asks, wait=int32s, least=int32s, most=int32s, committed=st.booleans())
def test_requests_are_the_bytes_that_kafka_python_sends(
    version: int, ask: FetchAsk, wait: int, least: int, most: int, committed: bool
) -> None:
    limits = {"max_wait_ms": wait, "min_bytes": least, "max_bytes": most}
    if version < 7:  # there are no sessions; kafka-python refuses to leave out what is to be forgotten
        peer = peer_request(ask._replace(forgotten=[]), isolation_level=int(committed), **limits)
    else:
        peer = peer_request(ask, isolation_level=int(committed), **limits)
    assert encode_fetch(version, ask, read_committed=committed, **limits) == bytes(
        peer.encode(version=version)
    )


@given(version=versions, reply=replies, none_aborted=st.sampled_from([None, []]))
def test_answers_are_read_as_kafka_python_writes_them(
    version: int, reply: FetchReply, none_aborted: list[Any] | None
) -> None:
    body = memoryview(peer_answer(version, reply, none_aborted))
    assert decode_fetch(version, body, names_in(reply)) == as_version(version, reply)


def test_several_partitions_of_one_topic_come_in_order() -> None:
    numbered = [
        FetchedPartition("t", n, 0, 9, 9, -1, -1, memoryview(b"r%d" % n), None, None) for n in range(200)
    ]
    topic = AnswerTopic(topic="t", topic_id=id_of("t"), partitions=[peer_partition(p) for p in numbered])
    for version in FETCH_VERSIONS:
        answer = FetchResponse(throttle_time_ms=0, error_code=0, session_id=0, responses=[topic])
        body = memoryview(bytes(answer.encode(version=version)))
        said = as_version(version, FetchReply(0, 0, numbered)).partitions
        assert decode_fetch(version, body, {id_of("t").bytes: "t"}).partitions == said


def test_a_list_of_aborted_transactions_longer_than_the_answer_is_refused_before_it_is_read() -> None:
    partition = FetchedPartition("t", 0, 0, 1, 1, 0, -1, memoryview(b""), None, None, ((7, 3),))
    for version in FETCH_VERSIONS[FETCH_ISOLATED_FROM:]:
        body = peer_answer(version, FetchReply(0, 0, [partition]))
        one = b"\x02" if version >= 12 else b"\0\0\0\x01"
        listed = (7).to_bytes(8, "big") + (3).to_bytes(8, "big")
        assert one + listed in body
        many = b"\xff\xff\xff\xff\x0f" if version >= 12 else b"\x7f\xff\xff\xff"
        with pytest.raises(ProtocolError, match="an array of"):
            decode_fetch(
                version, memoryview(body.replace(one + listed, many + listed)), {id_of("t").bytes: "t"}
            )


def test_records_are_a_view_into_the_answer() -> None:
    partition = FetchedPartition("t", 0, 0, 1, 1, 0, -1, memoryview(b"records"), None, None)
    for version in FETCH_VERSIONS:
        reply = FetchReply(0, 0, [partition])
        body = memoryview(bytearray(peer_answer(version, reply)))
        [got] = decode_fetch(version, body, names_in(reply)).partitions
        assert got.records.obj is body.obj


def test_a_tagged_field_with_the_protocols_default_says_no_more_than_its_absence() -> None:
    partition = FetchedPartition("t", 0, 0, 1, 1, 0, -1, memoryview(b""), (4, 5), None)
    body = peer_answer(12, FetchReply(0, 0, [partition]))
    tag = b"\x00\x0d" + (4).to_bytes(4, "big") + (5).to_bytes(8, "big") + b"\0"
    assert tag in body
    default = body.replace(tag, b"\x00\x0d" + b"\xff" * 12 + b"\0")
    assert decode_fetch(12, memoryview(default)).partitions[0].diverging_epoch is None


def test_unknown_tagged_fields_are_passed_over() -> None:
    partition = FetchedPartition("t", 0, 0, 1, 1, 0, -1, memoryview(b"r"), None, None)
    body = peer_answer(12, FetchReply(0, 0, [partition]))
    assert body.endswith(b"\x02r\0\0\0")
    unknown = b"\x02\x63\x03abc\xe7\x07\x00"
    grown = body[:-3] + unknown * 3
    assert decode_fetch(12, memoryview(grown)) == FetchReply(0, 0, [partition])


@given(version=versions, reply=replies)
def test_bytes_left_over_are_refused(version: int, reply: FetchReply) -> None:
    with pytest.raises(ProtocolError, match="too many"):
        decode_fetch(version, memoryview(peer_answer(version, reply) + b"\0"), names_in(reply))


@given(version=versions, reply=replies, data=st.data())
def test_an_answer_cut_anywhere_is_refused(version: int, reply: FetchReply, data: st.DataObject) -> None:
    body = peer_answer(version, reply)
    size = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(ProtocolError):
        decode_fetch(version, memoryview(body)[:size], names_in(reply))


def test_an_answer_about_a_topic_that_was_not_asked_for_is_refused() -> None:
    partition = FetchedPartition("t", 0, 0, 1, 1, 0, -1, memoryview(b""), None, None)
    with pytest.raises(ProtocolError, match="not in the request"):
        decode_fetch(13, memoryview(peer_answer(13, FetchReply(0, 0, [partition]))))


@given(version=versions, body=st.binary(max_size=400))
def test_random_bytes_are_refused_or_read(version: int, body: bytes) -> None:
    assert_value_or_protocol_error(decode_fetch, version, body)


@given(version=versions, reply=replies, mutation=mutations)
def test_mutated_answers_are_refused_or_read(version: int, reply: FetchReply, mutation: Any) -> None:
    assert_value_or_protocol_error(decode_fetch, version, mutation(peer_answer(version, reply)))
