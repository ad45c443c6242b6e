"""The faults of a plan, made to happen: to lanes, drivers, clocks and messages; the rest is broker_faults.py's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .broker_faults import BrokerFaults
from .raw_batch import HOUR_MS

if TYPE_CHECKING:
    from .sim_driver import SimDriver
    from .sim_lane import SimLane
    from .world import World

MESSAGES_LOST = 0.1
STUTTERS = 5


class Faults:
    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.chance
        self.happened = 0
        self.brokers = BrokerFaults(world, self._kill_lane)
        self._kinds: dict[str, Callable[[], None]] = {
            "lane freezes": self._freeze_lane,
            "lane's machine sleeps": self._put_to_sleep,
            "lane's machine is paused": self._pause_lane,
            "driver's machine stutters": self._stutter,
            "lane is killed": self._kill_lane,
            "lane is cut off": self._cut_lane,
            "lane is given up": self._give_lane_up,
            "lines break": self._break_lines,
            "messages are lost": self._lose_messages,
            "hand-over": self._take_executor_away,
            "driver freezes": self._freeze_driver,
            "driver is busy": self._keep_driver_busy,
            "driver is cut off": self._cut_driver,
            "driver is killed": self._kill_driver,
            "driver is stopped": self._stop_driver,
            "coordinator fails over": self._fail_over,
            "lane's clock jumps": self._jump_lane,
            "brokers' clock jumps": self._jump_brokers,
            "quota": self._throttle,
            **self.brokers.kinds,
        }
        for at_s, kind in world.plan.faults:
            world.after(at_s, self._happen, kind)

    @property
    def kinds(self) -> set[str]:
        return set(self._kinds)

    def _happen(self, kind: str) -> None:
        self.happened += 1
        self._world.tell("FAULT:", kind)
        self._kinds[kind]()

    def _absent(self, until: Callable[..., None], *what: object) -> None:
        self._later(*self._chance.choice(self._world.plan.absences_s), until, *what)

    def _later(self, least_s: float, most_s: float, do: Callable[..., None], *what: object) -> None:
        self._world.after(self._chance.uniform(least_s, most_s), do, *what)

    # -- lanes and drivers

    def _lane(self) -> SimLane | None:
        """One that copies, if there is one."""
        lanes = self._world.lanes
        copying = [lane for lane in lanes if lane.holds]
        return self._chance.choice(copying or lanes) if lanes else None

    def _freeze_lane(self) -> None:
        if (lane := self._lane()) is not None:
            self._world.tell(lane.name, "freezes")
            lane.freeze()
            self._absent(lane.thaw)

    def _put_to_sleep(self) -> None:
        """Nobody reaches it meanwhile, not even to kill it."""
        if (lane := self._lane()) is not None:
            self._world.tell(lane.name, "sleeps with its machine")
            lane.freeze()
            lane.wire.cut = True
            self._absent(self._wake_up, lane)

    def _wake_up(self, lane: SimLane) -> None:
        lane.wire.reconnect()
        lane.thaw()

    def _pause_lane(self) -> None:
        """By its hypervisor. Its time of day is right when it goes on; its line comes back later, as TCP has it."""
        if (lane := self._lane()) is not None:
            self._world.tell(lane.name, "is paused with its machine")
            lane.wire.cut = True
            lane.pause()
            self._absent(self._resume_lane, lane)

    def _resume_lane(self, lane: SimLane) -> None:
        lane.resume()
        self._later(0.1, 3.0, lane.wire.reconnect)

    def _stutter(self) -> None:
        """Its machine is paused again and again, and goes on for a moment in between; nobody sets its time of day
        right, and it does not reach the coordinator. Its lanes hear of it just often enough to go on."""
        driver = self._driver()
        driver.cut = True
        self._pause_driver(driver, STUTTERS)

    def _pause_driver(self, driver: SimDriver, times: int) -> None:
        if not self._world.mended:
            self._world.tell(driver.name, "is paused with its machine")
            driver.pause()
            self._later(14.0, 24.0, self._resume_driver, driver, times)

    def _resume_driver(self, driver: SimDriver, times: int) -> None:
        self._world.tell(driver.name, "goes on")
        driver.resume(set_right=False)
        if times > 1:
            self._later(0.3, 1.0, self._pause_driver, driver, times - 1)
        else:
            self._reconnect(driver)

    def _kill_lane(self) -> None:
        if (lane := self._lane()) is not None:
            self._world.tell(lane.name, "is killed")
            lane.kill()
            if self._chance.random() < 0.2:  # Spark may be faster than the news of the last one's end
                lane.driver.jobs.start_lane(lane.number)

    def _cut_lane(self) -> None:
        if (lane := self._lane()) is not None:
            lane.wire.cut = True
            self._absent(lane.wire.reconnect)

    def _give_lane_up(self) -> None:
        """Its line breaks at the driver's end; at its own it may hear of that much later."""
        if (lane := self._lane()) is not None:
            if self._chance.random() < 0.5:
                lane.wire.cut = True
                self._absent(lane.wire.reconnect)
            lane.driver.give_up(lane.number)

    def _take_executor_away(self) -> None:
        if (lane := self._lane()) is not None:
            lane.driver.hand_back(lane.number)

    def _break_lines(self) -> None:
        for lane in self._world.lanes:
            for line in lane.lines:
                lane.after(0.0, line.broke)

    def _lose_messages(self) -> None:
        self._world.loss = MESSAGES_LOST
        self._later(3.0, 10.0, self._lose_no_more)

    def _lose_no_more(self) -> None:
        self._world.loss = 0.0

    def _throttle(self) -> None:
        self._world.throttled = True
        self._later(3.0, 15.0, self._throttle_no_more)

    def _throttle_no_more(self) -> None:
        self._world.throttled = False

    def _driver(self) -> SimDriver:
        """One that holds a link, if there is one."""
        alive = [driver for driver in self._world.drivers if not driver.dead] or self._world.drivers
        active = [driver for driver in alive if driver.mirror is not None and driver.mirror._adopted]
        return self._chance.choice(active or alive)

    def _freeze_driver(self) -> None:
        driver = self._driver()
        driver.freeze()
        self._absent(driver.thaw)

    def _keep_driver_busy(self) -> None:
        driver = self._driver()
        driver.loop.busy = True
        self._absent(driver.loop.come_round)

    def _cut_driver(self) -> None:
        driver = self._driver()
        driver.cut = True
        self._absent(self._reconnect, driver)

    def _reconnect(self, driver: SimDriver) -> None:
        driver.cut = False

    def _kill_driver(self) -> None:
        self._driver().kill()

    def _stop_driver(self) -> None:
        driver = self._driver()
        if driver.mirror is not None:
            driver.loop.call_soon(driver.mirror.stop)

    def _fail_over(self) -> None:
        for group in self._world.groups:
            group.fail_over()

    def _jump_lane(self) -> None:
        if (lane := self._lane()) is not None:
            lane.wall_jump_ms = self._chance.randint(-6, 6) * HOUR_MS

    def _jump_brokers(self) -> None:
        self._world.broker_jump_ms = self._chance.randint(-5, 5) * HOUR_MS
