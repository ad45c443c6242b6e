"""Whether the fillers of a topic are gone, asked of every replica; and what is said of a cleaner that does nothing."""

from __future__ import annotations

from collections import Counter
from typing import cast

import pytest

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.log_reads import Batches, LogSpan
from heliograph.cluster.metadata import Leader
from heliograph.cluster.replica_reads import Replicas
from heliograph.controller import cleaning as module
from heliograph.controller import replica_fillers
from heliograph.controller.cleaning import STILL_LIMIT_S, TELL_S, CleanerIdle, CleanerWatch, Cleaning
from heliograph.model.errors import BrokerRefused, Disconnected
from heliograph.model.partition import TopicPartition
from heliograph.wire.batch import read_header
from heliograph.wire.error_codes import ErrorCode
from heliograph.wire.filler import filler_batch
from tests.wire.batches import make_batch

ID = "id of the topic"
RECORDS = [(b"key", b"value", ())] * 3


def filled(base_offset: int, count: int) -> memoryview:
    batch = filler_batch(count, producer_id=1, producer_epoch=0, base_sequence=0, timestamp_ms=1)
    batch[:8] = base_offset.to_bytes(8, "big")
    return memoryview(batch)


class Brokers:
    """Each has a copy of one partition: 3 records, then fillers up to 10, then 3 records; others have no fillers.
    `rounds`: after how many looks at all replicas each broker has removed them."""

    def __init__(self, **rounds: int) -> None:
        self.rounds = {int(name[1:]): rounds[name] for name in rounds}
        self.configs = {"log.cleaner.enable": "true"}
        self.now = 0.0
        self.look_s = 0.0  # between two looks
        self.topic_id = ID
        self.partitions = 1
        self.shown: dict[int, int] = {}  # by broker, up to where it shows its copy; others show all
        self.unwell: dict[int, list[Exception]] = {}  # by broker, what its next answers are
        self.untold: dict[int, list[Exception]] = {}  # the same when it is asked for its configs
        self.asked: Counter[tuple[TopicPartition, int]] = Counter()

    def leader(self, _where: TopicPartition) -> Leader:
        return Leader(1, 0)

    async def replicas(self, _client: object, _topic: str) -> Replicas:
        self.now += self.look_s
        self.rounds = {node: left - 1 for node, left in self.rounds.items()}
        return Replicas(
            topic_id=self.topic_id, nodes=dict.fromkeys(range(self.partitions), tuple(self.rounds))
        )

    async def span(self, _client: object, _where: TopicPartition) -> LogSpan:
        return LogSpan(start=0, high_watermark=13, end=13)

    async def batches(
        self, _client: object, node: int, where: TopicPartition, first: int, last: int
    ) -> Batches:
        log = [
            memoryview(make_batch(RECORDS, base_offset=0)),
            memoryview(make_batch(RECORDS, base_offset=10)),
        ]
        self.asked[where, node] += 1
        if self.unwell.get(node):
            raise self.unwell[node].pop(0)
        if self.rounds[node] >= 0 and where.partition == 0:
            log.insert(1, filled(3, 7))
        found = [(read_header(each), each) for each in log]
        seen = [each for each in found if each[0].next_offset > first and first < self.shown.get(node, 13)]
        kept = [each for each in seen if each[0].base_offset < last]
        return Batches(
            headers=tuple(each[0] for each in kept),
            views=tuple(each[1] for each in kept),
            read_to=13 if seen else -1,
        )

    async def broker_configs(self, _client: object, node: int, _keys: list[str]) -> dict[str, str]:
        if self.untold.get(node):
            raise self.untold[node].pop(0)
        return self.configs


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    played = Brokers(b1=2, b2=4)
    monkeypatch.setattr(module, "LOOK_S", 0.0)
    for name, plays in (
        ("read_replicas", played.replicas),
        ("read_broker_configs", played.broker_configs),
    ):
        monkeypatch.setattr(module, name, plays)
    monkeypatch.setattr(replica_fillers, "read_span", played.span)
    monkeypatch.setattr(replica_fillers, "read_replica_batches", played.batches)
    return played


