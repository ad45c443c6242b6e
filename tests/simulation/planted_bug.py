"""One planted bug: what is switched off, by which patches, and in which plans that is met."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """`meets`: only such plans can meet the bug; the others are passed over unseen."""

    rule: str
    without: str
    patches: Callable[[], list[Any]]
    change: Callable[[Plan], Plan] = lambda plan: plan
    meets: Callable[[Plan], bool] = lambda _plan: True

    @property
    def name(self) -> str:
        return f"{self.rule}: {self.without}"


@contextmanager
def planted(bug: Planted) -> Iterator[None]:
    patches = bug.patches()
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()
