"""A world made from one seed: a source, a target, lanes with real copiers, a driver, faults, and the judge.

Everything happens on one schedule of virtual time, and every chance is drawn from the seed: a seed is a story that can
be told again, with a trace.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from heliograph.model.errors import PartitionStop

from .control_wire import SPEED
from .driver import SimDriver
from .election import SimElection
from .faults import Faults
from .judge import Judge, Wrong
from .lane import SimLane
from .model_broker import Led, ModelPartition
from .plan import FAULTS_UNTIL_MS, Plan, plan_of
from .schedule import Schedule
from .source_side import SimSource
from .target_line import FLIGHT_MS
from .target_side import SimTarget

MEND_MS = FAULTS_UNTIL_MS + 6_000
SETTLED_MS = MEND_MS + 2 * FLIGHT_MS
LIMIT_MS = MEND_MS + 60_000
STALE_METADATA = 0.1

Trace = Callable[[str], None]


class Verdict(NamedTuple):
    """`excused`: it met what nothing can guard against (Judge.misplaced_unawares)."""

    plan: Plan
    wrong: str
    took_ms: int
    excused: bool

    @property
    def command(self) -> str:
        return f"python -m tests.simulation --seed {self.plan.seed}"


class World(Schedule):
    def __init__(self, plan: Plan, trace: Trace | None = None) -> None:
        super().__init__()
        self.plan = plan
        self.chance = random.Random(plan.seed + (1 << 40))
        self.loss = 0.0
        self.broker_jump_ms = 0
        self.mended = False
        self.stops: list[PartitionStop] = []
        self._trace = trace
        self.lanes: list[SimLane] = []
        self.lanes_ever: list[SimLane] = []
        self.adopted = False  # the link, by a driver
        self.source = SimSource(self)
        self.target = SimTarget(self)
        self.judge = Judge(self)
        self.election = SimElection(self)
        self.drivers = [SimDriver(self, number) for number in range(plan.drivers)]
        self._faults = Faults(self)
        self.after(MEND_MS, self._mend)

    def tell(self, *words: Any) -> None:
        if self._trace is not None:
            self._trace(f"{self.now_ms:6d} " + " ".join(map(str, words)))

    def clock_s(self) -> float:
        """The clock of leases."""
        return self.now_ms * SPEED / 1000

    # -- chances

    def delay_ms(self, *, may_be_late: bool = False) -> int:
        if may_be_late and not self.mended and self.chance.random() < self.plan.late:
            return self.chance.randrange(50, FLIGHT_MS)
        return 1 + int(self.chance.random() * 5)

    def loses_message(self) -> bool:
        return self.loss > 0 and self.chance.random() < self.loss

    def led(self, partition: ModelPartition | None, known: Led | None) -> Led | None:
        """What metadata says: from a broker that may lag, though an older epoch than the known one is no news."""
        if partition is None:
            return None
        led = partition.truth
        if not self.mended and self.chance.random() < STALE_METADATA:
            up = [heard for node, heard in partition.heard.items() if node not in partition.down]
            led = self.chance.choice(up) if up else led
        if known is not None and led.epoch < known.epoch <= partition.truth.epoch:
            led = known
        return None if led.leader in partition.down else led

    # -- the course of things

    def wake_copiers(self) -> None:
        """The source has changed: fetches that waited there are answered."""
        for lane in self.lanes:
            if lane.copier is not None:
                lane.after(self.delay_ms(), lane.copier.source_changed)

    def start_driver(self, number: int) -> None:
        if self.drivers[number].dead:
            self.drivers[number] = SimDriver(self, number)

    def _mend(self) -> None:
        """Faults are over: everything that can come back is back."""
        self.tell("faults are over")
        self.mended = True
        self.loss = 0.0
        for number in range(len(self.drivers)):
            self.start_driver(number)
            self.drivers[number].cut = False
            self.drivers[number].thaw()
            self.drivers[number].come_round()
        for lane in list(self.lanes):
            lane.thaw()
            lane.reconnect()
        self.target.mend()

    def _ended(self) -> bool:
        """Nothing more is to come, and whatever was on its way is over."""
        return self.now_ms > SETTLED_MS and self.source.complete and self.judge.done()

    def run(self) -> str:
        """What is wrong, empty if nothing is."""
        try:
            while self.now_ms < LIMIT_MS and not self._ended():
                self.step()
            self.judge.conclude()
        except Wrong as wrong:
            self.tell("WRONG:", wrong)
            return str(wrong)
        return ""


def run_plan(plan: Plan, trace: Trace | None = None) -> Verdict:
    world = World(plan, trace)
    wrong = world.run()
    return Verdict(plan, wrong, world.now_ms, world.judge.excused)


def run_seed(seed: int, trace: Trace | None = None) -> Verdict:
    return run_plan(plan_of(seed), trace)
