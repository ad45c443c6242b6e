"""Brokers of both clusters killed, restarted, frozen and elected uncleanly amid a copy: identical (P1 to P4, P7).
Some of it once more with TLS and SCRAM on both sides."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from heliograph.controller.topic_config import FORCED
from heliograph.lab.broker import Broker
from heliograph.lab.cluster import LabCluster
from heliograph.model.percentile import percentile
from tests.support.backlog_scene import BacklogScene
from tests.support.fault_scene import LEAST, MOST, PARTITIONS, SLOWLY, fill, is_gone
from tests.support.judge import assert_identical
from tests.support.latency_watch import LatencyWatch
from tests.support.mirror_process import MirrorProcess, write_config
from tests.support.plain_driver import PlainDriver
from tests.support.plain_mirror import settings_for
from tests.support.replicas import ReplicaView, create_assigned
from tests.support.secured_clusters import SecuredCluster, SecuredPair, start_secured
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

BROKERS = (1, 2, 3)
PROPERTIES = {"min.insync.replicas": "2"}
HEAP_MB = 256
GOES_ON_S = 30.0
FROZEN_S = 20.0
P99_LIMIT_S = 0.5
WARM_S = 8.0

log = logging.getLogger(__name__)


SECURED = pytest.mark.parametrize("secured", [False, True], indirect=True, ids=["plain", "secured"])


@pytest.fixture(scope="module")
def three_sources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with _three("sources", tmp_path_factory) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def three_targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with _three("targets", tmp_path_factory) as cluster:
        yield cluster


def _three(name: str, places: pytest.TempPathFactory) -> AbstractContextManager[SecuredCluster]:
    directory = places.mktemp("brokers") / name
    return start_secured(name, directory, "SCRAM", brokers=3, heap_mb=HEAP_MB, properties=PROPERTIES)


@pytest.fixture
def secured(request: pytest.FixtureRequest) -> bool:
    """Whether the mirror comes in by SCRAM under TLS, on both sides. All others always come in plain text."""
    return bool(getattr(request, "param", False))


class Stage:
    """Both clusters, and how a scene on them begins. `clients`: how the mirror comes to them."""

    def __init__(
        self, sources: SecuredCluster, targets: SecuredCluster, topic: str, directory: Path, secured: bool
    ) -> None:
        self.sources, self.targets, self.topic = sources.cluster, targets.cluster, topic
        self.source, self.target = sources.plain, targets.plain
        self.clients = (client(sources, secured), client(targets, secured))
        self.directory = directory

    def scene(self) -> BacklogScene:
        return BacklogScene(
            self.source,
            self.target,
            self.topic,
            self.directory,
            backlog=20_000,
            rate_per_s=50,
            replication_factor=3,
            clients=self.clients,
        )

    def kill(self, *brokers: Broker) -> None:
        for broker in brokers:
            broker.kill()
            assert broker.last_pid is not None
            assert is_gone(broker.last_pid)

    def view(self, cluster: LabCluster) -> ReplicaView:
        return ReplicaView(cluster.bootstrap_servers, self.topic)


def client(cluster: SecuredCluster, secured: bool) -> str | Mapping[str, str]:
    return cluster.access("SCRAM").client if secured else cluster.plain


@pytest.fixture
def stage(
    three_sources: SecuredCluster,
    three_targets: SecuredCluster,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    secured: bool,
) -> Stage:
    return Stage(three_sources, three_targets, unique_topic("brokers"), tmp_path, secured)


@SECURED
@pytest.mark.slow
@pytest.mark.spark
def test_leaders_killed_in_turn_leave_one_whole_copy_and_every_partition_goes_on(stage: Stage) -> None:
    with stage.scene() as scene:
        scene.begin()
        for cluster in (stage.targets, stage.sources):
            view = stage.view(cluster)
            for broker in cluster.brokers:
                view.wait_whole()
                scene.keep_amid()
                led = view.led_by(broker.node_id)

                def strike(broker: Broker = broker, led: list[int] = led) -> None:
                    stage.kill(broker)
                    scene.wait_going_on(led, GOES_ON_S)

                scene.strike(strike)
                broker.start()
        scene.finish()


@pytest.mark.slow
@pytest.mark.spark
def test_a_rolling_restart_of_both_clusters_leaves_one_whole_copy(stage: Stage) -> None:
    with stage.scene() as scene:
        scene.begin()
        for cluster in (stage.targets, stage.sources):
            view = stage.view(cluster)
            for broker in cluster.brokers:
                view.wait_whole()
                scene.keep_amid()
                scene.strike(broker.stop)
                broker.start()
        scene.finish()


@pytest.mark.slow
@pytest.mark.spark
def test_an_unclean_election_that_loses_acknowledged_records_of_the_target_is_made_good(stage: Stage) -> None:
    old, leader = stage.targets.brokers[0], stage.targets.brokers[1]
    replicas = [leader.node_id, old.node_id]
    configs = {**FORCED, "min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    create_assigned(stage.target, stage.topic, [replicas] * PARTITIONS, configs)
    view = stage.view(stage.targets)
    with stage.scene() as scene:
        scene.begin()
        scene.strike(lambda: stage.kill(old))
        view.wait(lambda seen: all(r.in_sync == {leader.node_id} for r in seen.values()), "smaller sets")
        known = scene.copied()
        scene.mirror.wait_until(lambda: scene.copied() > known + 500, "records on one broker only")
        scene.keep_amid()
        scene.strike(lambda: stage.kill(leader))
        old.start()
        scene.mirror.wait_until(lambda: "target_truncated" in scene.mirror.log, "word of the truncation")
        leader.start()
        scene.finish()


@pytest.mark.slow
@pytest.mark.spark
def test_too_few_replicas_for_a_while_hold_the_copy_up_and_stop_nothing(stage: Stage) -> None:
    """First one of the two that a partition needs; then two of the cluster's three, and with them its quorum."""
    first, second, third = stage.targets.brokers
    replicas = [[first.node_id, second.node_id], [second.node_id, first.node_id]]
    create_assigned(stage.target, stage.topic, replicas * 2, {**FORCED, "min.insync.replicas": "2"})
    with stage.scene() as scene:
        scene.begin()
        scene.strike(lambda: stage.kill(second))
        scene.mirror.wait_until(lambda: "NOT_ENOUGH_REPLICAS" in scene.mirror.log, "too few replicas")
        second.start()
        scene.wait_going_on(range(PARTITIONS), GOES_ON_S)
        scene.keep_amid()
        scene.strike(lambda: stage.kill(second, third))
        time.sleep(8.0)  # longer than a broker's session: this is the fault itself
        second.launch()
        third.launch()
        scene.wait_going_on(range(PARTITIONS), 2 * GOES_ON_S)
        assert "is stopped" not in scene.mirror.log
        scene.finish()


