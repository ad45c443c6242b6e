"""Topic configs of a link that is ours are kept in step, and what an operator has set is not touched."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from heliograph.cluster.admin import TopicConfig
from heliograph.cluster.client import ClusterClient
from heliograph.controller import configs_in_step
from heliograph.controller.build_settings import with_build
from heliograph.controller.clusters import Clusters
from heliograph.controller.config_verdict import Drift
from heliograph.controller.configs_in_step import ConfigsInStep, is_followed
from heliograph.controller.configs_told import ConfigsTold
from heliograph.controller.followed_configs import Followed
from heliograph.controller.topic_turns import TopicTurns
from heliograph.model.config_rules import ConfigRules
from heliograph.model.errors import BrokerRefused, Disconnected
from heliograph.model.events import Event
from heliograph.model.ledger import LEDGER_TOPIC, RowKind
from heliograph.model.outbox import Outbox
from heliograph.model.partition_status import PartitionStatus
from heliograph.model.states import PartitionState, StopReason
from heliograph.wire.error_codes import ErrorCode

from .command_scene import KNOWN, NAME, TOPIC, Scene
from .memory_logs import MemoryLogs
from .observed import LINK, config, partition
from .played import FakeClusters

DENIED = BrokerRefused(f"topic {TOPIC}: no", code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
INVALID = BrokerRefused(f"topic {TOPIC}: bad value", code=ErrorCode.INVALID_CONFIG)


@pytest.fixture(autouse=True)
def _no_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configs_in_step, "SHOWN_S", 0.0)
    monkeypatch.setattr(configs_in_step, "AGAIN_S", 0.0)


def of(scene: Scene, told: ConfigsTold | None = None) -> ConfigsInStep:
    return ConfigsInStep(
        NAME,
        scene.topic.made,
        scene.roles,
        scene.board,
        scene.turns,
        told or ConfigsTold(scene.outbox),
        interval_s=0.01,
        alter=scene.topic.alter,
    )


@contextlib.asynccontextmanager
async def in_step(scene: Scene, told: ConfigsTold | None = None) -> AsyncIterator[ConfigsInStep]:
    """The link is ours, and its two partitions are copied."""
    async with scene:
        configs = of(scene, told)
        configs.start()
        try:
            yield configs
        finally:
            await configs.aclose()


async def looks(scene: Scene, count: int = 4) -> None:
    """That many more looks are over."""
    before = scene.topic.configs_read
    await scene.until(lambda: scene.topic.configs_read > before + count)


def copied(scene: Scene) -> None:
    """A lane has compared both logs."""
    for number in range(2):
        row = PartitionStatus(
            partition=partition(number), state=PartitionState.CAUGHT_UP, next_offset=5, source_end=5
        )
        scene.board.report(0, row)


# -- they follow


async def test_a_change_at_the_source_is_made_on_the_target_and_told_from_what_to_what() -> None:
    async with in_step(scene := Scene()):
        scene.topic.source_own = {"segment.ms": "7"}
        await scene.until(lambda: scene.topic.own == {"segment.ms": "7"})
        scene.topic.source_own = {"segment.ms": "8", "flush.ms": "9"}
        await scene.until(lambda: scene.topic.own == {"segment.ms": "8", "flush.ms": "9"})
        scene.topic.source_own = {}
        await scene.until(lambda: scene.topic.own == {})
        await scene.until(lambda: scene.outbox.counts.get(Event.CONFIGS_CHANGED) == 3)
        told = [each for each in scene.outbox.last if each.code is Event.CONFIGS_CHANGED]
        assert told[1].message.endswith("flush.ms not set -> 9, segment.ms 7 -> 8")
        assert (told[1].source_topic, told[1].target_topic) == (TOPIC, TOPIC)
        assert Event.CONFIGS_DRIFT not in scene.outbox.counts


async def test_nothing_is_written_or_changed_while_nothing_changes() -> None:
    async with in_step(scene := Scene()):
        scene.topic.source_own = {"segment.ms": "7"}
        await scene.until(
            lambda: scene.ledger.recorded.followed(TOPIC) == Followed(values={"segment.ms": "7"})
        )
        rows, steps = len(scene.rows(RowKind.TOPIC)), len(scene.topic.altered)
        await looks(scene)
        assert (len(scene.rows(RowKind.TOPIC)), len(scene.topic.altered)) == (rows, steps)


async def test_a_change_is_written_down_before_it_is_made() -> None:
    async with in_step(scene := Scene()):
        written: list[Followed] = []
        real = scene.topic.alter

        async def alter(client: ClusterClient, topic: str, changes: Mapping[str, str | None]) -> None:
            written.append(scene.ledger.recorded.followed(TOPIC))
            await real(client, topic, changes)

        configs = of(scene)
        configs._alter = alter
        scene.topic.source_own = {"segment.ms": "7"}
        await configs._look()
        assert written == [Followed(setting={"segment.ms": ("7",)})]
        assert scene.ledger.recorded.is_topic(TOPIC, scene.topic.source_topic_id, scene.topic.topic_id)


@pytest.mark.parametrize("made", [True, False])
async def test_who_takes_over_knows_a_change_that_was_begun_for_its_own(made: bool) -> None:
    async with in_step(scene := Scene()) as configs:
        scene.topic.source_own = {"segment.ms": "7"}
        await scene.until(lambda: scene.ledger.recorded.followed(TOPIC).values == {"segment.ms": "7"})
        await configs.aclose()
        before = scene.ledger.recorded.followed(TOPIC)
        await scene.ledger.write(scene.ledger.of_followed(TOPIC, before.about_to({"segment.ms": "8"})))
        scene.topic.own = {"segment.ms": "8" if made else "7"}
        scene.topic.source_own = {"segment.ms": "9"}
        later = of(scene)
        later.start()
        await scene.until(lambda: scene.topic.own == {"segment.ms": "9"})
        await later.aclose()
        assert Event.CONFIGS_DRIFT not in scene.outbox.counts


async def test_brokers_that_show_a_change_late_make_nobody_an_operator_nor_repeat_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(configs_in_step, "SHOWN_S", 60.0)
    async with in_step(scene := Scene()):
        scene.topic.own = scene.topic.source_own = {"segment.ms": "7"}
        await scene.until(lambda: scene.ledger.recorded.followed(TOPIC).values == {"segment.ms": "7"})
        scene.topic.source_own = {"segment.ms": "8"}
        await scene.until(lambda: len(scene.topic.altered) == 1)
        for shown in ("7", "8", "7"):  # one broker is behind
            scene.topic.own = {"segment.ms": shown}
            await looks(scene, 0)
        scene.topic.own = {"segment.ms": "8"}
        await looks(scene)
        assert len(scene.topic.altered) == 1
        assert Event.CONFIGS_DRIFT not in scene.outbox.counts


async def test_a_run_that_ends_by_itself_brings_all_topics_in_step_once() -> None:
    async with (scene := Scene()):
        scene.topic.source_own = {"segment.ms": "7"}
        configs = of(scene)
        configs.start_once()
        assert configs.busy
        await scene.until(lambda: not configs.busy)
        assert scene.topic.own == {"segment.ms": "7"}
        await configs.aclose()


# -- an operator's


async def test_an_operators_value_is_kept_and_told_once_for_each_change_of_it() -> None:
    async with in_step(scene := Scene()):
        scene.topic.source_own = {"segment.ms": "7"}
        await scene.until(lambda: scene.ledger.recorded.followed(TOPIC).values == {"segment.ms": "7"})
        for count, value in enumerate(("77", "78"), 1):
            scene.topic.own = {"segment.ms": value}
            await scene.until(lambda count=count: scene.outbox.counts.get(Event.CONFIGS_DRIFT) == count)
        scene.topic.source_own = {"segment.ms": "8"}
        await scene.until(lambda: scene.outbox.counts[Event.CONFIGS_DRIFT] == 3)
        await looks(scene)
        assert scene.topic.own == {"segment.ms": "78"}
        assert scene.outbox.counts[Event.CONFIGS_DRIFT] == 3
        told = [each for each in scene.outbox.last if each.code is Event.CONFIGS_DRIFT][-1]
        assert "segment.ms=78 (source: 8)" in told.message
        assert "--entity-name orders --add-config segment.ms=8" in (told.hint or "")
        assert 'topic_configs: {exclude: ["segment.ms"]}' in (told.hint or "")


def test_drift_of_many_topics_that_is_the_same_is_told_once_with_their_names() -> None:
    outbox = Outbox()
    told = ConfigsTold(outbox)
    same, other = {"segment.ms": Drift(source="1", target="2")}, {"flush.ms": Drift(source=None, target="3")}
    shown = {(f"t{number}", f"t{number}"): same for number in range(7)} | {("x", "x"): other}
    for _ in range(2):
        told.drift(NAME, shown, "nyc:9092", written=True)
    first, second = outbox.last
    assert "topics t0, t1, t2, t3, t4 and 2 more: configs differ" in first.message
    assert (first.target_topic, second.target_topic) == (None, "x")
    assert (second.hint or "").endswith("--entity-name x --delete-config flush.ms")
    told.drift(NAME, {("x", "x"): {}}, "nyc:9092", written=True)
    told.drift(NAME, shown, "nyc:9092", written=True)
    assert outbox.counts == {Event.CONFIGS_DRIFT: 3}


async def test_a_link_that_is_taken_over_again_does_not_repeat_what_was_told() -> None:
    told = ConfigsTold((scene := Scene()).outbox)
    async with in_step(scene, told) as configs:
        scene.topic.source_own, scene.topic.own = {"segment.ms": "7"}, {"segment.ms": "77"}
        await scene.until(lambda: Event.CONFIGS_DRIFT in scene.outbox.counts)
        await configs.aclose()
        later = of(scene, told)
        later.start()
        await looks(scene)
        await later.aclose()
        assert scene.outbox.counts[Event.CONFIGS_DRIFT] == 1


async def test_an_operator_gives_a_value_back_by_unsetting_it_or_by_setting_the_sources() -> None:
    async with in_step(scene := Scene()):
        for given_back in ({}, {"segment.ms": "7"}):
            scene.topic.source_own, scene.topic.own = {"segment.ms": "7"}, {"segment.ms": "77"}
            await looks(scene)
            assert scene.topic.own == {"segment.ms": "77"}
            scene.topic.own = dict(given_back)
            await scene.until(lambda: scene.topic.own == {"segment.ms": "7"})
            await looks(scene)
            scene.topic.source_own = {"segment.ms": "8"}
            await scene.until(lambda: scene.topic.own == {"segment.ms": "8"})


async def test_without_a_ledger_what_was_seen_to_be_the_sources_follows_and_nothing_else() -> None:
    scene = Scene()
    scene.topic.logs = MemoryLogs(DENIED)
    scene.topic.source_own, scene.topic.own = {"segment.ms": "7", "flush.ms": "1"}, {"segment.ms": "77"}
    async with in_step(scene):
        await asyncio.sleep(0.1)
        assert scene.topic.configs_read == 0  # no lane says that it is a mirror
        copied(scene)
        await scene.until(lambda: scene.topic.own == {"segment.ms": "77", "flush.ms": "1"})
        scene.topic.source_own = {"segment.ms": "7", "flush.ms": "2"}
        await scene.until(lambda: scene.topic.own == {"segment.ms": "77", "flush.ms": "2"})
        await scene.until(lambda: Event.CONFIGS_DRIFT in scene.outbox.counts)
        (told,) = [each for each in scene.outbox.last if each.code is Event.CONFIGS_DRIFT]
        assert "no ledger says who has set it" in told.message


# -- what is refused


async def test_a_right_that_is_missing_is_told_once_and_mended_by_itself() -> None:
    async with in_step(scene := Scene()):
        scene.topic.fails = [DENIED] * 3
        scene.topic.source_own = {"segment.ms": "7", "flush.ms": "8"}
        await scene.until(lambda: scene.topic.own == {"segment.ms": "7", "flush.ms": "8"})
        assert scene.outbox.counts[Event.CONFIGS_REFUSED] == 1
        (told,) = [each for each in scene.outbox.last if each.code is Event.CONFIGS_REFUSED]
        assert "--operation AlterConfigs --topic orders" in (told.hint or "")
        assert "records are copied all the same" in told.message
        assert scene.is_held(0)
        await looks(scene)
        scene.topic.fails = [DENIED]
        scene.topic.source_own = {"segment.ms": "9"}
        await scene.until(lambda: scene.topic.own == {"segment.ms": "9"})
        assert scene.outbox.counts[Event.CONFIGS_REFUSED] == 2  # it was mended in between


async def test_one_value_that_is_refused_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configs_in_step, "AGAIN_S", 60.0)
    async with in_step(scene := Scene()):
        scene.topic.fails = [INVALID, INVALID]  # both together, then the first by itself
        scene.topic.source_own = {"flush.ms": "8", "segment.ms": "7"}
        await scene.until(lambda: scene.topic.own == {"segment.ms": "7"})
        await looks(scene)
        (told,) = [each for each in scene.outbox.last if each.code is Event.CONFIGS_REFUSED]
        assert told.message.startswith(f"link {NAME}: flush.ms of target topic orders")
        assert told.hint == 'topic_configs: {exclude: ["flush.ms"]}'
        assert len(scene.topic.altered) == 1
        scene.topic.source_own = {"flush.ms": "9", "segment.ms": "7"}  # another one is tried at once
        await scene.until(lambda: scene.topic.own == {"segment.ms": "7", "flush.ms": "9"})


async def test_what_the_target_does_not_know_is_told_once_and_not_tried() -> None:
    async with in_step(scene := Scene()):
        scene.topic.source_own = {"message.format.version": "2.8", "segment.ms": "7"}
        await scene.until(lambda: scene.topic.own == {"segment.ms": "7"})
        await looks(scene)
        assert [set(each) for each in scene.topic.altered] == [{"segment.ms"}]
        assert scene.outbox.counts[Event.CONFIGS_REFUSED] == 1


async def test_a_cluster_that_is_away_is_told_once_and_read_again() -> None:
    async with in_step(scene := Scene()):
        scene.topic.unread = [Disconnected("gone") for _ in range(4)]
        scene.topic.source_own = {"segment.ms": "7"}
        await scene.until(lambda: scene.topic.own == {"segment.ms": "7"})
        assert scene.outbox.counts[Event.CLUSTER_AWAY] == 1
        scene.topic.fails = [Disconnected("gone")]  # its outcome is not known
        scene.topic.source_own = {"segment.ms": "8"}
        await scene.until(lambda: scene.topic.own == {"segment.ms": "8"})
        assert Event.CONFIGS_REFUSED not in scene.outbox.counts


async def test_nothing_is_changed_that_cannot_be_written_down_first() -> None:
    async with in_step(scene := Scene()):
        await looks(scene, 1)
        scene.topic.logs.logs[LEDGER_TOPIC].fails = [Disconnected("gone") for _ in range(5)]
        scene.topic.source_own = {"segment.ms": "7"}
        await scene.until(lambda: Event.CLUSTER_AWAY in scene.outbox.counts)
        assert scene.topic.altered == []
        await scene.until(lambda: scene.topic.own == {"segment.ms": "7"})


async def test_configs_of_the_source_that_cannot_be_read_for_a_while_are_told_once() -> None:
    async with in_step(scene := Scene()):
        scene.topic.has_source = False
        await scene.until(lambda: Event.CONFIGS_UNREAD in scene.outbox.counts)
        await looks(scene, 5)
        assert scene.outbox.counts[Event.CONFIGS_UNREAD] == 1


# -- what is left alone


async def test_a_topic_that_is_built_or_that_somebody_works_on_is_left_alone() -> None:
    async with in_step(scene := Scene()):
        scene.topic.own = with_build({})
        scene.topic.source_own = {"segment.ms": "7"}
        await looks(scene)
        assert scene.topic.altered == []
        async with scene.turns.alone(NAME, [TOPIC]):
            scene.topic.own = {}
            await looks(scene)
            assert scene.topic.altered == []
        await scene.until(lambda: scene.topic.own == {"segment.ms": "7"})


async def test_nothing_is_changed_by_a_run_whose_lease_is_over() -> None:
    async with in_step(scene := Scene()):
        scene.drivership.granted = {NAME: 0.0}
        scene.topic.source_own = {"segment.ms": "7"}
        await looks(scene)
        assert scene.topic.altered == []


async def test_a_link_that_wants_its_target_topics_as_they_are_is_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    scene.topic.played_link = replace(LINK, topic_configs=ConfigRules(sync=False))
    monkeypatch.setattr(scene.topic, "link", lambda _name: scene.topic.played_link)
    async with in_step(scene) as configs:
        await asyncio.sleep(0.05)
        assert (configs.busy, scene.topic.configs_read) == (False, 0)


def row(number: int = 0, state: PartitionState = PartitionState.CAUGHT_UP, **more: Any) -> PartitionStatus:
    return PartitionStatus(partition=partition(number), state=state, **more)


STOPPED = PartitionState.STOPPED


@pytest.mark.parametrize(
    ("rows", "written", "is_so"),
    [
        ([row()], False, True),
        ([row(state=PartitionState.PENDING)], True, True),
        ([row(state=PartitionState.PENDING)], False, False),
        ([row(state=PartitionState.PAUSED)], True, True),
        ([row(state=STOPPED, reason=StopReason.TOO_LARGE)], True, True),  # its limit may be raised
        ([row(), row(1, STOPPED, reason=StopReason.FOREIGN)], True, False),
        ([row(), row(1, STOPPED, reason=StopReason.RECREATED)], True, False),
        ([row(), row(1, PartitionState.ALIGNING)], True, False),
        ([row(), row(1, PartitionState.UNKNOWN, held_by="another run")], True, False),
    ],
)
def test_configs_follow_of_what_is_our_mirror_and_is_not_aligned(
    rows: list[PartitionStatus], written: bool, is_so: bool
) -> None:
    assert is_followed(rows, written=written) is is_so


# -- many topics


class ManyTopics(FakeClusters):
    def __init__(self) -> None:
        super().__init__()
        self.portions: list[int] = []

    async def configs_again(
        self, _name: str, topics: Collection[str]
    ) -> tuple[Mapping[str, TopicConfig], Mapping[str, TopicConfig]]:
        self.portions.append(len(topics))
        same = {topic: config({"segment.ms": "7"}, **KNOWN) for topic in topics}
        return same, same


@pytest.mark.parametrize(
    ("count", "interval_s", "portions"), [(50, 5.0, 1), (250, 5.0, 2), (1000, 5.0, 5), (1000, 60.0, 10)]
)
async def test_a_look_reads_so_many_topics_that_all_are_read_in_time(
    count: int, interval_s: float, portions: int
) -> None:
    clusters = ManyTopics()
    clusters.targets[NAME] = SimpleNamespace(properties=Scene().topic.target(NAME).properties)
    rows = {f"t{number}": [row_of(f"t{number}")] for number in range(count)}
    board = SimpleNamespace(by_source_topic=lambda _link: rows)
    roles = SimpleNamespace(ledgers=SimpleNamespace(of=lambda _link: None))
    scene = Scene()
    configs = ConfigsInStep(
        NAME,
        cast(Clusters, clusters),
        cast(Any, roles),
        cast(Any, board),
        TopicTurns(),
        ConfigsTold(scene.outbox),
        interval_s=interval_s,
    )
    await configs._look()
    assert len(clusters.portions) == portions
    for _ in range(count // 100):
        await configs._look()
    assert len(configs._without_ledger) == count
    assert scene.outbox.counts == {}


def row_of(topic: str) -> PartitionStatus:
    key = partition(0)._replace(source_topic=topic, target_topic=topic)
    return PartitionStatus(partition=key, state=PartitionState.CAUGHT_UP)
