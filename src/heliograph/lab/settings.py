"""What is written into a lab broker's server.properties, and which ports it gets.

Owns the defaults of a small cluster for tests and drills. Must not know processes. The caller's own
properties override every default.
"""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from heliograph.lab.listeners import Listener, listener_settings
from heliograph.model.errors import LabError

LOOPBACK = "127.0.0.1"
# Below the range from which the system picks ports of outgoing connections (32768 on Linux): nobody
# takes a killed broker's port before it is started again.
PORTS = range(12_000, 32_000)

ZOOKEEPER_SESSION_MS = 6000  # Kafka's own default for a long time


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node of a lab cluster: broker and, without ZooKeeper, controller in one process."""

    node_id: int
    port: int
    controller_port: int
    listener_ports: Mapping[str, int] = field(default_factory=dict)  # by name, beside the plain one's


def choose_nodes(count: int, listener_names: Sequence[str] = ()) -> tuple[Node, ...]:
    ports = iter(free_ports((2 + len(listener_names)) * count))
    return tuple(
        Node(
            node_id=number,
            port=next(ports),
            controller_port=next(ports),
            listener_ports={name: next(ports) for name in listener_names},
        )
        for number in range(1, count + 1)
    )


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on, chosen at random so that two clusters starting at once do not meet."""
    free: list[int] = []
    for port in random.sample(PORTS, k=500):
        if len(free) == count:
            break
        with socket.socket() as attempt:
            try:
                attempt.bind(("127.0.0.1", port))
            except OSError:
                continue
            free.append(port)
    if len(free) < count:
        raise LabError(f"found {len(free)} free loopback ports, need {count}", hint="stop other clusters")
    return free


def broker_settings(
    node: Node,
    *,
    nodes: Sequence[Node],
    data_directory: Path,
    properties: Mapping[str, str],
    host: str = LOOPBACK,
    listeners: Sequence[Listener] = (),
) -> dict[str, str]:
    """`host`: the address clients are told. Any other than loopback's is listened on beside it."""
    voters = ",".join(f"{each.node_id}@{LOOPBACK}:{each.controller_port}" for each in nodes)
    return {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        **_addresses(node, host, listeners),
        # A killed broker is let back in only when its old session is over: 9 s by default.
        "broker.session.timeout.ms": "4000",
        "broker.heartbeat.interval.ms": "1000",
        **_small_cluster(len(nodes), data_directory),
        **properties,
    }


def _addresses(node: Node, host: str, listeners: Sequence[Listener]) -> dict[str, str]:
    plain = Listener(name="PLAINTEXT", host=host)  # also for brokers among themselves
    ports = {plain.name: node.port, **node.listener_ports}
    told = {each.name: f"{each.host}:{ports[each.name]}" for each in (plain, *listeners)}
    bound = {each.name: f"{_bound(each.host)}:{ports[each.name]}" for each in (plain, *listeners)}
    protocols = {each.name: each.protocol for each in (plain, *listeners)}
    return {
        "listeners": _joined({**bound, "CONTROLLER": f"{LOOPBACK}:{node.controller_port}"}, "://"),
        "advertised.listeners": _joined(told, "://"),
        "listener.security.protocol.map": _joined({**protocols, "CONTROLLER": "PLAINTEXT"}, ":"),
        **{key: value for each in listeners for key, value in listener_settings(each).items()},
    }


def _joined(values: Mapping[str, str], by: str) -> str:
    return ",".join(f"{name}{by}{value}" for name, value in values.items())


def zookeeper_broker_settings(
    node: Node,
    *,
    nodes: Sequence[Node],
    zookeeper_port: int,
    has_listeners: bool,
    data_directory: Path,
    properties: Mapping[str, str],
    host: str = LOOPBACK,
) -> dict[str, str]:
    """As above, of a broker that finds its cluster by ZooKeeper. What a release does not know it ignores."""
    addresses = {
        "listeners": f"PLAINTEXT://{_bound(host)}:{node.port}",
        "advertised.listeners": f"PLAINTEXT://{host}:{node.port}",
    }
    before_listeners = {
        "host.name": _bound(host),
        "port": str(node.port),
        "advertised.host.name": host,
        "advertised.port": str(node.port),
    }
    return {
        "broker.id": str(node.node_id),
        "zookeeper.connect": f"{LOOPBACK}:{zookeeper_port}",
        "zookeeper.connection.timeout.ms": "60000",
        "zookeeper.session.timeout.ms": str(ZOOKEEPER_SESSION_MS),
        **(addresses if has_listeners else before_listeners),
        **_small_cluster(len(nodes), data_directory),
        **properties,
    }


def _bound(host: str) -> str:
    return LOOPBACK if host in (LOOPBACK, "localhost") else "0.0.0.0"


def _small_cluster(brokers: int, data_directory: Path) -> dict[str, str]:
    replicas = str(min(3, brokers))
    in_sync = str(min(2, brokers))
    return {
        "log.dirs": str(data_directory),
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        "log.cleaner.dedupe.buffer.size": str(16 << 20),  # the default takes 128 MB of heap at start
    }


def write_settings(path: Path, settings: Mapping[str, str]) -> None:
    """For its owner only: there may be passwords of users in it."""
    path.touch(mode=0o600)
    path.write_text("".join(f"{key}={_escaped(value)}\n" for key, value in settings.items()))


def _escaped(value: str) -> str:
    """As java.util.Properties reads it: escapes of JSON, all in ASCII, mean the same there."""
    return json.dumps(value)[1:-1]