def nobody(*_: object) -> None:
    """Looks."""


def cleaning_of(brokers: Brokers, watch: CleanerWatch | None = None) -> Cleaning:
    client = cast(ClusterClient, brokers)
    return Cleaning(client, "orders", ID, brokers.partitions, watch or CleanerWatch(lambda: brokers.now))


async def test_a_topic_is_clean_when_every_replica_is(brokers: Brokers) -> None:
    shown: list[tuple[int, int]] = []
    cleaning = cleaning_of(brokers)
    await cleaning.prepare()
    assert await cleaning.until_clean(lambda partition, clean: shown.append((partition, clean)), nobody)
    assert shown[0] == (0, 0)
    assert shown[-1] == (0, 2)
    assert (0, 1) in shown


async def test_who_takes_over_searches_each_replica(brokers: Brokers) -> None:
    brokers.rounds = {1: 0, 2: 1}  # the first is clean at the first look
    shown: list[tuple[int, int]] = []
    await cleaning_of(brokers).until_clean(lambda partition, clean: shown.append((partition, clean)), nobody)
    assert shown == [(0, 1), (0, 2), (0, 2)]  # the last look is at all of them


@pytest.mark.parametrize("prepared", [True, False])
@pytest.mark.parametrize("shown", [0, 3, 12])
async def test_a_replica_that_does_not_show_its_end_yet_is_not_clean(
    brokers: Brokers, prepared: bool, shown: int
) -> None:
    """One that has just started, or copies the log anew. It holds fillers, or will."""
    cleaning, looks = cleaning_of(brokers), []
    if prepared:
        await cleaning.prepare()
    brokers.rounds = {1: 0, 2: 0}
    brokers.shown = {2: shown}

    def show(_partition: int, clean: int) -> None:
        looks.append(clean)
        if len(looks) == 3:
            del brokers.shown[2]

    assert await cleaning.until_clean(show, nobody)
    at_first = 2 if prepared and shown > 9 else 1  # all that matters is shown
    assert looks[0] == at_first


@pytest.mark.parametrize("prepared", [True, False])
async def test_a_replica_that_has_nothing_yet_is_waited_for(brokers: Brokers, prepared: bool) -> None:
    """One that was added, or has lost its disk, does not know the offset."""
    cleaning, shown = cleaning_of(brokers), []
    if prepared:
        await cleaning.prepare()
    brokers.rounds = {1: 0, 2: 0}
    brokers.unwell[2] = [BrokerRefused("no such offset", code=ErrorCode.OFFSET_OUT_OF_RANGE)] * 2
    assert await cleaning.until_clean(lambda _partition, clean: shown.append(clean), nobody)
    assert shown == [1, 1, 2, 2]


async def test_a_replica_that_was_clean_is_asked_again_when_the_others_are(brokers: Brokers) -> None:
    """It may have been copied anew since, from one that was not."""
    cleaning = cleaning_of(brokers)
    await cleaning.prepare()
    brokers.rounds = {1: 0, 2: 2}
    shown: list[int] = []

    def show(_partition: int, clean: int) -> None:
        shown.append(clean)
        if shown == [1, 1]:
            brokers.rounds[1] = 2  # it has lost its disk

    assert await cleaning.until_clean(show, nobody)
    assert shown == [1, 1, 2, 1, 2, 2]


async def test_what_is_clean_is_not_read_again_while_other_partitions_are_not(brokers: Brokers) -> None:
    brokers.partitions, brokers.rounds = 2, {1: 0, 2: 5}
    assert await cleaning_of(brokers).until_clean(nobody, nobody)
    clean, dirty = TopicPartition("orders", 1), TopicPartition("orders", 0)
    searched = brokers.asked[clean, 1]
    assert brokers.asked[clean, 2] == searched
    assert brokers.asked[dirty, 2] > 5
    brokers.asked.clear()
    brokers.rounds = {1: 0, 2: 1}
    assert await cleaning_of(brokers).until_clean(nobody, nobody)
    assert brokers.asked[clean, 1] == searched  # however many looks there are


