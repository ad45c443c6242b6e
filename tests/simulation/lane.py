"""A lane: a process that runs at most one copier of the partition, under the real lease, and can be killed or frozen.

Plays engine/lane_task.py and control_line.py. While it is frozen its timers stand still and its answers wait; what it
had sent may still execute. It belongs to the driver that started it, and ends when that says so or is silent for long;
what Spark starts in its place is another process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from heliograph.copier import lease
from heliograph.copier.lease import Lease
from heliograph.copier.phases import Phase

from .control_wire import ControlWire, Message, scaled_ms
from .copier import SimCopier
from .schedule import Do
from .source_content import EPOCH_MS

if TYPE_CHECKING:
    from .driver import SimDriver
    from .world import World

HEARTBEAT_MS = scaled_ms(2)
LAPSE_MS = 100
DRAIN_LIMIT_MS = scaled_ms(4)


class SimLane:
    def __init__(self, world: World, driver: SimDriver, number: int) -> None:
        self.world = world
        self.driver = driver
        self.number = number
        self.dead = False
        self.frozen = False
        self.cut = False
        self.wall_jump_ms = 0
        self.copier: SimCopier | None = None
        self.lease: Lease | None = None  # of the link, once it is known
        self.wire = ControlWire(world, driver, self)
        self._ending = False
        self._heard_ms = world.now_ms
        self._backlog: list[tuple[Do, tuple[Any, ...]]] = []
        self.name = f"lane {driver.number}.{number}.{len(world.lanes_ever)}"
        world.lanes_ever.append(self)
        world.lanes.append(self)
        self.wire.to_driver("hello")
        self._beat()
        self._lapse()

    @property
    def wall_ms(self) -> int:
        return EPOCH_MS + self.world.now_ms + self.wall_jump_ms

    def after(self, delay_ms: int, do: Do, *what: Any) -> None:
        """Something of this process: forgotten when it dies, late when it is frozen."""
        self.world.after(delay_ms, self._due, do, what)

    def _due(self, do: Do, what: tuple[Any, ...]) -> None:
        if self.dead:
            return
        if self.frozen:
            self._backlog.append((do, what))
        else:
            do(*what)

    # -- what happens to it

    def kill(self) -> None:
        if self.dead:
            return
        copier, self.copier = self.copier, None
        self.dead, self.frozen = True, False
        self._backlog.clear()
        self.world.lanes.remove(self)
        if copier is not None and copier.line is not None:
            copier.line.close()
        self.wire.to_driver("gone")
        self.driver.start_lane_later(self.number)

    def freeze(self) -> None:
        self.frozen = True

    def thaw(self) -> None:
        self.frozen = False
        while self._backlog and not self.frozen:
            do, what = self._backlog.pop(0)
            do(*what)

    def reconnect(self) -> None:
        self.cut = False
        self.wire.reconnect()

    # -- the control line

    def _beat(self) -> None:
        self.after(HEARTBEAT_MS, self._beat)
        if self.world.now_ms - self._heard_ms > scaled_ms(lease.ALIVE_S):
            self._finish()
        copy = self.copier.copy if self.copier is not None else None
        if copy is not None and copy.phase is Phase.STOPPED:
            self.wire.to_driver("stopped")
        wants = copy is not None and copy.wants_exclusion
        self.wire.to_driver("heartbeat", self.world.clock_s(), wants)

    def hear(self, message: Message) -> None:
        self.after(0, self._obey, message)

    def _obey(self, message: Message) -> None:
        self._heard_ms = self.world.now_ms
        match message:
            case ("assign", clear_in_s):
                self._assign(clear_in_s)
            case ("revoke",):
                self._revoke()
            case ("stop",) | ("end",):
                self._finish()
            case ("renew", asked_s, lasts_s):
                if self.lease is not None:
                    self.lease.renew(asked_s, lasts_s)
                if self.copier is not None:
                    self.copier.attend()

    def _assign(self, clear_in_s: float) -> None:
        self.lease = self.lease or Lease(self.world.clock_s)
        if self.copier is None and not self._ending:
            self.world.tell(self.name, "is assigned, clear in", scaled_ms(clear_in_s))
            self.copier = SimCopier(self.world, self, self.lease, clear_in_ms=scaled_ms(clear_in_s))
            self.copier.begin()

    def _revoke(self) -> None:
        if self.copier is None:
            self.wire.to_driver("revoked", True)
        else:
            self.world.tell(self.name, "is revoked")
            self.copier.leave()

    def _finish(self) -> None:
        """Drain and end."""
        if self._ending:
            return
        self.world.tell(self.name, "ends")
        self._ending = True
        self.after(DRAIN_LIMIT_MS, self.kill)
        if self.copier is None:
            self._drained(clean=True)
        else:
            self.copier.leave()

    def _drained(self, *, clean: bool) -> None:
        self.wire.to_driver("drained", clean)
        self.kill()

    def copier_has_left(self, *, clean: bool) -> None:
        """Every answer is there."""
        self.copier = None
        if self._ending:
            self._drained(clean=clean)
        else:
            self.wire.to_driver("revoked", clean)

    def _lapse(self) -> None:
        self.after(LAPSE_MS, self._lapse)
        if self.copier is not None:
            self.copier.lapse()
