"""A fault scene for clusters of several brokers: the backlog is there before the mirror starts.

Replicated brokers take small batches no faster than a mirror copies them: filled meanwhile, there would never be a
backlog. And a quota keeps the mirror from being through before all faults have struck. Owns also how a partition is
seen to go on after a fault. Must not know the faults.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from .fault_scene import MOST, FaultScene, fill
from .quota import set_read_quota

# For each broker of the source, while the faults last.
PACE_BYTES_PER_S = 30_000


class BacklogScene(FaultScene):
    def __enter__(self) -> Self:
        fill(self.source, self.topic, self.backlog, age_ms=self._age_ms)
        set_read_quota(self.source, PACE_BYTES_PER_S)
        super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            set_read_quota(self.source, None)

    def finish(self, *, timeout_s: float = 120.0) -> None:
        set_read_quota(self.source, None)
        super().finish(timeout_s=timeout_s)

    def begin(self) -> None:
        """Records now and then from now on; returns when lanes copy."""
        self._producer.__enter__()
        self.mirror.wait_until(lambda: self.copied() > 0, "the first records copied")

    def keep_amid(self) -> None:
        """More records if the mirror is about to be through before the next fault."""
        while self.copied() > (MOST - 0.15) * self.there:
            more = self.there // 2
            fill(self.source, self.topic, more)
            self.backlog += more

    def positions(self) -> dict[int, int]:
        """By partition: what is durable on the target, by the mirror's own word."""
        return {p["key"][3]: p["next_offset"] for p in self.mirror.live().get("partitions", [])}

    def wait_going_on(self, partitions: Iterable[int], limit_s: float) -> float:
        """Until each of them advances from where it is now; how long that took."""
        before, began_at = self.positions(), time.monotonic()
        waiting = set(partitions)

        def all_went_on() -> bool:
            now = self.positions()
            waiting.difference_update([n for n in waiting if now.get(n, 0) > before.get(n, 0)])
            return not waiting

        self.mirror.wait_until(all_went_on, f"progress of {sorted(waiting)}", limit_s)
        return time.monotonic() - began_at
