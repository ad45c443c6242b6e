from __future__ import annotations

import psutil
import pytest

from heliograph.lab.cluster import LabCluster
from heliograph.lab.probe import live_brokers
from heliograph.lab.releases import release

RELEASES = ["0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "1.1.1", "2.4.1", "2.8.2"]


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("kafka", RELEASES)
def test_an_old_cluster_comes_up_on_loopback_only_and_leaves_nothing(kafka: str) -> None:
    with LabCluster.start(name="old", kafka=kafka) as cluster:
        seen = live_brokers(cluster.brokers[0].port, release(kafka).metadata_version)
        assert seen == ({1} if release(kafka).lists_brokers else frozenset())
        pids = [process.last_pid for process in cluster.processes]
        assert len(pids) == 2
        for pid in pids:
            listening = [each for each in psutil.Process(pid).net_connections() if each.status == "LISTEN"]
            assert listening
            assert {each.laddr.ip for each in listening} <= {"127.0.0.1", "::ffff:127.0.0.1"}
    assert not any(psutil.pid_exists(pid) for pid in pids if pid is not None)
    assert not cluster.directory.exists()


@pytest.mark.kafka
@pytest.mark.slow
def test_a_killed_broker_with_zookeeper_starts_again_on_its_port_and_data() -> None:
    with LabCluster.start(name="old-again", kafka="2.8.2", brokers=2) as cluster:
        broker = cluster.brokers[0]
        broker.kill()
        broker.start()
        assert live_brokers(broker.port) >= {1}