@pytest.mark.slow
async def test_leaders_that_move_back_and_forth_leave_one_whole_copy(stage: Stage) -> None:
    """Each move is a new leader epoch, with nobody down."""
    count = 8_000
    create_topic(stage.source, stage.topic, PARTITIONS, 3)
    fill(stage.source, stage.topic, count)
    orders = ((2, 3, 1), (3, 1, 2), (1, 2, 3))

    async with PlainDriver(
        settings_for(stage.source, stage.target, [stage.topic], consumer=SLOWLY["consumer"])
    ) as driver:
        driver.lane().assign(driver.specs)
        for nth, order in enumerate(orders):
            await driver.until(lambda: driver.copied >= 0.22 * count, "a start")
            assert LEAST * count <= driver.copied <= MOST * count, f"move {nth}: {driver.copied}"
            cluster = (stage.targets, stage.sources)[nth % 2]
            await asyncio.to_thread(stage.view(cluster).move_leaders, order)
        await driver.until_caught_up(count)

    assert_identical(stage.source, stage.target, [stage.topic], records=count)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    ("side", "secured"),
    [("target", False), ("source", False), ("target", True)],
    indirect=["secured"],
    ids=["target", "source", "target secured"],
)
def test_a_frozen_broker_slows_nobody_whose_replicas_are_elsewhere(
    stage: Stage, request: pytest.FixtureRequest, side: str, secured: bool
) -> None:
    """The other side is one broker: more processes of Java on two cores would be slow by themselves."""
    struck = stage.targets if side == "target" else stage.sources
    other = "source" if side == "target" else "target"
    single, single_client = _single(request, other, secured)
    source, target = (stage.source, single) if side == "source" else (single, stage.target)
    clients = (stage.clients[0], single_client) if side == "source" else (single_client, stage.clients[1])
    frozen = struck.brokers[2]
    a, b, c = (1, 2, 3)
    elsewhere, everywhere = f"{stage.topic}-elsewhere", f"{stage.topic}-everywhere"
    placed = {
        elsewhere: [[a, b], [b, a], [a, b], [b, a]],
        everywhere: [[a, b, c], [b, c, a], [c, a, b], [c, b, a]],
    }
    for topic, replicas in placed.items():
        in_sync = {"min.insync.replicas": "2"}
        if side == "target":
            create_topic(source, topic, len(replicas))
            create_assigned(target, topic, replicas, {**FORCED, **in_sync})
        else:
            create_assigned(source, topic, replicas, in_sync)
            create_assigned(target, topic, [[a]] * len(replicas), FORCED)
    wheres = [(topic, number) for topic, replicas in placed.items() for number in range(len(replicas))]
    led = [(everywhere, 2), (everywhere, 3)]
    config = write_config(stage.directory, source=clients[0], target=clients[1], topics=list(placed))
    with MirrorProcess(config, runtime=stage.directory) as mirror:
        mirror.wait_until(lambda: _all_caught_up(mirror, len(wheres)), "lanes that hold all partitions")
        with LatencyWatch(source, target, wheres) as watch:
            mirror.wait_until(lambda: _is_warm(watch, wheres), "a mirror that tails well")
            copied, frozen_at = len(watch.arrivals), time.monotonic()
            frozen.freeze()
            try:
                _wait_left_out(struck.brokers[0], everywhere, c)
                log.info("in-sync sets without the frozen broker after %.1f s", time.monotonic() - frozen_at)
                time.sleep(max(frozen_at + FROZEN_S - time.monotonic(), 0.0))  # this is the fault itself
            finally:
                frozen.thaw()
            thawed_at = time.monotonic()
            time.sleep(FROZEN_S / 2)
            produced = watch.stop()
            mirror.wait_until(lambda: len(watch.arrivals) >= produced, "all arrivals")
        mirror.terminate()
        assert mirror.wait()[0] == 0, mirror.log
    assert LEAST * produced <= copied <= MOST * produced
    unharmed = [where for where in wheres if where[0] == elsewhere]
    waiting = [(everywhere, 0), (everywhere, 1)]
    before = watch.took(unharmed, frozen_at - WARM_S, frozen_at)
    log.info(
        "before: p50 %.0f ms, p99 %.0f ms", *(1000 * percentile(before, percent) for percent in (50, 99))
    )
    for name, group in (("elsewhere", unharmed), ("replicated, led elsewhere", waiting), ("led by it", led)):
        took = watch.took(group, frozen_at, thawed_at)
        figures = [f"{1000 * percentile(took, percent):.0f} ms" for percent in (50, 99, 100)]
        log.info("%s: p50, p99, longest: %s", name, ", ".join(figures))
    assert_identical(source, target, list(placed), records=produced)
    p99_s = percentile(watch.took(unharmed, frozen_at, thawed_at), 99)
    assert p99_s < P99_LIMIT_S, f"p99 {1000 * p99_s:.0f} ms"
    for where in led:
        went_on_at = watch.first_after(where, frozen_at)
        assert went_on_at is not None
        log.info("%s went on %.1f s after the freeze", where, went_on_at - frozen_at)
        assert went_on_at < thawed_at


