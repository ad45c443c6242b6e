"""How a run ends: drained and gone on SIGTERM, exit 4 when Spark's JVM is lost."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from heliograph.lab.cluster import LabCluster
from tests.support.judge import assert_identical
from tests.support.mirror_process import MirrorProcess, write_config
from tests.support.steady_producer import SteadyProducer
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.faults]

GONE_S = 15.0
LOST_S = 10.0


@pytest.fixture
def topic(source_cluster: LabCluster, unique_topic: Callable[[str], str]) -> str:
    name = unique_topic("ending")
    create_topic(source_cluster.bootstrap_servers, name, 2)
    return name


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the run's temporary files go, so that a leftover is seen. Short: Unix sockets live in it."""
    with tempfile.TemporaryDirectory(prefix="h-") as name:
        monkeypatch.setenv("TMPDIR", name)
        yield Path(name)


@pytest.fixture
def config(source_cluster: LabCluster, target_cluster: LabCluster, topic: str, tmp_path: Path) -> Path:
    return write_config(
        tmp_path,
        source=source_cluster.bootstrap_servers,
        target=target_cluster.bootstrap_servers,
        topics=[topic],
    )


def _ports(connections: Iterable[Any]) -> set[int]:
    return {c.laddr.port for c in connections if c.status == psutil.CONN_LISTEN}


def _listening(family: list[psutil.Process]) -> set[int]:
    return _ports([c for process in family for c in process.net_connections("tcp")])


def test_sigterm_drains_and_leaves_nothing_behind(
    source_cluster: LabCluster,
    target_cluster: LabCluster,
    topic: str,
    config: Path,
    scratch: Path,
    tmp_path: Path,
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    with SteadyProducer(source, topic, rate_per_s=2000) as producer:
        with MirrorProcess(config, runtime=tmp_path) as mirror:
            mirror.wait_until(lambda: mirror.copied() >= 4000, "records copied")
            family = [psutil.Process(mirror.pid), *mirror.family()]
            ports = _listening(family)
            assert len(family) > 3
            assert ports
            asked_at = time.monotonic()
            mirror.terminate()
            code, _ = mirror.wait(GONE_S)
            took_s = time.monotonic() - asked_at
            log = mirror.log
        assert code == 0, log
        assert took_s < GONE_S
        assert "did not drain" not in log
        _, alive = psutil.wait_procs(family, timeout=GONE_S - took_s)
        assert not alive
        producer.stop()
    assert not ports & _ports(psutil.net_connections("tcp"))
    assert list(scratch.iterdir()) == []
    assert list((tmp_path / "heliograph").glob("*")) == []
    with MirrorProcess(config, "--until-caught-up", "--json", runtime=tmp_path) as again:
        again.result()
    assert_identical(source, target, [topic], records=producer.count)


def test_a_lost_jvm_is_exit_4_and_not_a_hang(config: Path, scratch: Path, tmp_path: Path) -> None:
    with MirrorProcess(config, runtime=tmp_path) as mirror:
        mirror.wait_until(lambda: len(mirror.lane_pids()) == 2, "two lanes")
        family = mirror.family()
        (jvm,) = [p for p in family if p.name() == "java"]
        os.kill(jvm.pid, signal.SIGKILL)
        code, _ = mirror.wait(LOST_S)
        assert code == 4, mirror.log
        assert "Spark's JVM is gone" in mirror.log
        assert "hint:" in mirror.log
        _, alive = psutil.wait_procs(family, timeout=GONE_S)
        assert not alive
    assert list(scratch.iterdir()) == []
