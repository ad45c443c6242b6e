"""The control line between a driver and one lane: messages in order, both ways; and the clock that both count by.

While the lane is cut off they wait, and come when it is back. Once the driver has ended the line nothing more comes of
it but the news of its end, which waits likewise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .driver import SimDriver
    from .lane import SimLane
    from .world import World

SPEED = 10  # seconds of the product's leases pass in a tenth of that here; appends are as fast as they are
Message = tuple[Any, ...]


def scaled_ms(seconds: float) -> int:
    return round(seconds * 1000 / SPEED)


class ControlWire:
    def __init__(self, world: World, driver: SimDriver, lane: SimLane) -> None:
        self.lane = lane
        self.ended = False
        self.silent_ticks = 0
        self._world = world
        self._driver = driver
        self._last_ms = {"up": 0, "down": 0}
        self._held: list[tuple[str, Message]] = []

    def to_driver(self, *message: Any) -> None:
        self._send("up", message)

    def to_lane(self, *message: Any) -> None:
        if not self.ended:
            self._send("down", message)

    def end(self) -> None:
        """The driver closes it, or is dead."""
        if not self.ended:
            self._held.clear()
            self._send("down", ("end",))
            self.ended = True

    def reconnect(self) -> None:
        held, self._held = self._held, []
        self._arrive_all(held)

    def _send(self, way: str, message: Message) -> None:
        now_ms = self._world.now_ms
        self._last_ms[way] = max(self._last_ms[way], now_ms + self._world.delay_ms())
        self._world.after(self._last_ms[way] - now_ms, self._arrive_all, [(way, message)])

    def _arrive_all(self, messages: Sequence[tuple[str, Message]]) -> None:
        for way, message in messages:
            if self.lane.cut:
                self._held.append((way, message))
            elif way == "down":
                self.lane.hear(message)
            elif not self.ended:
                self._driver.hear(self, message)
