"""Who works on a topic: one at a time. What an operator wants of it and what is found out about it may both take its
partitions from lanes, change it on the target, and plan it anew."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Collection


class TopicTurns:
    """A topic is named by its link and its name on the target."""

    def __init__(self) -> None:
        self._locks: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)

    def is_taken(self, link: str, topic: str) -> bool:
        return (link, topic) in self._locks and self._locks[link, topic].locked()

    @contextlib.asynccontextmanager
    async def alone(self, link: str, topics: Collection[str]) -> AsyncIterator[None]:
        """In the order of their names, so that two who want the same topics do not wait for each other."""
        async with contextlib.AsyncExitStack() as held:
            for topic in sorted(topics):
                await held.enter_async_context(self._locks[link, topic])
            yield
