"""How long a lane fills gaps of one link. The time in which it fills several at once counts once, and is told with
whichever of them is asked next: the sums over partitions are right, not each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from heliograph.copier.fill import Fill
from heliograph.copier.partition_copy import PartitionCopy


class FillClock:
    def __init__(self) -> None:
        self._running = 0
        self._told_at = 0.0  # up to there all time is told; of no meaning while nothing runs

    @contextmanager
    def running(self, copy: PartitionCopy, fill: Fill) -> Iterator[Callable[[], None]]:
        """While this gap is filled. What is given tells how far it is by now."""
        told = fill.start.target
        if not self._running:
            self._told_at = asyncio.get_running_loop().time()
        self._running += 1

        def lap() -> None:
            nonlocal told
            now = asyncio.get_running_loop().time()
            reached = copy.durable.target if copy.durable is not None else told
            reached = min(
                max(reached, told), fill.end.target
            )  # a resynchronisation may have found less, or more
            copy.filled_in(reached - told, now - self._told_at)
            told, self._told_at = reached, now

        try:
            yield lap
        finally:
            lap()
            self._running -= 1
