"""The table of least rights in docs/SECURITY.md: each right is taken away by itself, and happens what it says."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, TopicPartition

from heliograph.cluster.grants import Right
from heliograph.cluster.own_topics import OwnTopics
from heliograph.controller import active_link, configs_in_step, deletion_guards, topic_deletions
from heliograph.controller.act import create
from heliograph.controller.config_refusals import warn_of_refusals
from heliograph.controller.ledger_sight import look_at_ledgers
from heliograph.controller.ledger_word import Answer
from heliograph.controller.plan import plan
from heliograph.lab.cluster import LabCluster
from heliograph.model.command import Outcome, Wish
from heliograph.model.events import Event
from heliograph.model.ledger import OWN_TOPICS
from heliograph.model.policy import DEFAULT_POLICY, OnSourceDelete
from heliograph.model.settings import Settings
from heliograph.model.states import PartitionState, StopReason
from tests.support.guarded_cluster import Guarded, on_topic, pasted
from tests.support.operator import Operator
from tests.support.plain_mirror import settings_for
from tests.support.plain_run import PlainRun, plain_run
from tests.support.records import mixed_records
from tests.support.topics import (
    add_partitions,
    create_topic,
    delete_records,
    delete_topic,
    partition_count,
    set_config,
)
from tests.support.transactions import TransactionalWriter
from tests.support.workload import produce_records

from .cases import (
    AGAIN,
    BUILT,
    CASES,
    CHANGED,
    CHANGING,
    CONFIGS_CHANGE,
    CUT,
    DELETED,
    DELETION,
    GOING,
    GROWING,
    GROWN,
    GROWTH,
    GUARDED_SOURCE,
    HANGING,
    NEW,
    READERS,
    REMIRROR,
    REMIRRORING,
    RUNNING,
    THERE,
    WHILE_CHANGING,
    WHILE_DELETING,
    WHILE_GROWING,
    Case,
)
from .looks import LINK, Seen, Sides, connected
from .table import Without, read_table

TABLE = read_table()
REFUSED = Outcome.REFUSED
MOST_PASTES = 3  # a right may show only when another one is there


def test_every_right_in_the_table_has_a_case_and_no_other() -> None:
    covered = {
        (REMIRROR, "target"): {grant.right for grant in REMIRRORING},
        (GROWTH, "target"): {grant.right for grant in GROWN},
        (CONFIGS_CHANGE, "target"): {grant.right for grant in CHANGED},
        (DELETION, "target"): {grant.right for grant in DELETED},
    }
    for case in CASES:
        covered.setdefault((case.purpose, case.cluster), set()).update(case.rights)
    assert covered == {key: row.rights for key, row in TABLE.items()}


class Scene:
    """The cluster that checks rights, as either side of a link, with what the cases are about."""

    def __init__(self, guarded: Guarded, source: str, target: str) -> None:
        self.guarded = guarded
        self._sides = {
            "target": Sides(source=source, target=guarded.bootstrap_servers),
            "source": Sides(source=guarded.bootstrap_servers, target=target),
        }

    @property
    def source(self) -> str:
        return self._sides["target"].source

    def of(self, topic: str) -> Settings:
        return settings_for(self.source, self._sides["target"].target, [topic])

    def look(self, case: Case) -> Seen | None:
        async def looked() -> Seen | None:
            return await case.look(self._sides[case.cluster])

        return asyncio.run(looked())

    def make(self) -> None:
        source, target = self._sides["target"].source, self._sides["target"].target
        for topic in (THERE, NEW, CUT, AGAIN, GROWING, CHANGING, GOING):
            create_topic(source, topic)
            _produce(source, topic)
        delete_records(source, CUT, 0, before_offset=40)
        create_topic(source, BUILT, configs={"cleanup.policy": "compact"})
        with self.guarded.open_house():
            for topic in (THERE, CUT):
                create_topic(target, topic)
            set_config(target, THERE, "retention.bytes", "1000000000")
            asyncio.run(self._build())
            _commit(target, THERE, BUILT)
            create_topic(target, GUARDED_SOURCE)
            create_topic(self._sides["source"].target, GUARDED_SOURCE)
            _produce(target, GUARDED_SOURCE)
            self._hanging = TransactionalWriter(target, HANGING)
            self._hanging.write(GUARDED_SOURCE)

    async def _build(self) -> None:
        """As a run begins to."""
        sides = self._sides["target"]
        async with connected(settings_for(sides.source, sides.target, [BUILT])) as clusters:
            (creation,) = plan(await clusters.observe()).creations
            await create(clusters.target(LINK), creation)

    def set_own_topics(self, *, there: bool) -> None:
        found = OWN_TOPICS & self.guarded.topics()
        if not there:
            self.guarded.delete_topics(found)
        elif found != OWN_TOPICS:
            with self.guarded.open_house():
                asyncio.run(self._make_own_topics())

    async def _make_own_topics(self) -> None:
        sides = self._sides["target"]
        async with connected(settings_for(sides.source, sides.target, [THERE])) as clusters:
            for topic in sorted(OWN_TOPICS):
                await OwnTopics(clusters.target(LINK)).open(topic)


def _produce(bootstrap: str, topic: str) -> None:
    produce_records(bootstrap, topic, list(mixed_records(1, 40, first_ms=int(time.time() * 1000))))


def _commit(bootstrap: str, *topics: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": READERS})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0) for topic in topics], asynchronous=False)
    consumer.close()


@pytest.fixture(scope="module")
def scene(guarded_cluster: Guarded, source_cluster: LabCluster, target_cluster: LabCluster) -> Scene:
    made = Scene(guarded_cluster, source_cluster.bootstrap_servers, target_cluster.bootstrap_servers)
    made.make()
    return made


@pytest.mark.kafka
@pytest.mark.parametrize("case", CASES, ids=str)
def test_without_a_right_happens_what_the_table_says_and_granting_it_mends_that(
    scene: Scene, case: Case
) -> None:
    guarded, row = scene.guarded, TABLE[case.purpose, case.cluster]
    rest = case.sufficient - case.taken
    scene.set_own_topics(there=case.own_topics)
    guarded.only(rest)
    seen = scene.look(case)
    assert seen is not None
    assert (seen.without, case.words in seen.words) == (row.without, True), seen

    for _ in range(MOST_PASTES):
        given = pasted(seen.words)
        assert bool(given) == (row.without is not Without.LESS), seen
        guarded.allow(given or case.taken)
        seen = scene.look(case)
        if seen is None:
            break
    assert seen is None

    for other in case.instead:
        guarded.only(rest, other)
        assert scene.look(case) is None


@pytest.mark.kafka
async def test_a_run_that_may_not_delete_or_create_a_topic_refuses_to_mirror_it_again(scene: Scene) -> None:
    await asyncio.to_thread(scene.set_own_topics, there=True)
    # The run makes the topic: of one that was there it would wait for a minute, until nothing can be on its way to it.
    scene.guarded.only(RUNNING, on_topic(AGAIN, Right.CREATE))
    async with plain_run(scene.of(AGAIN)) as run, connected(scene.of(AGAIN)) as clusters:
        await run.caught_up()
        source_id = clusters.source(LINK).metadata.cluster_id
        operator = Operator(clusters.target(LINK), source_id, AGAIN)

        async def answer() -> Answer:
            return await operator.answer(await operator.command(Wish.REMIRROR))

        assert TABLE[REMIRROR, "target"].without is Without.REFUSED
        refused = await answer()
        assert (refused.outcome, f"topic {AGAIN} cannot be deleted" in refused.message) == (REFUSED, True)
        await run.caught_up()
        scene.guarded.allow(pasted(refused.hint))
        assert (await answer()).outcome is Outcome.APPLIED
        await run.caught_up()

        scene.guarded.only(RUNNING, on_topic(AGAIN, Right.DELETE))
        refused = await answer()
        assert (refused.outcome, "could be deleted, but not created" in refused.message) == (REFUSED, True)
        assert pasted(refused.hint) == on_topic(AGAIN, Right.CREATE)  # what was enough before


@pytest.mark.kafka
async def test_a_run_that_may_not_add_partitions_stops_the_new_ones_alone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(active_link, "AGAIN_S", 1.0)
    await asyncio.to_thread(scene.set_own_topics, there=True)
    scene.guarded.only(WHILE_GROWING)
    async with plain_run(replace(scene.of(GROWING), discovery_interval_s=0.5)) as run:
        await run.caught_up()
        await asyncio.to_thread(add_partitions, scene.source, GROWING, 2)
        await run.until(lambda run: [row.state for row in run.rows].count(PartitionState.STOPPED) == 1)
        (stopped,) = (row for row in run.rows if row.state is PartitionState.STOPPED)
        assert (stopped.partition.partition, stopped.reason) == (1, StopReason.PARTITIONS)
        assert TABLE[GROWTH, "target"].without is Without.LESS
        given = pasted(stopped.hint or "")
        assert given == GROWN
        scene.guarded.allow(given)
        await run.caught_up()
        assert len(run.rows) == 2


@pytest.mark.kafka
async def test_a_run_that_may_not_change_configs_says_so_once_and_copies_all_the_same(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configs_in_step, "AGAIN_S", 1.0)
    await asyncio.to_thread(scene.set_own_topics, there=True)
    scene.guarded.only(WHILE_CHANGING)
    async with plain_run(replace(scene.of(CHANGING), discovery_interval_s=0.5)) as run:
        await run.caught_up()
        await asyncio.to_thread(set_config, scene.source, CHANGING, "segment.ms", "1200000")
        await run.until(lambda run: "configs_refused" in run.codes)
        await asyncio.to_thread(_produce, scene.source, CHANGING)
        await run.until(lambda run: run.copied == 80)
        assert TABLE[CONFIGS_CHANGE, "target"].without is Without.LESS
        line = await _planned_refusal(scene.of(CHANGING))
        assert pasted(line.removesuffix(")")) == CHANGED
        (told,) = [each for each in run.mirror.outbox.last if str(each.code) == "configs_refused"]
        given = pasted(told.hint or "")
        assert given == CHANGED
        scene.guarded.allow(given)
        await run.until(lambda run: "configs_changed" in run.codes)
        assert run.codes.count("configs_refused") == 1


async def _planned_refusal(settings: Settings) -> str:
    """The one line of a plan about it."""
    async with connected(settings) as clusters:
        snapshots = await clusters.observe()
        ledgers = await look_at_ledgers(clusters, snapshots)
        planned = plan(snapshots, recorded_of=lambda seen: ledgers[seen.link.name].recorded)
        (line,) = await warn_of_refusals(clusters.target(LINK), planned.config_changes)
    return line


@pytest.fixture
def _deletes_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion_guards, "UNKNOWN_FOR_S", 1.0)
    monkeypatch.setattr(topic_deletions, "LOOK_S", 0.2)
    monkeypatch.setattr(topic_deletions, "AGAIN_S", 0.5)


def _deleting(settings: Settings) -> Settings:
    policy = replace(DEFAULT_POLICY, on_source_delete=OnSourceDelete.DELETE)
    return replace(settings, links=(replace(settings.links[0], policy=policy),), discovery_interval_s=0.5)


def _held(run: PlainRun) -> str:
    """The hint of the only topic that is."""
    (held,) = (each for each in run.mirror.outbox.last if each.code is Event.DELETION_HELD)
    return held.hint or ""


@pytest.mark.kafka
@pytest.mark.usefixtures("_deletes_soon")
async def test_a_run_that_may_not_delete_a_topic_keeps_it_until_it_may(scene: Scene) -> None:
    await asyncio.to_thread(scene.set_own_topics, there=True)
    scene.guarded.only(WHILE_DELETING)
    async with plain_run(_deleting(scene.of(GOING))) as run:
        await run.caught_up()
        await asyncio.to_thread(delete_topic, scene.source, GOING)
        await run.until(lambda run: "deletion_held" in run.codes)
        assert TABLE[DELETION, "target"].without is Without.LESS
        given = pasted(_held(run))
        assert given == DELETED
        assert GOING in scene.guarded.topics()
        scene.guarded.allow(given)
        await run.until(lambda run: "topic_deleted" in run.codes)
        assert GOING not in scene.guarded.topics()


@pytest.mark.kafka
@pytest.mark.usefixtures("_deletes_soon")
async def test_a_source_topic_that_the_mirror_may_not_see_any_more_is_not_taken_for_deleted(
    scene: Scene, target_cluster: LabCluster
) -> None:
    """Its rights were taken away while no mirror ran: a running one stops it as `refused`."""
    hidden, guarded, target = "right-hidden", scene.guarded, target_cluster.bootstrap_servers
    with guarded.open_house():
        await asyncio.to_thread(create_topic, guarded.bootstrap_servers, hidden)
        await asyncio.to_thread(_produce, guarded.bootstrap_servers, hidden)
    guarded.only(on_topic(hidden, Right.READ, Right.DESCRIBE_CONFIGS))
    settings = _deleting(settings_for(guarded.bootstrap_servers, target, [hidden]))
    async with plain_run(settings) as run:
        await run.caught_up()
    guarded.only()
    async with plain_run(settings) as run:  # it is there, and shown to nobody
        await run.until(lambda run: "deletion_held" in run.codes)
        (held,) = (each for each in run.mirror.outbox.last if each.code is Event.DELETION_HELD)
        assert "does not say that it is gone (TOPIC_AUTHORIZATION_FAILED)" in held.message
    await asyncio.to_thread(guarded.delete_topics, [hidden])
    async with plain_run(settings) as run:  # it is gone, and nobody says so
        await run.until(lambda run: "deletion_held" in run.codes)
        assert partition_count(target, hidden) == 1
        given = pasted(_held(run))
        assert given == on_topic(hidden, Right.DESCRIBE)
        guarded.allow(given)
        await run.until(lambda run: "topic_deleted" in run.codes)
        with pytest.raises(LookupError):
            partition_count(target, hidden)
