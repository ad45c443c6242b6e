"""Named lab clusters that outlive the process that started them.

Owns the directory of names: one cluster directory per name, made before anything in it runs, so that
two `up` of one name cannot both succeed. Must not know how brokers work. What runs is read from the
records the brokers left (process.py): `down` ends only what `up` started.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heliograph.lab.cache import named_clusters_directory
from heliograph.lab.cluster import LabCluster, read_description
from heliograph.lab.jars import DEFAULT_KAFKA
from heliograph.model.errors import LabError, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatus:
    id: int
    port: int
    pid: int | None
    up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperStatus:
    port: int
    pid: int | None
    up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """A named cluster as it is now. `state` is `up` when all of its processes run, ZooKeeper's too where it
    has one; `down` when none does."""

    name: str
    state: str
    bootstrap_servers: str
    kafka: str
    brokers: tuple[BrokerStatus, ...]
    directory: str
    zookeeper: ZooKeeperStatus | None = None


def bring_up(
    name: str, *, brokers: int = 1, kafka: str = DEFAULT_KAFKA, properties: Mapping[str, str]
) -> ClusterStatus:
    directory = _directory(name)
    directory.parent.mkdir(parents=True, exist_ok=True)
    try:
        directory.mkdir()
    except FileExistsError:
        raise LabError(
            f"a lab cluster named {name!r} is there already",
            hint=f"heliograph lab status, or heliograph lab down {name}",
        ) from None
    try:
        LabCluster.start(name=name, brokers=brokers, kafka=kafka, properties=properties, directory=directory)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    return status(name)


def bring_down(name: str) -> None:
    """Ends what is still one of the processes we started, and removes the cluster's directory."""
    directory = _known_directory(name)
    if read_description(directory) is not None:
        LabCluster.attach(directory).kill()
    shutil.rmtree(directory)


def names() -> list[str]:
    root = named_clusters_directory()
    return sorted(entry.name for entry in root.iterdir() if entry.is_dir()) if root.is_dir() else []


def status(name: str) -> ClusterStatus:
    directory = _known_directory(name)
    if read_description(directory) is None:  # its `up` is at its very beginning, or died there
        return ClusterStatus(
            name=name, state="down", bootstrap_servers="", kafka="", brokers=(), directory=str(directory)
        )
    cluster = LabCluster.attach(directory)
    brokers = tuple(
        BrokerStatus(id=each.node_id, port=each.port, pid=each.last_pid, up=each.running)
        for each in cluster.brokers
    )
    return ClusterStatus(
        name=name,
        state=_state([process.running for process in cluster.processes]),
        bootstrap_servers=cluster.bootstrap_servers,
        kafka=cluster.kafka,
        brokers=brokers,
        directory=str(directory),
        zookeeper=_zookeeper_status(cluster),
    )


def _zookeeper_status(cluster: LabCluster) -> ZooKeeperStatus | None:
    found = cluster.zookeeper
    return None if found is None else ZooKeeperStatus(port=found.port, pid=found.last_pid, up=found.running)


def _state(running: Sequence[bool]) -> str:
    if all(running):
        return "up"
    return f"{sum(running)} of {len(running)} up" if any(running) else "down"


def _directory(name: str) -> Path:
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name) is None:
        raise UsageError(f"{name!r} cannot name a cluster", hint="use letters, digits, '.', '_' and '-'")
    return named_clusters_directory() / name


def _known_directory(name: str) -> Path:
    directory = _directory(name)
    if not directory.is_dir():
        known = ", ".join(names()) or "none"
        raise LabError(f"there is no lab cluster named {name!r}", hint=f"clusters of this lab: {known}")
    return directory
