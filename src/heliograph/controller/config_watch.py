"""The config of a run is read again and again, and handed to whoever follows it: the one reader of it.

    config, every discovery_interval, or when a signal says so ─┬─▶ secret_watch: other secrets
                                                                ├─▶ config_follower: other links, patterns, policies
                                                                └─▶ wrong: told once for each content, nothing changes

What it says counts, not when it was written: an editor, a mounted volume and a version control each write in their own
way. Owns when it is read. Must not know what is in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from heliograph.model.errors import HeliographError
from heliograph.model.events import Event
from heliograph.model.outbox import Outbox
from heliograph.model.settings import Settings


class ConfigWatch:
    """`read_again()`: the settings as they are now; it may block, and raise. `followers`: each is done before the next
    one begins."""

    def __init__(
        self,
        read_again: Callable[[], Settings],
        followers: Sequence[Callable[[Settings], Awaitable[None]]],
        outbox: Outbox,
        *,
        interval_s: Callable[[], float],
    ) -> None:
        self._read_again = read_again
        self._followers = followers
        self._outbox = outbox
        self._interval_s = interval_s
        self._refused = ""  # why the config was of no use the last time
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._watch())
        self._task.add_done_callback(_report)

    def look_now(self) -> None:
        """Do not wait for the next time."""
        self._wake.set()

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._interval_s()):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            await self.look()

    async def look(self) -> None:
        try:
            read = await asyncio.to_thread(self._read_again)
            for follow in self._followers:
                await follow(read)
        except HeliographError as problem:
            self._tell_refused(problem)
        else:
            self._refused = ""

    def _tell_refused(self, problem: HeliographError) -> None:
        if problem.message != self._refused:
            self._refused = problem.message
            words = f"the config is not followed, all goes on as it was: {problem.message}"
            self._outbox.tell(Event.CONFIG_REFUSED, words, hint=problem.hint or None)


def _report(task: asyncio.Task[None]) -> None:
    """A bug: somebody must hear of it."""
    if not task.cancelled() and (problem := task.exception()) is not None:
        context = {"message": "the config is not followed any more", "exception": problem}
        task.get_loop().call_exception_handler(context)