async def test_a_cleaner_that_does_nothing_is_not_waited_for_for_ever(brokers: Brokers) -> None:
    brokers.rounds, brokers.look_s = {1: 1000, 2: 0}, TELL_S
    waits: list[str | None] = []
    with pytest.raises(
        CleanerIdle, match="brokers 1 have not removed fillers of topic orders for 30 minutes"
    ):
        await cleaning_of(brokers).until_clean(nobody, waits.append)
    assert waits == ["brokers have to remove fillers: broker 1 has removed none for a minute"]


async def test_a_cleaner_that_is_at_work_elsewhere_is_waited_for(brokers: Brokers) -> None:
    """Each broker cleans one log after the other."""
    brokers.rounds, brokers.look_s = {1: 200, 2: 0}, TELL_S
    watch = CleanerWatch(lambda: brokers.now)

    def show(_partition: int, _clean: int) -> None:
        if brokers.rounds[1] % 20 == 0:
            watch.moved(1)  # another topic that is built

    assert await cleaning_of(brokers, watch).until_clean(show, nobody)
    assert brokers.now > 3 * STILL_LIMIT_S


async def test_a_cleaner_that_takes_long_for_one_log_is_at_work(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fillers go from the start of a log on, and the last one late."""
    brokers.rounds, brokers.look_s = {1: 80}, TELL_S
    real = brokers.batches

    async def partly(client: object, node: int, where: TopicPartition, first: int, last: int) -> Batches:
        gone_to = 3 + 7 * brokers.now / (90 * TELL_S)
        if not 3 <= first < min(gone_to, 9):
            return await real(client, node, where, first, last)
        return Batches(headers=(), views=(), read_to=13)

    monkeypatch.setattr(replica_fillers, "read_replica_batches", partly)
    assert await cleaning_of(brokers).until_clean(nobody, nobody)
    assert brokers.now > 2 * STILL_LIMIT_S


async def test_a_broker_that_does_not_answer_is_waited_for_and_named(brokers: Brokers) -> None:
    brokers.rounds, brokers.look_s = {1: 0, 2: 0}, TELL_S
    brokers.untold[2] = [Disconnected("broker 2 is away")] * 50
    brokers.unwell[2] = [Disconnected("broker 2 is away")] * 50
    waits: list[str | None] = []
    assert await cleaning_of(brokers).until_clean(nobody, waits.append)
    words = "brokers have to remove fillers: broker 2 does not answer (broker 2 is away)"
    assert (brokers.now > 3 * STILL_LIMIT_S, waits) == (True, [words, None])


async def test_a_replica_that_can_never_be_read_is_not_waited_for_for_ever(brokers: Brokers) -> None:
    brokers.rounds, brokers.look_s = {1: 0, 2: 0}, TELL_S
    cleaning = cleaning_of(brokers)
    await cleaning.prepare()
    brokers.unwell[2] = [BrokerRefused("its disk is away", code=ErrorCode.KAFKA_STORAGE_ERROR)] * 100
    with pytest.raises(CleanerIdle, match=r"brokers 2 have not removed .* broker 2: its disk is away"):
        await cleaning.until_clean(nobody, nobody)


async def test_a_topic_that_was_made_again_is_not_waited_for(brokers: Brokers) -> None:
    cleaning = cleaning_of(brokers)
    await cleaning.prepare()
    brokers.topic_id = "id of another one"
    assert not await cleaning.until_clean(nobody, nobody)


async def test_a_broker_that_compacts_nothing_is_named_at_once(brokers: Brokers) -> None:
    brokers.configs = {"log.cleaner.enable": "false"}
    with pytest.raises(CleanerIdle, match=r"log\.cleaner\.enable=false") as idle:
        await cleaning_of(brokers).prepare()
    assert "log.cleaner.enable=true" in idle.value.hint


async def test_brokers_that_do_not_tell_their_configs_are_asked_all_the_same(brokers: Brokers) -> None:
    brokers.untold = {
        node: [BrokerRefused("no", code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)] for node in (1, 2)
    }
    await cleaning_of(brokers).until_clean(nobody, nobody)
    assert max(brokers.rounds.values()) < 0
