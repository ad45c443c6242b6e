"""The election's group in a world: a coordinator that fails over, and the way of a driver to it.

The coordinator's rules are tests/cluster/group_model.py's; who asks is the real Election.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from heliograph.model.errors import Disconnected
from heliograph.wire.error_codes import ErrorCode
from tests.cluster.group_commits import Commits, group_of, refused
from tests.cluster.group_model import Coordinator, Reply

if TYPE_CHECKING:
    from .sim_client import SimClient
    from .sim_cluster import SimCluster
    from .sim_driver import SimDriver

TICK_S = 1.0  # and before every request


class SimGroup:
    def __init__(self, cluster: SimCluster, name: str) -> None:
        self.name = name
        self.node = cluster.nodes[0]
        self._cluster = cluster
        self._world = cluster.world
        self._coordinator = Coordinator(commits=Commits(self._has_partition))
        self._loading_until = 0.0
        self._world.after(TICK_S, self._tick)

    def handle(self, node: int, message: Any, reply: Reply) -> None:
        if message.name == "FindCoordinatorRequest":
            reply(SimpleNamespace(coordinators=[], error_code=0, node_id=self.node))
            return
        refusal = self._refusal(node)
        if refusal:
            reply(refused(message, refusal))
            return
        self._coordinator.tick(self._world.now)
        self._coordinator.handle(message, self._world.now, reply)

    def _has_partition(self, topic: str, number: int) -> bool:
        """Topics of our own are not part of a world, and count as there."""
        found = self._cluster.topics.get(topic)
        if found is None:
            return topic.startswith("__")
        return found.exists and number < len(found.logs)

    def forget(self, topic: str) -> None:
        """It was deleted, and with it what was committed for it."""
        self._coordinator.commits.forget(topic)

    def _refusal(self, node: int) -> int:
        if node != self.node:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self._world.now < self._loading_until else 0

    def fail_over(self) -> None:
        """To another broker, or to the same one that was started again. Who waited for an answer gets none."""
        self.node = self._world.chance.choice(self._cluster.answering or self._cluster.nodes)
        self._loading_until = self._world.now + self._world.chance.uniform(0.1, 3.0)
        self._coordinator.fail_over(self._loading_until)
        generation = self._coordinator.generation
        self._world.tell("broker", self.node, "coordinates", self.name, "in generation", generation)

    def _tick(self) -> None:
        self._world.after(TICK_S, self._tick)
        answers = self.node not in self._cluster.down and not self._cluster.is_frozen(self.node)
        if answers and self._world.now >= self._loading_until:
            self._coordinator.tick(self._world.now)


class GroupConnection:
    """A driver's connection to one broker, for an election."""

    def __init__(self, client: SimClient, driver: SimDriver, node: int) -> None:
        self.address = f"{client.name}:{node}"
        self._client = client
        self._driver = driver
        self._node = node

    async def ask(self, message: Any) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        world = self._driver.world
        world.after(world.delay_s(), self._arrive, message, answer)
        return await answer

    def _arrive(self, message: Any, answer: asyncio.Future[Any]) -> None:
        client, world = self._client, self._driver.world
        if self._node in client.cluster.down:
            self._driver.after(world.delay_s(), client.fail, answer, Disconnected(f"{self.address} is away"))
        elif client.cluster.is_frozen(self._node):
            client.cluster.when_thawed(self._node, self._arrive, message, answer)
        elif not self._is_lost():
            name = message.key if message.name == "FindCoordinatorRequest" else group_of(message)
            group = world.group(client.cluster, name, self._driver.number)

            def reply(response: Any) -> None:
                if not self._is_lost():
                    self._driver.after(
                        world.delay_s(), self._driver.loop.arrive, client.settle, answer, response
                    )

            group.handle(self._node, message, reply)

    def _is_lost(self) -> bool:
        return self._driver.cut or self._driver.world.loses_message()


async def call(connection: GroupConnection, message: Any, _response: type[Any], *, timeout_ms: int) -> Any:  # noqa: ARG001
    """In the place of cluster.messages' `call`: whoever asks bounds the time."""
    return await connection.ask(message)
