"""Many questions to a cluster, so many of them at once and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def at_most(limit: int, questions: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
    """The answers, in the order of the questions. The first that fails is raised."""
    slots = asyncio.Semaphore(limit)

    async def ask(question: Callable[[], Awaitable[T]]) -> T:
        async with slots:
            return await question()

    return await asyncio.gather(*(ask(question) for question in questions))
