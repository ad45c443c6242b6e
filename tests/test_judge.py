"""The judge is judged: one topic pair per planted defect on real brokers, each found and named."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from heliograph.lab.cluster import LabCluster
from tests.support.judge import Verdict, assert_identical, compare
from tests.support.log_reader import Undecided
from tests.support.records import FIRST_MS, Record
from tests.support.topics import create_topic, delete_records
from tests.support.workload import ConfirmedProducer, produce_mixed, produce_records, produce_transaction

pytestmark = pytest.mark.kafka

GOOD = tuple(
    Record(
        key=b"key-%d" % number,
        value=b"value-%d" % number,
        headers=(("a", b"1"), ("b", b"2")),
        timestamp_ms=FIRST_MS + number,
    )
    for number in range(5)
)
NOTHING: Mapping[str, str] = {}

PairJudge = Callable[..., Verdict]


@pytest.fixture(scope="module")
def judge_pair(
    source_cluster: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> PairJudge:
    """Puts records on both sides of a fresh topic, one partition, and compares."""

    def judge(
        target_records: tuple[Record, ...],
        source_records: tuple[Record, ...] = GOOD,
        target_configs: Mapping[str, str] = NOTHING,
    ) -> Verdict:
        topic = unique_topic("judged")
        create_topic(source_cluster.bootstrap_servers, topic)
        create_topic(target_cluster.bootstrap_servers, topic, configs=target_configs)
        produce_records(source_cluster.bootstrap_servers, topic, source_records)
        produce_records(target_cluster.bootstrap_servers, topic, target_records)
        return compare(source_cluster.bootstrap_servers, target_cluster.bootstrap_servers, [topic])

    return judge


def changed(number: int, **fields: object) -> tuple[Record, ...]:
    """The good records with one of them changed."""
    return (*GOOD[:number], replace(GOOD[number], **fields), *GOOD[number + 1 :])  # type: ignore[arg-type]


def assert_one_difference(verdict: Verdict, *parts: str) -> None:
    assert not verdict.identical
    assert verdict.different == len(verdict.differences) == 1, verdict.differences
    assert all(part in verdict.differences[0] for part in parts), verdict.differences


def test_equal_logs_are_identical(judge_pair: PairJudge) -> None:
    assert judge_pair(GOOD) == Verdict(identical=True, records=5, different=0, differences=())


def test_a_missing_last_record_is_found(judge_pair: PairJudge) -> None:
    verdict = judge_pair(GOOD[:-1])
    assert not verdict.identical
    assert verdict.records == 5
    end, record = verdict.differences
    assert "[0] log end: source 5, target 4" in end
    assert "[0]@4 record: source b'value-4', target has none" in record


def test_an_extra_record_is_found(judge_pair: PairJudge) -> None:
    verdict = judge_pair((*GOOD, GOOD[0]))
    assert not verdict.identical
    end, record = verdict.differences
    assert "log end: source 5, target 6" in end
    assert "@5 record: source has none, target b'value-0'" in record


def test_a_record_lost_in_the_middle_is_found(judge_pair: PairJudge) -> None:
    verdict = judge_pair((*GOOD[:2], *GOOD[3:]))
    assert "@2 value: source b'value-2', target b'value-3'" in " ".join(verdict.differences)
    assert "log end: source 5, target 4" in " ".join(verdict.differences)


def test_a_swapped_pair_is_found(judge_pair: PairJudge) -> None:
    verdict = judge_pair((GOOD[0], GOOD[2], GOOD[1], *GOOD[3:]))
    assert {difference.split(": source")[0].partition("[0]")[2] for difference in verdict.differences} == {
        f"@{offset} {field}" for offset in (1, 2) for field in ("timestamp_ms", "key", "value")
    }


PLANTED = {
    "value": (changed(3, value=b"other"), "@3 value: source b'value-3', target b'other'"),
    "key": (changed(0, key=b"other"), "@0 key: source b'key-0', target b'other'"),
    "timestamp": (changed(4, timestamp_ms=FIRST_MS), f"source {FIRST_MS + 4}, target {FIRST_MS}"),
    "header value": (changed(1, headers=(("a", b"1"), ("b", b"3"))), "@1 headers: source (('a', b'1'),"),
    "header name": (changed(1, headers=(("a", b"1"), ("c", b"2"))), "@1 headers: source (('a', b'1'),"),
    "header order": (changed(1, headers=(("b", b"2"), ("a", b"1"))), "target (('b', b'2'), ('a', b'1'))"),
    "headers gone": (changed(1, headers=()), "@1 headers: source (('a', b'1'), ('b', b'2')), target ()"),
    "header repeated": (changed(1, headers=(*GOOD[1].headers, ("b", b"2"))), "('b', b'2'), ('b', b'2'))"),
}


@pytest.mark.parametrize("defect", PLANTED)
def test_a_changed_field_is_found_and_named(judge_pair: PairJudge, defect: str) -> None:
    target_records, words = PLANTED[defect]
    assert_one_difference(judge_pair(target_records), words)


NULL_AND_EMPTY = {
    "key": (Record(key=None, value=b"v"), Record(key=b"", value=b"v")),
    "value": (Record(key=b"k", value=None), Record(key=b"k", value=b"")),
    "headers": (Record(headers=(("h", None),)), Record(headers=(("h", b""),))),
}


@pytest.mark.parametrize("field", NULL_AND_EMPTY)
def test_null_is_not_empty(judge_pair: PairJudge, field: str) -> None:
    null, empty = NULL_AND_EMPTY[field]
    verdict = judge_pair(source_records=(null, empty), target_records=(empty, null))
    assert [difference.partition("[0]")[2][:12] for difference in verdict.differences] == [
        f"@{offset} {field}: source"[:12] for offset in (0, 1)
    ]
    assert "None" in verdict.differences[0].partition("target")[0]
    assert "b''" in verdict.differences[0].partition("target")[2]


def test_log_append_time_is_found_by_its_type(judge_pair: PairJudge) -> None:
    verdict = judge_pair(GOOD[:1], GOOD[:1], target_configs={"message.timestamp.type": "LogAppendTime"})
    kind, timestamp = verdict.differences
    assert "@0 timestamp_type: source 'CreateTime', target 'LogAppendTime'" in kind
    assert "@0 timestamp_ms" in timestamp


def test_many_differences_are_counted_and_the_first_ones_named(judge_pair: PairJudge) -> None:
    source_records = tuple(Record(value=b"%d" % number) for number in range(30))
    target_records = tuple(replace(record, value=b"x" * 900) for record in source_records)
    verdict = judge_pair(target_records, source_records)
    assert verdict.different == 30
    assert len(verdict.differences) == 20
    assert max(map(len, verdict.differences)) < 200
    assert "(900 bytes)" in verdict.differences[0]


@pytest.fixture(scope="module")
def both(source_cluster: LabCluster, target_cluster: LabCluster) -> tuple[str, str]:
    return source_cluster.bootstrap_servers, target_cluster.bootstrap_servers


def test_a_record_on_another_partition_is_found(
    both: tuple[str, str], unique_topic: Callable[[str], str]
) -> None:
    topic = unique_topic("other-partition")
    for partition, bootstrap in enumerate(both):
        create_topic(bootstrap, topic, partitions=2)
        produce_records(bootstrap, topic, GOOD[:1], partition=partition)
    words = " ".join(compare(*both, topic).differences)
    assert "[0]@0 record: source b'value-0', target has none" in words
    assert "[1]@0 record: source has none, target b'value-0'" in words


def test_another_log_start_is_found(both: tuple[str, str], unique_topic: Callable[[str], str]) -> None:
    topic = unique_topic("other-start")
    for bootstrap in both:
        create_topic(bootstrap, topic)
        produce_records(bootstrap, topic, GOOD)
    delete_records(both[0], topic, 0, before_offset=1)
    start, record = compare(*both, [topic]).differences
    assert "[0] log start: source 1, target 0" in start
    assert "[0]@0 record: source has none" in record
    delete_records(both[1], topic, 0, before_offset=1)
    assert_identical(*both, [topic], records=4)


def test_another_number_of_partitions_is_found(
    both: tuple[str, str], unique_topic: Callable[[str], str]
) -> None:
    topic = unique_topic("partitions")
    for partitions, bootstrap in zip((3, 2), both, strict=True):
        create_topic(bootstrap, topic, partitions=partitions)
    assert_one_difference(compare(*both, [topic]), topic, "number of partitions: source 3, target 2")


def test_a_topic_that_is_not_there_is_a_difference(
    both: tuple[str, str], unique_topic: Callable[[str], str]
) -> None:
    topic = unique_topic("absent")
    assert_one_difference(compare(*both, [topic]), "number of partitions: source None, target None")
    create_topic(both[0], topic)
    assert_one_difference(compare(*both, {topic: "absent"}), f"{topic} -> absent", "source 1, target None")
    with pytest.raises(AssertionError, match="1 differences in 0 records"):
        assert_identical(*both, [topic])


def test_aborted_records_and_markers_at_the_end_are_passed(
    both: tuple[str, str], unique_topic: Callable[[str], str]
) -> None:
    topic = unique_topic("transactions")
    create_topic(both[0], topic)
    produce_transaction(both[0], topic, GOOD[:2])
    produce_transaction(both[0], topic, GOOD[2:], commit=False)
    assert_identical(both[0], both[0], [topic], records=2, timeout_s=20)


def test_an_open_transaction_ends_the_log_before_it(
    both: tuple[str, str], unique_topic: Callable[[str], str]
) -> None:
    topic = unique_topic("open")
    create_topic(both[0], topic)
    produce_records(both[0], topic, GOOD[:3])
    producer = ConfirmedProducer(both[0], **{"transactional.id": topic})
    producer.client.init_transactions(30)
    producer.client.begin_transaction()
    producer.send(topic, 0, GOOD[3])
    producer.confirm()
    try:
        assert_identical(both[0], both[0], [topic], records=3, timeout_s=20)
    finally:
        producer.client.abort_transaction(30)


def test_no_topic_at_all_is_no_verdict(both: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="no topic"):
        compare(*both, [])


def test_a_silent_cluster_ends_in_time_and_says_where(
    both: tuple[str, str], target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    topic = unique_topic("silent")
    create_topic(both[0], topic)
    broker = target_cluster.brokers[0]
    broker.freeze()
    try:
        started_at = time.monotonic()
        with pytest.raises(Undecided, match=f"{both[1]} {topic}"):
            compare(*both, [topic], timeout_s=3)
        assert time.monotonic() - started_at < 15
    finally:
        broker.thaw()
    broker.wait_until_up()


def test_a_large_mixed_topic_is_read_in_seconds(
    both: tuple[str, str], unique_topic: Callable[[str], str]
) -> None:
    topic = unique_topic("large")
    create_topic(both[0], topic, partitions=3)
    assert produce_mixed(both[0], topic, count=60_000, seed=1) == 60_000
    assert_identical(both[0], both[0], [topic], records=60_000, timeout_s=60)
