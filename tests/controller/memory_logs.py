"""The topics of Heliograph's own, in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from heliograph.cluster.record_log import LogRecord, Pair
from heliograph.model.errors import HeliographError


class MemoryLog:
    """`fails`: what the next calls end with."""

    def __init__(self) -> None:
        self.records: list[LogRecord] = []
        self.fails: list[HeliographError] = []
        self.looks = 0  # how often somebody looked whether its leader has moved

    async def look_again(self) -> None:
        await asyncio.sleep(0)
        self.looks += 1

    async def append(self, records: Sequence[Pair]) -> None:
        await self._step()
        for key, value in records:
            self.records.append(LogRecord(len(self.records), key, value))

    async def start(self) -> int:
        await self._step()
        return 0

    async def end(self) -> int:
        await self._step()
        return len(self.records)

    async def read(self, from_offset: int, *, wait_ms: int = 0) -> tuple[list[LogRecord], int]:
        await self._step()
        if wait_ms and from_offset == len(self.records):
            await asyncio.sleep(0.01)
        return self.records[from_offset:], len(self.records)

    async def _step(self) -> None:
        await asyncio.sleep(0)
        if self.fails:
            raise self.fails.pop(0)


class MemoryLogs:
    """`refuses`: why no topic can be made."""

    def __init__(self, refuses: HeliographError | None = None) -> None:
        self.logs: dict[str, MemoryLog] = {}
        self.refuses = refuses

    async def open(self, topic: str) -> MemoryLog:
        if self.refuses is not None:
            raise self.refuses
        return self.logs.setdefault(topic, MemoryLog())

    async def find(self, topic: str) -> MemoryLog | None:
        return self.logs.get(topic)
