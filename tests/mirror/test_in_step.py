"""Topics that come, grow and go while a mirror runs are followed from their first record; nothing else is touched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from heliograph.lab.cluster import LabCluster
from heliograph.model.config_rules import ConfigRules
from heliograph.model.errors import ConfigError
from heliograph.model.settings import Settings
from heliograph.model.states import PartitionState, StopReason
from tests.support.judge import assert_identical
from tests.support.plain_mirror import settings_for
from tests.support.plain_run import PlainRun, plain_run
from tests.support.topics import (
    add_partitions,
    create_topic,
    create_topic_by_line,
    delete_topic,
    own_configs,
    partition_count,
    set_config,
    unset_config,
)
from tests.support.workload import produce_mixed

pytestmark = pytest.mark.kafka
FOLLOWED_S = 15.0


class Scene:
    """Topics that begin with `stem`, on a source and a target."""

    def __init__(self, source: LabCluster, target: LabCluster, stem: str) -> None:
        self.source, self.target = source.bootstrap_servers, target.bootstrap_servers
        self.stem = stem
        self.settings = settings_for(self.source, self.target, [f"{stem}[.].*"])

    def topic(self, name: str) -> str:
        return f"{self.stem}.{name}"

    async def create(self, name: str, partitions: int = 1, records: int = 60) -> str:
        topic = self.topic(name)
        await asyncio.to_thread(create_topic, self.source, topic, partitions)
        await self.produce(topic, records)
        return topic

    async def produce(self, topic: str, records: int, seed: int = 0) -> None:
        await asyncio.to_thread(lambda: produce_mixed(self.source, topic, count=records, seed=seed))

    async def grow(self, topic: str, partitions: int) -> None:
        await asyncio.to_thread(add_partitions, self.source, topic, partitions)

    async def identical(self, *topics: str, records: int) -> None:
        await asyncio.to_thread(lambda: assert_identical(self.source, self.target, topics, records=records))


@pytest.fixture
def scene(
    source_cluster: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str]
) -> Scene:
    return Scene(source_cluster, target_cluster, unique_topic("in-step"))


async def has(bootstrap: str, topic: str, **wanted: str | None) -> None:
    """Within the time in which a change is followed; names with `_` for `.`, None: not set on the topic."""
    dotted = {name.replace("_", "."): value for name, value in wanted.items()}
    own: dict[str, str] = {}
    try:
        async with asyncio.timeout(FOLLOWED_S):
            while True:
                own = await asyncio.to_thread(own_configs, bootstrap, topic)
                if all(own.get(name) == value for name, value in dotted.items()):
                    return
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"{topic} has {own}, and not {dotted}") from None


def is_copied(topic: str, partitions: int) -> Callable[[PlainRun], bool]:
    def look(run: PlainRun) -> bool:
        rows = [row for row in run.rows if row.partition.source_topic == topic]
        return len(rows) == partitions and {row.state for row in rows} == {PartitionState.CAUGHT_UP}

    return look


def without(topic: str) -> Callable[[PlainRun], bool]:
    return lambda run: all(row.partition.source_topic != topic for row in run.rows)


async def test_topics_that_come_grow_and_go_are_followed_while_others_stay_on_their_lanes(
    scene: Scene,
) -> None:
    calm, growing = await scene.create("calm", 2), await scene.create("growing", 1)
    going = await scene.create("going", 1)
    async with plain_run(scene.settings) as run:
        await run.caught_up()
        coming = await scene.create("coming", 3)
        await scene.grow(growing, 3)
        await scene.produce(growing, 90, seed=1)
        await asyncio.to_thread(delete_topic, scene.source, going)
        await run.until(is_copied(coming, 3), FOLLOWED_S)
        await run.until(is_copied(growing, 3), FOLLOWED_S)
        await run.until(without(going), FOLLOWED_S)
        await scene.produce(calm, 30, seed=2)
        await run.caught_up()
        await scene.identical(calm, growing, coming, records=90 + 150 + 60)
        counts = {str(code): count for code, count in run.mirror.outbox.counts.items()}
        assert (counts["topic_created"], counts["partitions_added"], counts["topic_gone"]) == (4, 1, 1)
        assert not {"raced", "unsettled", "target_truncated"} & counts.keys()
        assert partition_count(scene.target, going) == 1  # kept


async def test_a_driver_that_is_killed_right_after_a_change_leaves_it_to_the_next_one(scene: Scene) -> None:
    growing = await scene.create("growing", 1)
    async with plain_run(scene.settings) as run:
        await run.caught_up()
        coming = await scene.create("coming", 2)
        await scene.grow(growing, 2)
        await scene.produce(growing, 40, seed=1)
        await run.until(lambda run: bool(run.codes.count("partitions_added")), FOLLOWED_S)
        await run.kill()
    async with plain_run(scene.settings) as run:
        await run.until(is_copied(coming, 2))
        await run.until(is_copied(growing, 2))
        await scene.grow(growing, 3)
        await scene.produce(growing, 30, seed=2)
        await run.until(is_copied(growing, 3), FOLLOWED_S)
    await scene.identical(coming, growing, records=60 + 130)


async def test_a_source_topic_that_is_made_again_stops_as_recreated(scene: Scene) -> None:
    topic = await scene.create("again", 1)
    async with plain_run(replace(scene.settings, discovery_interval_s=0.5)) as run:
        await run.caught_up()
        await asyncio.to_thread(delete_topic, scene.source, topic)
        await run.until(without(topic), FOLLOWED_S)
        await scene.create("again", 1)
        await run.until(lambda run: [row.reason for row in run.rows] == [StopReason.RECREATED], FOLLOWED_S)


async def test_what_an_operator_makes_on_the_target_is_found_while_the_mirror_runs(scene: Scene) -> None:
    link = replace(scene.settings.links[0], create_topics=False)
    there = await scene.create("there", 1)
    await asyncio.to_thread(create_topic, scene.target, there)
    async with plain_run(replace(scene.settings, links=(link,), discovery_interval_s=0.5)) as run:
        await run.caught_up()
        coming = await scene.create("coming", 2)
        await scene.grow(there, 2)
        await run.until(lambda run: sum(row.awaits_topic for row in run.rows) == 3, FOLLOWED_S)
        lines = {row.partition.source_topic: row.hint or "" for row in run.rows if row.awaits_topic}
        await asyncio.to_thread(create_topic_by_line, lines[coming])
        assert "--alter" in lines[there]
        await asyncio.to_thread(add_partitions, scene.target, there, 2)
        await run.until(is_copied(coming, 2), FOLLOWED_S)
        await run.until(is_copied(there, 2), FOLLOWED_S)
    await scene.identical(coming, there, records=120)


async def test_configs_that_change_at_the_source_follow_and_an_operators_are_kept(scene: Scene) -> None:
    topic = await scene.create("configured", 2)
    source, target = scene.source, scene.target
    async with plain_run(scene.settings) as run:
        await run.caught_up()
        await asyncio.to_thread(set_config, source, topic, "retention.ms", "3600000000")
        await asyncio.to_thread(set_config, source, topic, "segment.ms", "1200000")
        await has(target, topic, retention_ms="3600000000", segment_ms="1200000")

        await asyncio.to_thread(set_config, target, topic, "segment.ms", "2400000")
        await run.until(lambda run: "configs_drift" in run.codes, FOLLOWED_S)
        await asyncio.to_thread(set_config, source, topic, "segment.ms", "1300000")
        await asyncio.to_thread(set_config, source, topic, "retention.ms", "3700000000")
        await has(target, topic, retention_ms="3700000000", segment_ms="2400000")

        await asyncio.to_thread(unset_config, target, topic, "segment.ms")  # given back
        await has(target, topic, segment_ms="1300000")
        await asyncio.to_thread(unset_config, source, topic, "segment.ms")
        await asyncio.to_thread(set_config, source, topic, "unclean.leader.election.enable", "true")
        await asyncio.to_thread(set_config, source, topic, "cleanup.policy", "compact")
        await has(
            target, topic, segment_ms=None, cleanup_policy="compact", unclean_leader_election_enable=None
        )
        await asyncio.to_thread(unset_config, source, topic, "cleanup.policy")
        await has(target, topic, cleanup_policy=None, compression_type="producer")
        await run.caught_up()
        assert "configs_refused" not in run.codes


async def test_a_driver_that_is_killed_amid_changes_of_configs_leaves_none_behind_that_is_nobodys(
    scene: Scene,
) -> None:
    topic = await scene.create("configured", 1)
    settings = replace(scene.settings, discovery_interval_s=0.5)
    for value in ("1200000", "1300000", "1400000"):
        async with plain_run(settings) as run:
            await run.caught_up()
            await asyncio.to_thread(set_config, scene.source, topic, "segment.ms", value)
            await run.until(lambda run: "configs_changed" in run.codes, FOLLOWED_S)
            await run.kill()
    await asyncio.to_thread(set_config, scene.source, topic, "segment.ms", "1500000")
    async with plain_run(settings) as run:
        await has(scene.target, topic, segment_ms="1500000")
        assert "configs_drift" not in run.codes


async def test_a_value_that_the_target_refuses_is_told_once_and_records_flow_on(scene: Scene) -> None:
    topic = await scene.create("configured", 1)
    link = replace(scene.settings.links[0], topic_configs=ConfigRules(values={"segment.bytes": "1"}))
    await asyncio.to_thread(create_topic, scene.target, topic)
    async with plain_run(replace(scene.settings, links=(link,), discovery_interval_s=0.5)) as run:
        await run.caught_up()
        await run.until(lambda run: "configs_refused" in run.codes, FOLLOWED_S)
        await asyncio.to_thread(set_config, scene.source, topic, "retention.ms", "3600000000")
        await has(scene.target, topic, retention_ms="3600000000")
        await scene.produce(topic, 30, seed=1)
        await run.caught_up()
        assert run.codes.count("configs_refused") == 1
    await scene.identical(topic, records=90)


@pytest.fixture
def third_cluster() -> Iterator[LabCluster]:
    with LabCluster.start(name="third") as cluster:
        yield cluster


async def test_one_of_three_clusters_that_is_away_at_the_start_joins_when_it_comes(
    scene: Scene, third_cluster: LabCluster
) -> None:
    (broker,) = third_cluster.brokers
    topic = await scene.create("there", 2)
    link = scene.settings.links[0]
    settings = replace(
        scene.settings,
        clusters={
            **scene.settings.clusters,
            "third": {"bootstrap.servers": third_cluster.bootstrap_servers},
        },
        links=(
            link,
            replace(link, name="to-third", target="third"),
            replace(link, name="again", target="third"),
        ),
        discovery_interval_s=1.0,
    )
    await asyncio.to_thread(broker.stop)
    async with plain_run(settings) as run:
        await run.caught_up()
        assert set(run.mirror.waiting) == {"to-third", "again"}
        assert {row.partition.link for row in run.rows} == {link.name}
        await asyncio.to_thread(broker.start)
        # Both write one topic: the one that comes first joins, the other stays out, and none of that ends the run.
        await run.until(lambda run: len(run.mirror.roles) == 2 and "link_out" in run.codes)
        await run.until(lambda run: len(run.rows) == 4)
        await scene.produce(topic, 60, seed=1)
        await run.caught_up()
        counts = {str(code): count for code, count in run.mirror.outbox.counts.items()}
        assert (counts["cluster_away"], counts["cluster_back"], counts["link_out"]) == (1, 1, 1)
    await scene.identical(topic, records=120)
    await asyncio.to_thread(
        lambda: assert_identical(scene.source, third_cluster.bootstrap_servers, [topic], records=120)
    )


async def test_a_config_that_is_edited_under_load_is_followed_and_what_stays_is_not_touched(
    scene: Scene, third_cluster: LabCluster
) -> None:
    """A link added, a broken file, a pattern widened and narrowed, a link removed."""
    calm, more = await scene.create("calm", 2), await scene.create("more", 1)
    third = third_cluster.bootstrap_servers
    clusters = {**scene.settings.clusters, "third": {"bootstrap.servers": third}}
    stays = replace(scene.settings.links[0], topics=(scene.topic("calm"),))
    # Between the same clusters as the one that stays, under other names: both are members of one group.
    beside = replace(stays, name="beside", topics=(scene.topic("more"),), naming="beside.{topic}")
    away = replace(stays, name="away", target="third")
    settings = replace(scene.settings, clusters=clusters, links=(stays,), discovery_interval_s=0.5)
    says: list[Settings | ConfigError] = [settings]

    def read() -> Settings:
        if isinstance(says[-1], ConfigError):
            raise says[-1]
        return says[-1]

    def of(link: str, topic: str, partitions: int) -> Callable[[PlainRun], bool]:
        def look(run: PlainRun) -> bool:
            rows = [
                row for row in run.rows if (row.partition.link, row.partition.source_topic) == (link, topic)
            ]
            return len(rows) == partitions and all(row.state is PartitionState.CAUGHT_UP for row in rows)

        return look

    async with plain_run(settings, read_again=read) as run:
        await run.caught_up()
        says.append(replace(settings, links=(stays, beside, away)))
        await run.until(of("beside", more, 1), FOLLOWED_S)
        await run.until(of("away", calm, 2), FOLLOWED_S)
        says.append(ConfigError(["links: required", "clusters.x: unknown"]))
        await run.until(lambda run: "config_refused" in run.codes, FOLLOWED_S)
        wider = replace(beside, topics=(scene.topic("more"), scene.topic("new")))
        new = await scene.create("new", 2)
        says.append(replace(settings, links=(stays, wider, away), lanes=7))
        await run.until(of("beside", new, 2), FOLLOWED_S)
        await run.until(of("beside", more, 1), FOLLOWED_S)
        says.append(replace(settings, links=(stays, replace(wider, exclude=(scene.topic("new"),)))))
        await run.until(
            lambda run: {row.partition.link for row in run.rows} == {"link", "beside"}, FOLLOWED_S
        )
        await run.until(without(new), FOLLOWED_S)
        await scene.produce(calm, 60, seed=1)
        await scene.produce(more, 60, seed=1)
        await run.caught_up()
        counts = {str(code): count for code, count in run.mirror.outbox.counts.items()}
        assert (counts["config_changed"], counts["config_refused"], counts["restart_needed"]) == (3, 1, 1)
        # Only the link that selects more was elected anew.
        assert counts["active"] == 4
        assert not {"raced", "unsettled", "link_out"} & counts.keys()
    await scene.identical(calm, records=120)
    names = {more: f"beside.{more}", new: f"beside.{new}"}
    await asyncio.to_thread(lambda: assert_identical(scene.source, scene.target, names, records=180))
