"""A process's client of one cluster: its view of the metadata, and questions that travel to a broker and back.

Plays cluster.ClusterClient for whoever needs leaders, refreshes and answers; what is asked is sim_questions.py's and
the ports'.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from heliograph.cluster import by_leader
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.metadata import ClusterMetadata, Leader
from heliograph.cluster.properties import ClientProperties
from heliograph.model.errors import BrokerRefused, Disconnected, ProtocolError, RequestFailed, RequestTimedOut
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

from .model_broker import ModelPartition
from .sim_cluster import SimCluster
from .virtual_loop import Process

NOWHERE = 0


class SimClient:
    def __init__(self, process: Process, cluster: SimCluster, properties: ClientProperties) -> None:
        self.process = process
        self.cluster = cluster
        self.properties = properties
        self.name = cluster.name
        self.on_metadata: Callable[[Sequence[str]], None] = lambda _topics: None
        self.metadata = ClusterMetadata(
            cluster_id=cluster.cluster_id, controller=1, brokers=cluster.metadata(()).brokers
        )
        self._world = cluster.world
        self._topics: dict[str, None] = {}
        self.buffer_bytes = 0  # of the largest answer so far
        self._refreshing: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Metadata is read when somebody asks for it."""

    async def aclose(self) -> None:
        return

    def leader(self, where: TopicPartition) -> Leader | None:
        return self.metadata.leader(where)

    def follow(self, topics: Iterable[str]) -> None:
        self._topics.update(dict.fromkeys(topics))

    async def refresh(self) -> None:
        """Callers that come together share one request."""
        if self._refreshing is None or self._refreshing.done():
            nodes = self.cluster.answering
            node = self._world.chance.choice(nodes) if nodes else NOWHERE
            self._refreshing = self.ask(node, self._read)
        await asyncio.shield(self._refreshing)

    def _read(self) -> Callable[[], None]:
        told = self.cluster.metadata(list(self._topics))

        def take() -> None:
            before = self.metadata
            self.metadata = before.updated(told, self._world.now)
            self.on_metadata(self.metadata.changed_since(before))

        return take

    # -- questions

    def reach(self, where: TopicPartition) -> tuple[int, int]:
        """The leader that this client believes in, and its epoch."""
        return by_leader.leader_of(cast(ClusterClient, self), where)

    def replica(self, where: TopicPartition, node: int) -> ModelPartition:
        """At the broker: the partition, if it has one."""
        partition, refusal = self.cluster.partition(where), self.cluster.topics[where.topic].refusal
        if refusal:
            raise BrokerRefused(f"no right to {where.topic}", code=refusal)
        if partition is None:
            raise BrokerRefused(f"no topic {where.topic}", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if node not in partition.replicas:
            raise BrokerRefused(f"no replica of {where}", code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition

    def ask(self, node: int, execute: Callable[[], Any], timeout_s: float = 0.0) -> asyncio.Future[Any]:
        """`execute` runs at the broker. What it returns comes back; a callable is called when it arrives."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        timeout_s = timeout_s or self.properties.request_timeout_ms / 1000
        self._world.after(self._world.delay_s(), self._arrive, node, execute, answer, timeout_s)
        return answer

    def _arrive(
        self, node: int, execute: Callable[[], Any], answer: asyncio.Future[Any], timeout_s: float
    ) -> None:
        world = self._world
        if node == NOWHERE or node in self.cluster.down:
            self._fail(answer, Disconnected(f"broker {node} is away"))
        elif world.loses_message():
            if world.chance.random() < 0.5:
                self._fail(answer, Disconnected("the connection broke"))
            else:
                self.time_out(answer, timeout_s)
        elif self.cluster.is_frozen(node):
            self.cluster.when_thawed(node, self._execute, execute, answer)
            self.time_out(answer, timeout_s)
        else:
            self._execute(execute, answer)

    def _execute(self, execute: Callable[[], Any], answer: asyncio.Future[Any]) -> None:
        try:
            result = execute()
        except (RequestFailed, ProtocolError) as problem:
            self._fail(answer, problem)
        else:
            self.process.after(self._world.delay_s(), self.process.loop.arrive, self.settle, answer, result)

    def settle(self, answer: asyncio.Future[Any], result: Any) -> None:
        if answer.done():
            return
        answer.set_result(result() if callable(result) else result)

    def _fail(self, answer: asyncio.Future[Any], problem: Exception) -> None:
        self.process.after(self._world.delay_s(), self.fail, answer, problem)

    def time_out(self, answer: asyncio.Future[Any], timeout_s: float) -> None:
        self.process.after(timeout_s, self.fail, answer, RequestTimedOut("no answer in time"))

    def fail(self, answer: asyncio.Future[Any], problem: Exception) -> None:
        if not answer.done():
            answer.set_exception(problem)
            answer.exception()  # if nobody waits for it any more, it is no news
