from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from heliograph.lab.cache import kafka_directory
from heliograph.lab.cluster import LabCluster
from heliograph.lab.jars import DEFAULT_KAFKA, kafka_libs
from heliograph.lab.probe import live_brokers
from heliograph.model.errors import LabError

pytestmark = pytest.mark.kafka


def test_a_killed_broker_starts_again_on_its_port_and_data() -> None:
    with LabCluster.start(name="again") as cluster:
        broker = cluster.brokers[0]
        first_pid = broker.pid
        broker.kill()
        assert not broker.running
        assert live_brokers(broker.port) == frozenset()
        broker.start()
        assert broker.pid != first_pid
        assert cluster.bootstrap_servers == f"127.0.0.1:{broker.port}"
        assert live_brokers(broker.port) == {1}
        last_pid = broker.pid
    assert not psutil.pid_exists(last_pid)
    assert not cluster.directory.exists()


def test_a_frozen_broker_answers_nobody_until_it_is_thawed(target_cluster: LabCluster) -> None:
    broker = target_cluster.brokers[0]
    broker.freeze()
    try:
        assert live_brokers(broker.port) == frozenset()
        assert broker.running
    finally:
        broker.thaw()
    broker.wait_until_up()


def test_a_directory_given_by_the_caller_is_kept(tmp_path: Path) -> None:
    with LabCluster.start(name="kept", directory=tmp_path / "kept") as cluster:
        pid = cluster.brokers[0].pid
    assert not psutil.pid_exists(pid)
    assert (tmp_path / "kept" / "node-1" / "data" / "meta.properties").exists()


def test_three_brokers_see_each_other() -> None:
    with LabCluster.start(name="three", brokers=3) as cluster:
        assert all(live_brokers(broker.port) == {1, 2, 3} for broker in cluster.brokers)


def test_a_bad_property_is_told_in_the_brokers_own_words() -> None:
    with pytest.raises(LabError, match=r"log\.retention\.ms"):
        LabCluster.start(name="bad", properties={"log.retention.ms": "soon"})


def test_a_broker_that_dies_at_start_shows_its_own_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"no\.such\.Authorizer"):
        LabCluster.start(
            name="dies",
            directory=tmp_path / "dies",
            properties={"authorizer.class.name": "no.such.Authorizer"},
        )
    running = psutil.process_iter(["cmdline"])  # gives None for a process that ends while it is looked at
    assert not any(str(tmp_path) in " ".join(each.info["cmdline"] or ()) for each in running)


class TestCommands:
    """`heliograph lab` as a user runs it, with a cache of the test's own that holds the real jars."""

    @pytest.fixture
    def environment(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
        real = kafka_libs(DEFAULT_KAFKA)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        kafka_directory(DEFAULT_KAFKA).mkdir(parents=True)
        (kafka_directory(DEFAULT_KAFKA) / "libs").symlink_to(real)
        return dict(os.environ)

    def run(self, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "heliograph.interface.cli.main", "lab", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)

    def answer(self, environment: dict[str, str], *arguments: str) -> Any:
        done = self.run(environment, *arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def test_a_cluster_outlives_up_and_ends_with_down(self, environment: dict[str, str]) -> None:
        (cluster,) = self.answer(environment, "up", "sf", "--property", "num.io.threads=2")
        try:
            (broker,) = cluster["brokers"]
            assert cluster["bootstrap_servers"] == f"127.0.0.1:{broker['port']}"
            assert live_brokers(broker["port"]) == {1}
            assert [each["state"] for each in self.answer(environment, "status")] == ["up"]
            second = self.run(environment, "up", "sf")
            assert (second.returncode, second.stdout) == (1, "")
            assert "lab down sf" in second.stderr
        finally:
            assert self.answer(environment, "down") == {"ended": ["sf"]}
        assert not Path(cluster["directory"]).exists()
        _wait_gone(broker["pid"])
        assert self.answer(environment, "status") == []

    def test_a_property_without_a_value_is_wrong_use(self, environment: dict[str, str]) -> None:
        assert self.run(environment, "up", "--property", "nonsense").returncode == 2


def _wait_gone(pid: int) -> None:
    # The broker is nobody's child any more: whoever adopted it may take a moment to collect it.
    deadline = time.monotonic() + 10
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.02)
