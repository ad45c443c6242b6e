"""A config that is read again: what is wrong with it is told once, and changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from heliograph.controller.config_watch import ConfigWatch
from heliograph.model.errors import ConfigError, UsageError
from heliograph.model.events import Event
from heliograph.model.outbox import Outbox
from heliograph.model.settings import Settings

SETTINGS = Settings(clusters={}, links=())


class Story:
    def __init__(self, *, interval_s: float = 60.0) -> None:
        self.says: Callable[[], Settings] = lambda: SETTINGS
        self.heard: list[Settings] = []
        self.refuses: ConfigError | None = None
        self.outbox = Outbox()
        self.watch = ConfigWatch(
            lambda: self.says(), [self._hear, self._judge], self.outbox, interval_s=lambda: interval_s
        )

    async def _hear(self, read: Settings) -> None:
        self.heard.append(read)

    async def _judge(self, _read: Settings) -> None:
        if self.refuses is not None:
            raise self.refuses

    def wrong(self, *problems: str) -> None:
        def read() -> Settings:
            raise ConfigError(problems, hint="edit it")

        self.says = read


async def test_a_wrong_config_is_told_once_for_each_content_with_all_its_problems() -> None:
    it = Story()
    it.wrong("links: required", "clusters.x: unknown")
    for _ in range(3):
        await it.watch.look()
    it.wrong("links: required")
    await it.watch.look()
    first, second = it.outbox.last
    assert (first.code, first.hint) == (Event.CONFIG_REFUSED, "edit it")
    assert "links: required\nclusters.x: unknown" in first.message
    assert "clusters.x" not in second.message
    assert it.heard == []


async def test_one_that_was_mended_and_is_broken_again_is_told_again() -> None:
    it = Story()
    it.wrong("links: required")
    await it.watch.look()
    it.says = lambda: SETTINGS
    await it.watch.look()
    it.wrong("links: required")
    await it.watch.look()
    assert it.outbox.counts == {Event.CONFIG_REFUSED: 2}
    assert it.heard == [SETTINGS]


async def test_a_file_that_is_gone_for_a_moment_and_a_follower_that_refuses_are_told_alike() -> None:
    it = Story()

    def gone() -> Settings:
        raise UsageError("cannot read it")

    it.says = gone
    await it.watch.look()
    it.says = lambda: SETTINGS
    it.refuses = ConfigError(["links: in a circle"])
    await it.watch.look()
    await it.watch.look()
    assert it.outbox.counts == {Event.CONFIG_REFUSED: 2}


async def test_it_is_read_when_its_time_has_come_and_at_once_if_asked_for() -> None:
    for interval_s, asked in ((0.01, False), (60.0, True)):
        it = Story(interval_s=interval_s)
        it.watch.start()
        await asyncio.sleep(0)
        if asked:
            it.watch.look_now()
        async with asyncio.timeout(5):
            while not it.heard:  # noqa: ASYNC110 - a list is no event
                await asyncio.sleep(0.005)
        await it.watch.aclose()
