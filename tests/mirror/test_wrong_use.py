"""Wrong use ends in one clear message, a hint and the right exit code; never in a hang or a traceback."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from heliograph.lab.cluster import LabCluster
from tests.support.mirror_process import MirrorProcess, write_config
from tests.support.topics import create_topic

UNREACHABLE_S = 30.0  # three commands at once, each of which waits 12 s


def heliograph(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "heliograph.interface.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def _assert_unreachable(directory: Path, address: str, *words: str) -> None:
    config = write_config(directory, source=address, target=address, topics=["t"])
    began_at = time.monotonic()
    with ThreadPoolExecutor() as together:
        ended = list(
            together.map(lambda command: heliograph(command, str(config)), ("run", "plan", "status"))
        )
    assert time.monotonic() - began_at < UNREACHABLE_S
    for done in ended:
        assert done.returncode == 3, done.stderr
        assert address in done.stderr
        assert all(word in done.stderr for word in words), done.stderr
        assert "hint:" in done.stderr
        assert "Traceback" not in done.stderr


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _silent_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(50)
        yield listener.getsockname()[1]


@contextmanager
def _http_server() -> Iterator[int]:
    class Quiet(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_a_closed_port_is_exit_3_and_named(tmp_path: Path) -> None:
    _assert_unreachable(tmp_path, f"127.0.0.1:{_free_port()}")


def test_a_port_that_accepts_and_never_answers_is_exit_3_and_named(tmp_path: Path) -> None:
    with _silent_port() as port:
        _assert_unreachable(tmp_path, f"127.0.0.1:{port}")


def test_a_port_that_speaks_http_is_exit_3_and_says_so(tmp_path: Path) -> None:
    with _http_server() as port:
        _assert_unreachable(tmp_path, f"127.0.0.1:{port}", "HTTP")


def test_all_problems_of_a_config_come_at_once(tmp_path: Path) -> None:
    config = tmp_path / "heliograph.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "version": 1,
                "clusters": {"a": {"bootstrap.servers": "127.0.0.1:1", "acks": "1"}},
                "links": {"l": {"source": "a", "target": "b", "topics": ["ok", "["], "colour": "red"}},
            }
        )
    )
    done = heliograph("run", str(config))
    assert done.returncode == 2
    for words in ("acks", "links.l.target", "links.l.topics[1]", "links.l.colour"):
        assert words in done.stderr, done.stderr


@pytest.mark.kafka
def test_two_links_into_one_target_topic_are_exit_2(
    source_cluster: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    topic = unique_topic("shared")
    create_topic(source_cluster.bootstrap_servers, topic)
    path = write_config(
        tmp_path,
        source=source_cluster.bootstrap_servers,
        target=target_cluster.bootstrap_servers,
        topics=[topic],
    )
    document = yaml.safe_load(path.read_text())
    document["links"]["second"] = document["links"]["link"]
    path.write_text(yaml.safe_dump(document))
    done = heliograph("run", str(path))
    assert done.returncode == 2, done.stderr
    assert topic in done.stderr
    assert "link" in done.stderr
    assert "second" in done.stderr


@pytest.mark.kafka
def test_two_links_that_mirror_each_other_are_exit_2(
    source_cluster: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    topic = unique_topic("circle")
    for cluster in (source_cluster, target_cluster):
        create_topic(cluster.bootstrap_servers, topic)
    path = write_config(
        tmp_path,
        source=source_cluster.bootstrap_servers,
        target=target_cluster.bootstrap_servers,
        topics=[topic],
    )
    document = yaml.safe_load(path.read_text())
    document["links"]["back"] = {"source": "dst", "target": "src", "topics": [topic]}
    path.write_text(yaml.safe_dump(document))
    done = heliograph("run", str(path))
    assert done.returncode == 2, done.stderr
    assert "circle" in done.stderr


@pytest.mark.kafka
def test_a_cluster_mirrored_to_itself_is_refused(
    source_cluster: LabCluster, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    topic = unique_topic("self")
    create_topic(source_cluster.bootstrap_servers, topic)
    servers = source_cluster.bootstrap_servers
    config = write_config(tmp_path, source=servers, target=servers, topics=[topic])
    done = heliograph("run", str(config), "--until-caught-up", "--json")
    assert done.returncode == 1, done.stderr
    assert "same Kafka cluster" in json.loads(done.stdout)["partitions"][0]["error"]


@pytest.mark.kafka
def test_no_matching_topic_is_said_and_is_exit_0_when_caught_up_is_asked(
    source_cluster: LabCluster, target_cluster: LabCluster, tmp_path: Path
) -> None:
    config = write_config(
        tmp_path,
        source=source_cluster.bootstrap_servers,
        target=target_cluster.bootstrap_servers,
        topics=["nothing-has-this-name"],
    )
    done = heliograph("run", str(config), "--until-caught-up", "--json")
    assert done.returncode == 0, done.stderr
    assert "no topic" in done.stderr
    assert json.loads(done.stdout)["partitions"] == []


@pytest.mark.kafka
def test_run_waits_for_a_topic_that_matches(
    source_cluster: LabCluster, target_cluster: LabCluster, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    config = write_config(
        tmp_path,
        source=source_cluster.bootstrap_servers,
        target=target_cluster.bootstrap_servers,
        topics=[unique_topic("not-there")],
    )
    with MirrorProcess(config, runtime=tmp_path) as mirror:
        mirror.wait_until(lambda: "waiting for a topic" in mirror.log, "a word that it waits")
        assert "no topic" in mirror.log
        mirror.terminate()
        assert mirror.wait()[0] == 0
