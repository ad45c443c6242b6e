from __future__ import annotations

import json
import subprocess
from pathlib import Path

import psutil
import pytest

from heliograph.lab import registry
from heliograph.lab.cache import kafka_directory, named_clusters_directory
from heliograph.lab.cluster import Description
from heliograph.lab.jars import DEFAULT_KAFKA
from heliograph.lab.settings import Node
from heliograph.model.errors import LabError, UsageError


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, with jars pretended, so that nothing is fetched or started."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (kafka_directory(DEFAULT_KAFKA) / "libs").mkdir(parents=True)
    return tmp_path


def _written_cluster(name: str) -> Path:
    directory = named_clusters_directory() / name
    (directory / "node-1").mkdir(parents=True)
    node = Node(node_id=1, port=12001, controller_port=12002)
    Description(name=name, kafka=DEFAULT_KAFKA, heap_mb=512, nodes=(node,)).write(directory)
    return directory


def test_a_cluster_whose_broker_is_gone_is_down() -> None:
    _written_cluster("sf")
    found = registry.status("sf")
    assert (found.state, found.bootstrap_servers) == ("down", "127.0.0.1:12001")


def test_a_cluster_with_zookeeper_says_where_it_listens_and_is_up_only_with_it() -> None:
    (kafka_directory("0.10.2.2") / "libs").mkdir(parents=True)
    directory = named_clusters_directory() / "old"
    (directory / "node-1").mkdir(parents=True)
    node = Node(node_id=1, port=12001, controller_port=12002)
    Description(name="old", kafka="0.10.2.2", heap_mb=512, nodes=(node,), zookeeper_port=12003).write(
        directory
    )
    settings = directory / "node-1" / "server.properties"
    with subprocess.Popen(["tail", "-f", "/dev/null", str(settings)], stderr=subprocess.DEVNULL) as broker:
        record = {
            "pid": broker.pid,
            "started_at": psutil.Process(broker.pid).create_time(),
            "argument": str(settings),
        }
        (directory / "node-1" / "process.json").write_text(json.dumps(record))
        found = registry.status("old")
        assert found.state == "1 of 2 up"
        assert found.zookeeper == registry.ZooKeeperStatus(port=12003, pid=None, up=False)
        registry.bring_down("old")
        assert not psutil.pid_exists(broker.pid)


def test_an_up_that_died_at_its_beginning_can_be_taken_down() -> None:
    (named_clusters_directory() / "sf").mkdir(parents=True)
    assert registry.status("sf").state == "down"
    registry.bring_down("sf")
    assert registry.names() == []


def test_down_leaves_a_process_alone_that_got_the_brokers_pid() -> None:
    directory = _written_cluster("sf")
    with subprocess.Popen(["sleep", "314"]) as foreign:
        argument = str(directory / "node-1" / "server.properties")
        record = {
            "pid": foreign.pid,
            "started_at": psutil.Process(foreign.pid).create_time(),
            "argument": argument,
        }
        (directory / "node-1" / "process.json").write_text(json.dumps(record))
        registry.bring_down("sf")
        assert foreign.poll() is None
        assert not directory.exists()
        foreign.kill()


def test_a_second_up_of_one_name_is_refused_with_a_hint() -> None:
    _written_cluster("sf")
    with pytest.raises(LabError, match="there already") as raised:
        registry.bring_up("sf", properties={})
    assert "lab down sf" in raised.value.hint


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    _written_cluster("sf")
    with pytest.raises(LabError) as raised:
        registry.bring_down("nyc")
    assert "sf" in raised.value.hint


@pytest.mark.parametrize("name", ["", "../sf", "a/b", ".hidden", "x" * 65])
def test_a_name_that_could_leave_the_labs_directory_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        registry.status(name)
