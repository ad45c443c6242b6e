"""A real Kafka cluster of 1..n brokers on free loopback ports, for demos, tests and drills.

KRaft from Kafka 3.3 on, before with a ZooKeeper of its own.

Owns a cluster's directory and its description, cluster.json, by which another process finds it again.
Must not know names of clusters kept running (registry.py) nor the mirror.
"""

from __future__ import annotations

import base64
import json
import shutil
import tempfile
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from heliograph.lab.broker import Broker
from heliograph.lab.jars import DEFAULT_KAFKA, kafka_libs
from heliograph.lab.java import find_java
from heliograph.lab.listeners import Listener, java_options, scram_arguments
from heliograph.lab.releases import release
from heliograph.lab.runtime import Runtime
from heliograph.lab.settings import (
    LOOPBACK,
    Node,
    broker_settings,
    choose_nodes,
    free_ports,
    write_settings,
    zookeeper_broker_settings,
)
from heliograph.lab.zookeeper import ZooKeeper
from heliograph.model.errors import LabError

DEFAULT_HEAP_MB = 512
DESCRIPTION = "cluster.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What it takes to find a cluster again from its directory."""

    name: str
    kafka: str
    heap_mb: int
    nodes: tuple[Node, ...]
    host: str = LOOPBACK
    zookeeper_port: int | None = None
    # What clients of each secured listener are told, by its name.
    listener_hosts: Mapping[str, str] = field(default_factory=dict)
    java_options: tuple[str, ...] = ()

    def write(self, directory: Path) -> None:
        (directory / DESCRIPTION).write_text(json.dumps(asdict(self), indent=2))


def read_description(directory: Path) -> Description | None:
    """The description in a cluster's directory; None while there is none or only a part of it."""
    try:
        found = json.loads((directory / DESCRIPTION).read_text())
        nodes = tuple(Node(**node) for node in found["nodes"])
        options = tuple(found.get("java_options", ()))
        return Description(**{**found, "nodes": nodes, "java_options": options})
    except (OSError, ValueError, TypeError, KeyError):
        return None


