"""The model answers as a real broker does: one script of requests is sent to both, and every answer compared.

Where they disagree, the broker is right: the simulation is worth as much as this test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from heliograph.lab.cluster import LabCluster
from heliograph.wire.error_codes import ErrorCode
from tests.support.topics import create_topic, delete_topic

from .answers import Waiting
from .both import EXPIRING, compare
from .model_broker import ModelPartition
from .model_topic import ModelTopic
from .producer_states import SEQUENCES
from .random_script import random_script
from .real_partition import RealPartition
from .requests import (
    FLAWS,
    IDS,
    OLD_MS,
    AskWithEpoch,
    DeleteRecords,
    Fetch,
    LetExpire,
    Look,
    Produce,
    Restart,
    Step,
    now_ms,
)

pytestmark = pytest.mark.kafka

NEXT_SEQUENCES = [Produce(sequence=n) for n in range(7)]

SCRIPTS: dict[str, list[Step]] = {
    "flaws": [*(Produce(flaw=flaw) for flaw in sorted(FLAWS)), Look()],
    "next, duplicate of the last five, of the sixth": [
        *NEXT_SEQUENCES,
        *reversed(NEXT_SEQUENCES),
        Produce(sequence=5, count=2),
        Look(),
    ],
    "any first sequence, gaps, other boundaries": [
        Produce(sequence=41, count=3),
        Produce(sequence=45),
        Produce(sequence=43),
        Produce(sequence=41, count=2),
        Produce(sequence=44),
        Look(),
    ],
    "epochs": [
        Produce(epoch=3, sequence=9),
        Produce(epoch=2, sequence=10),
        Produce(epoch=4, sequence=10),
        Produce(epoch=4),
        Produce(epoch=3, sequence=9),
        Look(),
    ],
    "wrap inside a batch and between two": [
        Produce(sequence=SEQUENCES - 2, count=3),
        Produce(sequence=1),
        Produce(producer_id=IDS[1], sequence=SEQUENCES - 1),
        Produce(producer_id=IDS[1], sequence=0),
        Produce(sequence=SEQUENCES - 2, count=3),
        Look(),
    ],
    "a flawed duplicate is refused for its flaw": [
        Produce(),
        Produce(flaw="crc"),
        Produce(flaw="future"),
        Look(),
    ],
    "fencing and fetches": [
        Produce(count=3),
        AskWithEpoch(epochs_off=-1),
        AskWithEpoch(epochs_off=1),
        Fetch(offset=1),
        Fetch(offset=3),
        Fetch(offset=4),
        Fetch(offset=1, last_fetched_epoch=0),
        Fetch(offset=1, last_fetched_epoch=5),
    ],
    "records deleted up to the end": [
        Produce(count=3),
        DeleteRecords(before_offset=3),
        Look(),
        Fetch(offset=1),
        Produce(),
        Produce(sequence=3),
        Look(),
    ],
}

RESTARTS: dict[str, list[Step]] = {
    "one batch is remembered": [
        *NEXT_SEQUENCES,
        Produce(producer_id=-1),
        Restart(),
        Look(),
        Produce(sequence=6),
        Produce(sequence=5),
        Produce(sequence=7),
        Produce(sequence=6),
        Fetch(offset=3, last_fetched_epoch=0),
        Fetch(offset=9, last_fetched_epoch=0),
        AskWithEpoch(epochs_off=-1),
        AskWithEpoch(epochs_off=1),
        Look(),
    ],
    "old records are forgotten, fresh ones are not": [
        Produce(sequence=5, age_ms=OLD_MS),
        Produce(producer_id=IDS[1], sequence=5),
        Look(),
        Restart(),
        Look(),
        Produce(sequence=70, age_ms=OLD_MS),
        Produce(producer_id=IDS[1], sequence=70),
        Look(),
    ],
    "deleted up to the end, then restarted: no state": [
        Produce(count=4),
        DeleteRecords(before_offset=4),
        Restart(killed=False),
        Look(),
        Produce(sequence=99),
        Look(),
    ],
}

EXPIRY: list[Step] = [
    Produce(sequence=5, age_ms=OLD_MS),
    Produce(producer_id=IDS[1], sequence=5),
    LetExpire(),
    Look(),
    Produce(sequence=3, age_ms=OLD_MS),
    LetExpire(),
    Produce(sequence=3, age_ms=OLD_MS),
    LetExpire(),
    Produce(producer_id=IDS[1], sequence=5),
    Produce(producer_id=IDS[1], sequence=7),
    Look(),
]


@pytest.fixture(scope="module")
def restartable() -> Iterator[LabCluster]:
    with LabCluster.start(name="expiring", properties=EXPIRING) as cluster:
        yield cluster


@pytest.mark.parametrize("name", SCRIPTS)
def test_model_and_broker_answer_alike(
    name: str, target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    compare(target_cluster, unique_topic("model"), SCRIPTS[name])


@pytest.mark.parametrize("seed", range(12))
def test_model_and_broker_answer_alike_to_a_random_script(
    seed: int, target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    compare(target_cluster, unique_topic("model"), random_script(seed))


def test_model_and_broker_forget_producers_by_record_time(
    restartable: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    compare(restartable, unique_topic("model"), EXPIRY)


async def test_model_and_broker_take_a_recreated_topic_for_another_one(
    target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> None:
    bootstrap, name = target_cluster.bootstrap_servers, unique_topic("model")
    topic = ModelTopic(lambda topic_id: ModelPartition(topic_id, now_ms=now_ms))
    create_topic(bootstrap, name)

    async with RealPartition(bootstrap, name) as real:
        node = (await real.wait_for_leader()).node
        former_id = real.topic_id

        async def compare_both(step: Produce) -> None:
            batch = memoryview(step.batch(now_ms()))
            for real_id, model_id in ((former_id, "id-1"), (b"", "")):
                answer = topic.produce(1, batch, model_id)
                offset = answer.base_offset if isinstance(answer, Waiting) else answer.offset
                error = 0 if isinstance(answer, Waiting) else answer.error
                seen = await real.produce(node, batch, real_id)
                assert seen == (ErrorCode.name_of(error), offset)

        await compare_both(Produce(sequence=5))
        delete_topic(bootstrap, name)
        topic.delete()
        await compare_both(Produce(sequence=6))
        create_topic(bootstrap, name)
        topic.create()
        await compare_both(Produce(sequence=57))


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.parametrize("name", RESTARTS)
def test_model_and_broker_remember_alike_after_a_restart(
    name: str, unique_topic: Callable[[str], str]
) -> None:
    with LabCluster.start(name="restarted") as cluster:
        compare(cluster, unique_topic("model"), RESTARTS[name])
