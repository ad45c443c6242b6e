"""The topics of Heliograph's own in a world: logs that a target cluster keeps, and the way of a driver to them.

Plays cluster/own_topics.py and record_log.py: an append whose answer is lost is sent again, and is there once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from heliograph.cluster.record_log import APPEND_LIMIT_S, LogRecord, Pair
from heliograph.model.errors import RequestFailed

if TYPE_CHECKING:
    from .driver_clusters import DriverClient

FOLLOW_S = 2.0  # how often a run looks for commands: each look is an event of the world


class SimLog:
    def __init__(self, client: DriverClient, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._records = client.cluster.own_logs.setdefault(topic, [])

    async def append(self, records: Sequence[Pair]) -> None:
        done: list[None] = []

        def execute() -> None:
            if not done:
                done.append(None)
                for pair in records:
                    self._client.cluster.append_own(self._topic, *pair, self._client.process)

        give_up_at = self._client.process.loop.time() + APPEND_LIMIT_S
        while True:
            try:
                await self._client.ask(self._node, execute)
            except RequestFailed:
                if self._client.process.loop.time() >= give_up_at:
                    raise
            else:
                return

    @property
    def _node(self) -> int:
        nodes = self._client.cluster.answering
        return nodes[0] if nodes else 0

    async def start(self) -> int:
        return 0

    async def end(self) -> int:
        end: int = await self._client.ask(self._node, lambda: len(self._records))
        return end

    async def read(self, from_offset: int, *, wait_ms: int = 0) -> tuple[list[LogRecord], int]:
        if wait_ms:
            await asyncio.sleep(FOLLOW_S)
        found: list[LogRecord] = await self._client.ask(self._node, lambda: self._records[from_offset:])
        return found, from_offset + len(found)

    async def look_again(self) -> None:
        """It has one place for good."""


class SimLogs:
    def __init__(self, client: DriverClient) -> None:
        self._client = client

    async def open(self, topic: str) -> SimLog:
        return SimLog(self._client, topic)

    async def find(self, topic: str) -> SimLog | None:
        return await self.open(topic) if topic in self._client.cluster.own_logs else None
