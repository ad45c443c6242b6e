"""The control line between a driver and one lane in a world: messages in order, both ways, and the driver's end of all.

Plays the sockets and threads of engine/control_line.py and control_server.py; which lane is silent is production's
(lane_lines.py). While a lane is cut off messages wait, and come when it is back. Once the driver has ended the line
nothing more comes of it but the news of its end, which waits likewise.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from heliograph.engine.control_server import SILENCE_TICK_S
from heliograph.engine.lane_lines import LaneLine, LaneLines
from heliograph.engine.orders import LineEnded, Order, Report

if TYPE_CHECKING:
    from .sim_driver import SimDriver
    from .sim_lane import SimLane

END = LineEnded(why="the driver closed the control line")


class Farewell(Enum):
    """How a line ends at the lane."""

    CLOSED = auto()
    BROKEN = auto()


class ControlWire:
    def __init__(self, driver: SimDriver, lane: SimLane) -> None:
        self.lane = lane
        self.driver = driver
        self.known: LaneLine[ControlWire] | None = None  # to the driver, since the lane's first word
        self.cut = False
        self.ended = False
        self._world = driver.world
        self._last = {True: 0.0, False: 0.0}
        self._held: list[tuple[bool, Any]] = []

    def to_driver(self, said: Report | Farewell) -> None:
        self._send(True, said)

    def to_lane(self, order: Order) -> None:
        if not self.ended:
            self._send(False, order)

    def end(self) -> None:
        """The driver closes it, or is dead."""
        if not self.ended:
            self._held.clear()
            self._send(False, END)
            self.ended = True

    def reconnect(self) -> None:
        self.cut = False
        held, self._held = self._held, []
        for up, said in held:
            self._arrive(up, said)

    def _send(self, up: bool, said: Any) -> None:
        self._last[up] = max(self._last[up], self._world.now + self._world.delay_s())
        self._world.at(self._last[up], self._arrive, up, said)

    def _arrive(self, up: bool, said: Any) -> None:
        if self.cut:
            self._held.append((up, said))
        elif not up:
            self.lane.happens(self.lane.hear, said)
        elif not self.ended:
            self.driver.happens(self.driver.server.hear, self, said)


class SimServer:
    """In the place of ControlServer: its thread goes on while the driver's event loop is busy."""

    fingerprint = b""  # of no certificate: nothing is sealed here

    def __init__(
        self,
        driver: SimDriver,
        on_report: Callable[[int, Report], None],
        on_gone: Callable[[int], None],
        on_silent: Callable[[int], None],
    ) -> None:
        self._driver = driver
        self._lines: LaneLines[ControlWire] = LaneLines(on_report, on_gone, on_silent)

    def start(self, _bind_host: str) -> tuple[str, int]:
        self._driver.after(SILENCE_TICK_S, self._tick)
        return "nowhere", 0

    def stop(self) -> None:
        for wire in self._lines:
            wire.end()

    def send(self, lane: int, order: Order) -> None:
        wire = self._lines.of(lane)
        if wire is not None:
            wire.to_lane(order)

    def end_line(self, lane: int) -> None:
        wire = self._lines.of(lane)
        if wire is not None:
            self._end(wire)

    def hear(self, wire: ControlWire, said: Report | Farewell) -> None:
        if wire.ended:
            return
        if wire.known is None:
            older = self._lines.of(wire.lane.number)
            if older is not None:
                older.end()
            wire.known = self._lines.opened(wire.lane.number, wire)
        if isinstance(said, Farewell):
            if said is Farewell.BROKEN:
                wire.known.cut()
            self._end(wire)
        else:
            self._driver.world.hear_of_losses(said)
            self._lines.heard(wire.known, said)

    def _end(self, wire: ControlWire) -> None:
        wire.end()
        if wire.known is not None:
            self._lines.ended(wire.known)

    def _tick(self) -> None:
        self._driver.after(SILENCE_TICK_S, self._tick)
        for wire in self._lines:
            if wire.known is not None and wire.known.tick():
                self._end(wire)