class LabCluster:
    """Running brokers. Leaving the context ends them all."""

    def __init__(
        self,
        description: Description,
        directory: Path,
        *,
        own_directory: bool,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self.name = description.name
        self.kafka = description.kafka
        self.directory = directory
        self._release = release(description.kafka)
        self._host = description.host
        self._nodes = description.nodes
        self._listener_hosts = description.listener_hosts
        self._listeners = listeners  # needed by `come_up` alone: who attaches has none
        self._ended = False
        self._ending = threading.Lock()  # no broker is launched once the end has begun
        runtime = Runtime(
            java_home=find_java(),
            libs=kafka_libs(description.kafka),
            heap_mb=description.heap_mb,
            broker_options=description.java_options,
        )
        self.brokers: tuple[Broker, ...] = tuple(
            Broker(
                node=node,
                directory=directory / f"node-{node.node_id}",
                runtime=runtime,
                release=self._release,
            )
            for node in description.nodes
        )
        self.zookeeper: ZooKeeper | None = None
        if description.zookeeper_port is not None:
            self.zookeeper = ZooKeeper(
                port=description.zookeeper_port, directory=directory / "zookeeper", runtime=runtime
            )
        self._own_directory = own_directory

    @classmethod
    def start(
        cls,
        *,
        name: str = "lab",
        brokers: int = 1,
        kafka: str = DEFAULT_KAFKA,
        properties: Mapping[str, str] | None = None,
        directory: Path | None = None,
        heap_mb: int = DEFAULT_HEAP_MB,
        host: str = LOOPBACK,
        listeners: Sequence[Listener] = (),
    ) -> Self:
        """Starts a cluster and returns when every broker sees all of them alive. `host`: what clients are told.

        A `directory` given by the caller must be empty; it is kept when the cluster stops. `listeners`: those of every
        broker beside its plain one.
        """
        cluster = cls.made(
            name=name,
            brokers=brokers,
            kafka=kafka,
            directory=directory,
            heap_mb=heap_mb,
            host=host,
            listeners=listeners,
        )
        try:
            cluster.come_up(properties)
        except BaseException:  # also Ctrl-C: no broker may stay behind
            cluster.stop()
            raise
        return cluster

    @classmethod
    def made(
        cls,
        *,
        name: str,
        brokers: int = 1,
        kafka: str = DEFAULT_KAFKA,
        directory: Path | None = None,
        heap_mb: int = DEFAULT_HEAP_MB,
        host: str = LOOPBACK,
        listeners: Sequence[Listener] = (),
    ) -> Self:
        """A cluster of which nothing runs yet; `come_up` starts it, and `stop` removes it all the same."""
        if brokers < 1:
            raise LabError(f"a cluster needs at least one broker, not {brokers}")
        needs_zookeeper = release(kafka).needs_zookeeper
        if listeners and needs_zookeeper:
            raise LabError(f"the lab secures listeners from Kafka 3.3 on, not of {kafka}")
        kafka_libs(kafka)  # a version that cannot be had should fail before anything is made
        place = directory or Path(tempfile.mkdtemp(prefix=f"heliograph-lab-{name}-"))
        place.mkdir(parents=True, exist_ok=True)
        place = place.resolve()
        description = Description(
            name=name,
            kafka=kafka,
            heap_mb=heap_mb,
            nodes=choose_nodes(brokers, [each.name for each in listeners]),
            host=host,
            zookeeper_port=free_ports(1)[0] if needs_zookeeper else None,
            listener_hosts={each.name: each.host for each in listeners},
            java_options=java_options(listeners),
        )
        description.write(place)
        return cls(description, place, own_directory=directory is None, listeners=listeners)

    @classmethod
    def attach(cls, directory: Path) -> Self:
        """The cluster that another process started in `directory`, running or not."""
        description = read_description(directory)
        if description is None:
            raise LabError(f"{directory} holds no lab cluster", hint="heliograph lab up")
        return cls(description, directory, own_directory=False)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{self._host}:{broker.port}" for broker in self.brokers)

    def servers(self, listener: str) -> str:
        """The bootstrap servers of the secured listener of this name."""
        host = self._listener_hosts[listener]
        return ",".join(f"{host}:{node.listener_ports[listener]}" for node in self._nodes)

    @property
    def processes(self) -> tuple[Broker | ZooKeeper, ...]:
        """All that runs, in the order in which it is to be ended."""
        return self.brokers if self.zookeeper is None else (*self.brokers, self.zookeeper)

    def kill(self) -> None:
        """Ends every process at once; the directory stays."""
        for process in self.processes:
            process.kill()

    def stop(self) -> None:
        """Ends every broker; removes the directory unless the caller gave it.

        Data that is thrown away needs no orderly end: then brokers are killed, which takes no time.
        """
        with self._ending:
            self._ended = True
        if not self._own_directory:
            for broker in self.brokers:
                broker.stop()
        self.kill()
        if self._own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def come_up(self, properties: Mapping[str, str] | None = None) -> None:
        """Once in its life. `stop` may be called from another thread meanwhile: then this raises."""
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        users = scram_arguments(self._listeners)
        for node, broker in zip(self._nodes, self.brokers, strict=True):
            broker.directory.mkdir()
            settings = self._settings(node, broker.directory / "data", properties or {})
            write_settings(broker.directory / "server.properties", settings)
            if self.zookeeper is None:
                broker.format(cluster_id, users)
        if self.zookeeper is not None:
            self._launch(self.zookeeper)
            self.zookeeper.wait_until_up()
        for broker in self.brokers:
            self._launch(broker)
        everyone = frozenset(node.node_id for node in self._nodes)
        for broker in self.brokers:
            broker.wait_until_up(everyone)

    def _launch(self, process: Broker | ZooKeeper) -> None:
        with self._ending:
            if self._ended:
                raise LabError(f"lab cluster {self.name!r} was stopped while it started")
            process.launch()

    def _settings(self, node: Node, data_directory: Path, properties: Mapping[str, str]) -> dict[str, str]:
        if self.zookeeper is None:
            return broker_settings(
                node,
                nodes=self._nodes,
                data_directory=data_directory,
                properties=properties,
                host=self._host,
                listeners=self._listeners,
            )
        return zookeeper_broker_settings(
            node,
            nodes=self._nodes,
            zookeeper_port=self.zookeeper.port,
            has_listeners=self._release.has_listeners,
            data_directory=data_directory,
            properties=properties,
            host=self._host,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
