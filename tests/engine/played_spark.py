"""A Spark that is played: jobs end as they are told to, or run on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from heliograph.engine.session import Loss

SOON_S = 5.0


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class PlayedSpark:
    """Session and context in one. `ends`: how each job ends, in turn; when there are none left it runs on."""

    def __init__(self, *ends: str | Exception) -> None:
        self.ends = list(ends)
        self.loss: Loss | None = None
        self.context = self
        self.groups: list[tuple[str, str, bool]] = []
        self.pools: list[tuple[str, str]] = []
        self.cancelled: list[str] = []
        self.calls: list[str] = []
        self.refuses_groups: Exception | None = None
        self.over = threading.Event()

    @property
    def lost(self) -> bool:
        return self.loss is not None

    def setJobGroup(self, group: str, description: str, *, interruptOnCancel: bool) -> None:
        if self.refuses_groups is not None:
            raise self.refuses_groups
        self.groups.append((group, description, interruptOnCancel))

    def setLocalProperty(self, key: str, value: str) -> None:
        self.pools.append((key, value))

    def parallelize(self, _rows: list[int], _partitions: int) -> PlayedSpark:
        return self

    def mapPartitions(self, _task: Any) -> PlayedSpark:
        return self

    def collect(self) -> list[str]:
        if not self.ends:
            self.over.wait(SOON_S)
            return ["stopped by the driver"]
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return [end]

    def cancel(self, group: str) -> None:
        self.cancelled.append(group)

    def cancel_all(self) -> None:
        self.calls.append("cancel_all")
        self.over.set()

    def stop(self) -> None:
        self.calls.append("stop")

    def conf(self, _key: str) -> str:
        return "127.0.0.1"
