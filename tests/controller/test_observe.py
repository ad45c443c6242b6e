"""Observe: a few requests to each broker, however many partitions there are, and no broker spoils another's."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from heliograph.cluster.by_leader import PORTION, PORTIONS_AT_ONCE
from heliograph.controller import sights
from heliograph.controller.clusters import Clusters
from heliograph.controller.observe import observe
from heliograph.controller.plan import plan
from heliograph.controller.snapshot import LinkSnapshot, PartitionSight
from heliograph.controller.status import status_document
from heliograph.model.admission import LastBatch
from heliograph.model.link import Link
from heliograph.model.partition import TopicPartition
from heliograph.model.producer_id import producer_id
from heliograph.model.settings import Settings
from heliograph.wire.api_keys import ApiKey
from heliograph.wire.batch import Codec
from heliograph.wire.error_codes import ErrorCode
from tests.cluster.counted_cluster import CountedCluster, PlayedLog
from tests.wire.batches import make_batch, make_control_batch

LINK = Link(name="sf-to-nyc", source="sf", target="nyc", topics=(".*",))
BROKERS = 3
TOPICS, PARTITIONS = 50, 20
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
OF_PARTITIONS = (ApiKey.LIST_OFFSETS, ApiKey.DESCRIBE_PRODUCERS, ApiKey.FETCH)


def ours(topic: str) -> int:
    return producer_id("sf-id", topic)


def mirrored(topic: str, end: int, *, value: bytes = b"value") -> PlayedLog:
    """A target log of ours, of batches with two records each."""
    batches = {
        base: bytes(
            make_batch([(None, value, [])] * 2, base_offset=base, producer_id=ours(topic), base_sequence=base)
        )
        for base in range(max(end - 4, 0), end, 2)
    }
    return PlayedLog(end=end, batches=batches, producers={ours(topic): end - 1})


def source_log(end: int, *, next_offset: int = 0, age_ms: int = 0) -> PlayedLog:
    """From `next_offset` on a batch with this age."""
    batch = make_batch([(None, b"value", [])], base_offset=next_offset, timestamp=NOW_MS - age_ms)
    return PlayedLog(end=end, stable_end=end, batches={next_offset: bytes(batch)})


def names(count: int = TOPICS) -> list[str]:
    return [f"topic-{number}" for number in range(count)]


def a_pair(partitions: int = PARTITIONS, topics: int = TOPICS) -> tuple[CountedCluster, CountedCluster]:
    """All partitions are mirrored up to 6 of 10."""
    source = CountedCluster(
        "sf",
        BROKERS,
        {name: [source_log(10, next_offset=6, age_ms=5_000)] * partitions for name in names(topics)},
    )
    target = CountedCluster(
        "nyc", BROKERS, {name: [mirrored(name, 6)] * partitions for name in names(topics)}
    )
    return source, target


@contextlib.asynccontextmanager
async def both_running(*pair: CountedCluster) -> AsyncIterator[None]:
    async with contextlib.AsyncExitStack() as stack:
        for cluster in pair:
            await stack.enter_async_context(cluster.running())
        yield


async def seen_of(source: CountedCluster, target: CountedCluster) -> LinkSnapshot:
    async with source.client() as here, target.client() as there:
        source.asked.clear()
        target.asked.clear()
        return await observe(LINK, here, there)


def every_sight(snapshot: LinkSnapshot) -> dict[TopicPartition, PartitionSight]:
    return {
        TopicPartition(topic.name, number): sight
        for topic in snapshot.sources
        for number, sight in topic.partitions.items()
    }


def asked_of(cluster: CountedCluster, node: int) -> Counter[ApiKey]:
    return Counter({key: count for (broker, key), count in cluster.counts().items() if broker == node})


# -- how much is asked


async def test_a_thousand_partitions_take_six_requests_to_a_target_broker_and_four_to_a_source_broker() -> (
    None
):
    source, target = a_pair()
    async with both_running(source, target):
        sights = every_sight(await seen_of(source, target))
    assert len(sights) == TOPICS * PARTITIONS
    assert all(sight.unreadable is None for sight in sights.values())
    for node in range(BROKERS):
        there, here = asked_of(target, node), asked_of(source, node)
        assert [there[key] for key in OF_PARTITIONS] == [3, 2, 1]
        assert [here[key] for key in OF_PARTITIONS] == [4, 0, 0]
    # Metadata twice and configs of topics from each cluster, the rest is of partitions or of brokers' configs.
    assert len(source.asked) + len(target.asked) <= 50


async def test_a_broker_is_asked_about_many_partitions_in_portions() -> None:
    source, target = a_pair(partitions=BROKERS * (PORTION + 1), topics=1)
    async with both_running(source, target):
        sights = every_sight(await seen_of(source, target))
    assert all(sight.unreadable is None for sight in sights.values())
    for node in range(BROKERS):
        assert [asked_of(target, node)[key] for key in OF_PARTITIONS] == [6, 4, 2]


async def test_status_reads_the_age_of_what_lags_of_many_partitions_at_once() -> None:
    source, target = a_pair()
    async with both_running(source, target):
        servers = {
            each.name: {"bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in each.ports.values())}
            for each in (source, target)
        }
        clusters = Clusters(Settings(clusters=servers, links=(LINK,)))
        try:
            surveyed = await clusters.survey()
            source.asked.clear()
            document = await status_document(surveyed, clusters, [], NOW)
        finally:
            await clusters.aclose()
    (link,) = document["links"]
    rows = link["partitions"]
    assert len(rows) == TOPICS * PARTITIONS
    assert {(row["lag_records"], row["lag_ms"], row["error"]) for row in rows} == {(4, 5_000, None)}
    assert source.counts() == {(node, ApiKey.FETCH): 1 for node in range(BROKERS)}


# -- what is seen


async def test_each_partition_is_seen_as_its_own_logs_are() -> None:
    marker = bytes(make_control_batch(0, base_offset=5, producer_id=1))
    foreign = bytes(make_batch([(None, b"x", [])], base_offset=5, producer_id=9, base_sequence=0))
    own = {ours("orders"): 5}
    logs = [
        mirrored("orders", 6),
        PlayedLog(),
        PlayedLog(start=6, end=6, producers=own),
        PlayedLog(end=6, batches={5: marker}, producers=own),
        PlayedLog(end=6, batches={5: foreign}),
        PlayedLog(end=6, high_watermark=5, batches={4: foreign}),
    ]
    target = CountedCluster("nyc", BROKERS, {"orders": logs})
    here = [replace(source_log(10), stable_end=8)] * (len(logs) + 1)
    source = CountedCluster("sf", BROKERS, {"orders": here})
    async with both_running(source, target):
        (topic,) = (await seen_of(source, target)).sources
    seen = topic.partitions
    assert all(sight.source is not None and sight.source.end == 10 for sight in seen.values())
    assert {sight.source_end for sight in seen.values()} == {8}
    assert [sight.target.end if sight.target else None for sight in seen.values()] == [6, 0, 6, 6, 6, 6, None]
    assert seen[0].last_batch == LastBatch(producer_id=ours("orders"), last_sequence=5)
    assert [sight.producer.last_sequence if sight.producer else None for sight in seen.values()] == [
        *(5, None, 5, 5),
        *(None, None, None),
    ]
    assert [seen[number].last_batch for number in (1, 2)] == [None, None]
    assert seen[3].ends_in_gap
    assert seen[4].last_batch == LastBatch(producer_id=9, last_sequence=0)
    assert [sight.unreadable for sight in seen.values()] == [
        *(None, None, None),
        *(None, None, sights.BEING_WRITTEN),
        None,
    ]


@pytest.mark.parametrize("size_bytes", [20_000, 300_000, 3_000_000])
async def test_last_batches_of_any_size_are_seen_among_small_ones(size_bytes: int) -> None:
    logs = [mirrored("orders", 6, value=b"x" * (size_bytes // 2 if nth % 2 else 10)) for nth in range(24)]
    target = CountedCluster("nyc", BROKERS, {"orders": logs})
    source = CountedCluster("sf", BROKERS, {"orders": [source_log(6)] * len(logs)})
    async with both_running(source, target):
        seen = every_sight(await seen_of(source, target))
    expected = LastBatch(producer_id=ours("orders"), last_sequence=5)
    assert {sight.last_batch for sight in seen.values()} == {expected}


# -- what is not seen


def readable(snapshot: LinkSnapshot) -> dict[int, bool]:
    """By the broker that leads them, whether all of its partitions could be read, or none."""
    found: dict[int, set[bool]] = {}
    for where, sight in every_sight(snapshot).items():
        found.setdefault(where.partition % BROKERS, set()).add(sight.unreadable is None)
    assert all(len(each) == 1 for each in found.values())
    return {node: each.pop() for node, each in found.items()}


async def test_a_broker_that_is_away_leaves_the_partitions_of_all_others_to_be_seen() -> None:
    for concerned in (0, 1):
        pair = a_pair()
        async with both_running(*pair):
            await pair[concerned].take_away(2)
            snapshot = await seen_of(*pair)
        assert readable(snapshot) == {0: True, 1: True, 2: False}
        assert plan([snapshot]).refusals == ()


async def test_a_broker_that_hangs_is_waited_for_once_and_not_for_each_of_its_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sights, "FIRST_ANSWERS_S", 0.3)
    source, target = a_pair(partitions=BROKERS * PORTION * 3, topics=1)
    async with both_running(source, target), source.client() as here, target.client() as there:
        await observe(LINK, here, there)  # all connections are open
        target.asked.clear()
        target.mute.add(2)
        found = await sights.read_sights(here, there, _all_of("topic-0", source))
    unread = {where.partition % BROKERS for where, sight in found.items() if sight.unreadable is not None}
    assert unread == {2}
    assert all(sight.source is not None for sight in found.values())
    assert asked_of(target, 2)[ApiKey.DESCRIBE_PRODUCERS] <= PORTIONS_AT_ONCE
    assert asked_of(target, 2)[ApiKey.LIST_OFFSETS] == 0


def _all_of(topic: str, source: CountedCluster) -> list[sights.Pair]:
    wheres = [TopicPartition(topic, number) for number in range(len(source.topics[topic]))]
    return [sights.Pair(source=where, target=where, own_id=ours(topic), committed=True) for where in wheres]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    ],
)
async def test_what_may_pass_is_asked_again_after_metadata_was_read_and_of_nobody_else(
    code: ErrorCode,
) -> None:
    source, target = a_pair()
    concerned = TopicPartition("topic-7", 4)
    for cluster in (source, target):
        cluster.refusals[concerned] = [code]
    async with both_running(source, target):
        seen = every_sight(await seen_of(source, target))
    assert all(sight.unreadable is None for sight in seen.values())
    node = concerned.partition % BROKERS
    assert [asked_of(target, node)[key] for key in OF_PARTITIONS] == [6, 4, 2]
    assert all(asked_of(target, other)[ApiKey.FETCH] == 1 for other in range(BROKERS) if other != node)


async def test_what_does_not_pass_makes_that_partition_unreadable_and_no_other() -> None:
    source, target = a_pair()
    denied, moved = TopicPartition("topic-7", 4), TopicPartition("topic-8", 4)
    target.refusals = {
        denied: [ErrorCode.TOPIC_AUTHORIZATION_FAILED],
        moved: [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2,
    }
    async with both_running(source, target):
        seen = every_sight(await seen_of(source, target))
    unread = {where: sight.unreadable for where, sight in seen.items() if sight.unreadable is not None}
    assert unread == {
        denied: "producers of topic-7:4 from broker 1: TOPIC_AUTHORIZATION_FAILED",
        moved: "producers of topic-8:4 from broker 1: NOT_LEADER_OR_FOLLOWER",
    }
    assert seen[denied].source is not None


async def test_a_last_batch_that_makes_no_sense_makes_that_partition_unreadable_and_no_other() -> None:
    source, target = a_pair(partitions=6, topics=1)
    says_zstd = make_batch([(None, b"value", [])], base_offset=5, attributes=Codec.ZSTD)
    target.topics["topic-0"][3] = PlayedLog(end=6, batches={5: bytes(says_zstd)})
    async with both_running(source, target):
        seen = every_sight(await seen_of(source, target))
    assert [number for (_, number), sight in seen.items() if sight.unreadable is not None] == [3]