def _single(request: pytest.FixtureRequest, side: str, secured: bool) -> tuple[str, str | Mapping[str, str]]:
    """A cluster of one broker: its plain bootstrap servers, and how the mirror comes to it."""
    if not secured:
        cluster: LabCluster = request.getfixturevalue(f"{side}_cluster")
        return cluster.bootstrap_servers, cluster.bootstrap_servers
    pair: SecuredPair = request.getfixturevalue("secured_pair")
    one: SecuredCluster = getattr(pair, side)
    return one.plain, client(one, secured)


def _is_warm(watch: LatencyWatch, wheres: list[tuple[str, int]]) -> bool:
    """Fresh virtual machines are slow: what the freeze costs can be told only after that."""
    now = time.monotonic()
    took = watch.took(wheres, now - WARM_S, now - 1.0)
    return len(took) > len(wheres) * WARM_S * 5 and percentile(took, 99) < P99_LIMIT_S / 2


def _wait_left_out(witness: Broker, topic: str, frozen: int) -> None:
    """Until no in-sync set holds it. A client that knows all brokers might ask the frozen one: so each look is by a
    new client."""
    deadline = time.monotonic() + FROZEN_S
    while time.monotonic() < deadline:
        seen = ReplicaView(f"127.0.0.1:{witness.port}", topic).now()
        if seen and all(frozen not in each.in_sync for each in seen.values()):
            return
        time.sleep(0.2)


def _all_caught_up(mirror: MirrorProcess, count: int) -> bool:
    partitions = mirror.live().get("partitions", [])
    return len(partitions) == count and all(p["state"] == "caught_up" for p in partitions)
