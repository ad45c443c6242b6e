"""Transactions, markers and log starts: the model answers as a real broker does.

Transactions are made of their parts: batches that say they belong to one, and the markers that end it, so that every
order can be tried. The broker is told not to ask its coordinator for them.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator

import pytest

from heliograph.lab.cluster import LabCluster
from tests.support.topics import create_topic

from .both import EXPIRING, RULES, TOPIC_CONFIG, UNVERIFIED, compare
from .control_batch import EndMarker
from .random_script import MARKER_IDS, random_markers, random_transactions
from .raw_batch import TopicRules
from .real_partition import RealPartition
from .requests import (
    OLD_MS,
    DeleteRecords,
    Fetch,
    LetExpire,
    Look,
    Produce,
    Restart,
    Step,
    WriteMarkers,
)

pytestmark = pytest.mark.kafka

ONE, OTHER = MARKER_IDS


def marks(*epochs: tuple[int, int], number: int = ONE) -> WriteMarkers:
    """One request with a marker for each producer epoch and coordinator epoch."""
    return WriteMarkers(markers=tuple(EndMarker(number, *each) for each in epochs))


def label(offset: int, attempt: int) -> tuple[int, int]:
    """Epochs that cross: a later attempt has the higher producer epoch and the lower coordinator epoch."""
    return attempt, offset * 8 + 7 - attempt


def in_transaction(number: int, sequence: int, count: int = 1) -> Produce:
    return Produce(producer_id=number, sequence=sequence, count=count, in_transaction=True)


def ends(number: int, *, commits: bool = False) -> WriteMarkers:
    return WriteMarkers(markers=(EndMarker(number, 0, 1, commits),))


def looked_at(*steps: Step) -> list[Step]:
    return [*steps, Look()]


LABELS = [label(offset, attempt) for offset in (0, 1) for attempt in (1, 2)]
COMMITTED_FROM_EVERYWHERE = [
    Fetch(offset=offset, committed=True, max_bytes=max_bytes)
    for offset in range(14)
    for max_bytes in (1, 200, 1 << 20)
]

SCRIPTS: dict[str, list[Step]] = {
    "crossing epochs in all orders, one by one": [
        step
        for number, order in enumerate(itertools.permutations(LABELS))
        for step in looked_at(*(marks(each, number=100 + number) for each in order))
    ],
    "crossing epochs in all orders, in bulk": [
        step
        for number, order in enumerate(itertools.permutations(LABELS))
        for step in looked_at(marks(*order, number=100 + number))
    ],
    "the same label twice is appended twice": [marks(label(0, 1)), marks(label(0, 1)), Look()],
    "one error for each id, that of its last marker": [
        marks((5, 5)),
        WriteMarkers(
            markers=(
                EndMarker(ONE, 1, 9),
                EndMarker(ONE, 5, 6),
                EndMarker(OTHER, 0, 0),
                EndMarker(OTHER, 0, 3),
                EndMarker(OTHER, 0, 2),
            )
        ),
        Look(),
        Fetch(offset=0, max_bytes=1 << 20),
    ],
    "a marker that is refused leaves its place to the next": [
        marks(label(0, 2)),
        marks(label(1, 1), label(2, 2), label(3, 1), label(4, 3)),
        Look(),
        Fetch(offset=0, max_bytes=1 << 20),
    ],
    "records behind markers begin at 0": [
        marks((1, 1)),
        Produce(producer_id=ONE, epoch=1, sequence=5),
        Produce(producer_id=ONE, epoch=1, sequence=0),
        Produce(producer_id=ONE, epoch=0, sequence=0),
        Look(),
        marks((1, 2)),
        Produce(producer_id=ONE, epoch=1, sequence=1),
        Produce(producer_id=ONE, epoch=1, sequence=1),
        marks((2, 2)),
        Produce(producer_id=ONE, epoch=2, sequence=2),
        Look(),
    ],
    "markers of others leave a producer's sequence alone": [
        Produce(sequence=7),
        marks((0, 0)),
        marks((0, 0), (0, 1)),
        Produce(sequence=8),
        Produce(sequence=11),
        Look(),
        Fetch(offset=0, max_bytes=1 << 20),
        Fetch(offset=1, committed=True, max_bytes=1 << 20),
    ],
    "two transactions, one inside the other": [
        in_transaction(71, 0),
        in_transaction(72, 0, 2),
        Produce(),
        Look(),
        *COMMITTED_FROM_EVERYWHERE,
        ends(72),
        Look(),
        *COMMITTED_FROM_EVERYWHERE,
        in_transaction(73, 0),
        ends(71, commits=True),
        Look(),
        *COMMITTED_FROM_EVERYWHERE,
        in_transaction(72, 2),
        ends(73),
        ends(72),
        Look(),
        *COMMITTED_FROM_EVERYWHERE,
    ],
    "what begins first and is aborted last is told last": [
        in_transaction(71, 0),
        in_transaction(72, 0),
        ends(72),
        in_transaction(71, 1),
        ends(71),
        *COMMITTED_FROM_EVERYWHERE,
    ],
    "a plain batch inside a transaction, and a transaction without its name": [
        in_transaction(71, 0),
        Produce(producer_id=71, sequence=1),
        Produce(producer_id=71, sequence=5),
        Produce(producer_id=71, sequence=1, flaw="transactional"),
        in_transaction(71, 1),
        ends(71),
        Produce(producer_id=71, sequence=2),
        Look(),
    ],
    "a marker that ends nothing": [
        ends(71),
        Produce(),
        ends(71, commits=True),
        Look(),
        *COMMITTED_FROM_EVERYWHERE,
    ],
    "the start moves": [
        *(Produce(sequence=n) for n in range(4)),
        marks((0, 0)),
        DeleteRecords(before_offset=6),
        DeleteRecords(before_offset=-2),
        DeleteRecords(before_offset=2),
        Look(),
        DeleteRecords(before_offset=1),
        Fetch(offset=1),
        Fetch(offset=1, last_fetched_epoch=0),
        Fetch(offset=1, last_fetched_epoch=7),
        Fetch(offset=2, last_fetched_epoch=0),
        DeleteRecords(before_offset=-1),
        Look(),
        Produce(sequence=4),
        marks((0, 0), (0, 1)),
        Look(),
        Fetch(offset=5, max_bytes=1 << 20),
    ],
    "the start moves into a batch, and into an open transaction": [
        Produce(count=3),
        DeleteRecords(before_offset=1),
        Fetch(offset=1),
        in_transaction(71, 0, 2),
        Produce(sequence=3),
        DeleteRecords(before_offset=4),
        Look(),
        Fetch(offset=4, committed=True),
        DeleteRecords(before_offset=6),
        Look(),
        Fetch(offset=6, committed=True),
        ends(71),
        Look(),
        Fetch(offset=6, committed=True),
    ],
}

RESTARTS: dict[str, list[Step]] = {
    "markers are remembered": [
        marks(label(0, 1), label(1, 1)),
        marks((3, 0), number=OTHER),
        Produce(producer_id=OTHER, epoch=3, sequence=0),
        Restart(),
        Look(),
        marks(label(0, 2)),
        marks(label(2, 1)),
        Produce(producer_id=OTHER, epoch=3, sequence=1),
        Look(),
    ],
    "transactions go on": [
        in_transaction(71, 0),
        in_transaction(72, 0),
        ends(72),
        Restart(killed=False),
        Look(),
        in_transaction(71, 1),
        *COMMITTED_FROM_EVERYWHERE,
        ends(71),
        Look(),
        *COMMITTED_FROM_EVERYWHERE,
    ],
    "killed, a broker forgets where its log starts": [
        Produce(count=4),
        Produce(sequence=4),
        DeleteRecords(before_offset=5),
        Look(),
        Restart(),
        Look(),
        Fetch(offset=0, max_bytes=1 << 20),
        Produce(sequence=5),
        DeleteRecords(before_offset=5),
        Restart(killed=False),
        Look(),
        Produce(sequence=6),
        Look(),
    ],
    "markers are gone with what is before the start": [
        Produce(),
        marks(label(1, 3)),
        DeleteRecords(before_offset=2),
        Look(),
        marks(label(1, 2)),
        Restart(killed=False),
        Look(),
        marks(label(1, 2)),
        Look(),
    ],
}

EXPIRY: list[Step] = [
    Produce(sequence=5, age_ms=OLD_MS),
    marks((1, 1)),
    Produce(producer_id=OTHER, epoch=2, sequence=0, age_ms=OLD_MS),
    marks((2, 2), number=OTHER),
    Produce(producer_id=71, sequence=0, age_ms=OLD_MS, in_transaction=True),
    LetExpire(),
    Look(),
    marks((0, 1)),
    Produce(producer_id=OTHER, epoch=2, sequence=1, age_ms=OLD_MS),
    LetExpire(),
    Look(),
    marks((0, 0), number=OTHER),
    Look(),
]


@pytest.fixture(scope="module")
def unverified() -> Iterator[LabCluster]:
    with LabCluster.start(name="unverified", properties={**EXPIRING, **UNVERIFIED}) as cluster:
        yield cluster


@pytest.mark.parametrize("name", SCRIPTS)
def test_model_and_broker_answer_alike(
    name: str, unverified: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    compare(unverified, unique_topic("model"), SCRIPTS[name])


@pytest.mark.parametrize("seed", range(8))
def test_model_and_broker_answer_alike_to_markers_by_chance(
    seed: int, unverified: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    compare(unverified, unique_topic("model"), random_markers(seed))


@pytest.mark.parametrize("index_bytes", [0, 200, 4096])
@pytest.mark.parametrize("seed", range(4))
def test_model_and_broker_tell_the_same_aborted_transactions(
    seed: int, index_bytes: int, unverified: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    configs = {**TOPIC_CONFIG, "index.interval.bytes": str(index_bytes)}
    rules = TopicRules(sizes=RULES.sizes, index_interval_bytes=index_bytes)
    script = random_transactions(seed)
    compare(unverified, unique_topic("model"), script, configs=configs, rules=rules)


def test_model_and_broker_forget_markers_by_the_brokers_clock(
    unverified: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    compare(unverified, unique_topic("model"), EXPIRY)


def test_model_and_broker_delete_no_records_of_a_compacted_topic(
    unverified: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    configs, rules = (
        {**TOPIC_CONFIG, "cleanup.policy": "compact"},
        TopicRules(sizes=RULES.sizes, deletes=False),
    )
    script: list[Step] = [
        marks((0, 0)),
        DeleteRecords(before_offset=1),
        DeleteRecords(before_offset=9),
        Look(),
    ]
    compare(unverified, unique_topic("model"), script, configs=configs, rules=rules)


async def test_a_broker_may_never_answer_where_the_last_marker_has_no_partition(
    unverified: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    """What marker_channel.py plays: its answer is sent behind an append only. So who shares a request with a topic that
    was deleted may wait in vain."""
    topic, gone = unique_topic("model"), {OTHER: unique_topic("gone")}
    create_topic(unverified.bootstrap_servers, topic)
    here, nowhere = EndMarker(ONE, 0, 0), EndMarker(OTHER, 0, 0)
    async with RealPartition(unverified.bootstrap_servers, topic) as real:
        node = (await real.wait_for_leader()).node
        answered = await real.requests.write_markers(node, (nowhere, here), gone)
        assert answered == ((ONE, "NONE"), (OTHER, "UNKNOWN_TOPIC_OR_PARTITION"))
        assert await real.requests.write_markers(node, (nowhere,), gone) == answered[1:]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await real.requests.write_markers(node, (here, nowhere), gone)


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.parametrize("name", RESTARTS)
def test_model_and_broker_remember_alike_after_a_restart(
    name: str, unique_topic: Callable[[str], str]
) -> None:
    with LabCluster.start(name="restarted", properties=UNVERIFIED) as cluster:
        compare(cluster, unique_topic("model"), RESTARTS[name])
