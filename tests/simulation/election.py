"""The election of a link's driver, as its coordinator on the target plays it: one is active, until its session ends.

In a race it is out of the way: whoever asks is told that it is the active one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .control_wire import scaled_ms

if TYPE_CHECKING:
    from .driver import SimDriver
    from .world import World

SESSION_S = 6.0


class SimElection:
    def __init__(self, world: World) -> None:
        self.active: SimDriver | None = None
        self._world = world
        self._generation = 0
        self._members: set[SimDriver] = set()
        self._until_ms = 0

    def ask(self, driver: SimDriver) -> int | None:
        """The generation that this driver is the active one of, None if another is."""
        if self._world.plan.racing:
            return 1
        now_ms = self._world.now_ms
        if driver not in self._members:
            self._members.add(driver)
            self._generation += 1  # a rebalance: the active one stays
        if self.active is None or now_ms >= self._until_ms:
            self._generation += 1
            self.active = driver
            self._world.tell(driver.name, "is elected in generation", self._generation)
        if self.active is not driver:
            return None
        self._until_ms = now_ms + scaled_ms(SESSION_S)
        return self._generation
