"""A driver of the link: takes part in the election, grants leases, gives its lanes the partition by the real Placement.

Plays engine/lanes.py and control_server.py (heartbeats are answered also while its loop is busy), lane_keeper.py and
link_roles.py; where those change, this must follow. Which lane is given what, when, and how long it must wait is
production's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from heliograph.controller.placement import Give, Placement
from heliograph.controller.plan import CopyPartition
from heliograph.copier.lease import ALIVE_S

from .control_wire import ControlWire, Message, scaled_ms
from .copier import FLIGHT_S, PARTITION, SPEC
from .election import SESSION_S
from .lane import SimLane
from .schedule import Do

if TYPE_CHECKING:
    from .world import World

LEASE_MOST_S = 10.0
ELECTION_BEAT_MS = scaled_ms(2)
SILENCE_TICK_MS, SILENT_TICKS = scaled_ms(2), 5
SETTLE_MS = 100
NEVER = float("-inf")
LINK = PARTITION.link
COPY = CopyPartition(spec=SPEC, next_offset=0, goal=1)


class SimDriver:
    def __init__(self, world: World, number: int) -> None:
        self.number = number
        self.dead = self.frozen = self.busy = False
        self.cut = False  # from the election's coordinator
        self.holder: int | None = None
        self._world = world
        self._wires: dict[int, ControlWire] = {}
        self._up: set[int] = set()
        self._jobs: dict[int, SimLane] = {}  # less those that were cancelled
        self._clean: dict[int, bool] = {}
        self._leased_until: dict[int, float] = {}
        self._waiting: list[tuple[Do, tuple[Any, ...]]] = []  # for a frozen process
        self._events: list[tuple[Do, tuple[Any, ...]]] = []  # for a busy loop
        self._lease_until = NEVER
        self._generation: int | None = None
        self._granted = False
        self._stopped = False
        self._taking = False
        self._placement = Placement(world.plan.lanes, {LINK: FLIGHT_S}, world.clock_s())
        for lane in range(world.plan.lanes):
            self.start_lane(lane)
        self._ask()
        self._tick()
        self._settle_often()

    @property
    def name(self) -> str:
        return f"driver {self.number}"

    # -- what happens to it

    def kill(self) -> None:
        self.dead = True
        for wire in self._wires.values():
            wire.end()

    def reconnect(self) -> None:
        self.cut = False

    def thaw(self) -> None:
        self.frozen = False
        waiting, self._waiting = self._waiting, []
        self._taking = True  # all events first, then orders
        for do, what in waiting:
            self._in_process(do, *what)
        self._taking = False

    def come_round(self) -> None:
        """Its loop is busy no more."""
        self.busy = False
        events, self._events = self._events, []
        self._taking = True
        for do, what in events:
            self._in_loop(do, *what)
        self._taking = False

    def _in_process(self, do: Do, *what: Any) -> None:
        if self.frozen:
            self._waiting.append((do, what))
        elif not self.dead:
            do(*what)

    def _in_loop(self, do: Do, *what: Any) -> None:
        if self.busy:
            self._events.append((do, what))
        elif self.frozen:
            self._waiting.append((self._in_loop, (do, *what)))
        elif not self.dead:
            do(*what)

    # -- the election

    def _ask(self) -> None:
        world = self._world
        if self.dead:
            return
        world.after(ELECTION_BEAT_MS, self._ask)
        if not (self.frozen or self.busy or self.cut or world.loses_message()):
            world.after(world.delay_ms(), self._ask_coordinator, world.clock_s())

    def _ask_coordinator(self, sent_s: float) -> None:
        generation = self._world.election.ask(self)
        self._world.after(self._world.delay_ms(), self._in_loop, self._answered, generation, sent_s)

    def _answered(self, generation: int | None, sent_s: float) -> None:
        if self.cut:
            return
        if generation is None:
            self._lease_until, self._generation = NEVER, None
            self._withdraw()
            return
        self._lease_until = max(self._lease_until, sent_s + SESSION_S)
        before, self._generation = self._generation, generation
        if before is None or before not in (generation, generation - 1):
            self._withdraw()
            self._world.after(self._world.chance.randint(1, 200), self._in_loop, self._prepared, generation)

    def _withdraw(self) -> None:
        """Others are active, or may have been."""
        self._granted = False
        self._placement.drop(LINK)
        self._settle()

    def _prepared(self, generation: int) -> None:
        if self._generation is None or self._generation < generation or self._granted:
            return
        world = self._world
        clear_at = world.clock_s() + ALIVE_S + FLIGHT_S
        created = () if world.plan.racing or world.adopted else (PARTITION.target_topic,)
        world.adopted = True
        world.tell(self.name, "adopts the link")
        self._stopped = False
        self._placement.adopt(LINK, [COPY], clear_at, created)
        self._granted = True
        self._settle()

    # -- the control lines

    def start_lane(self, number: int) -> None:
        """Spark starts a lane's job, again where it has ended; what is left of the last one may live on."""
        if self.frozen:
            self._world.after(200, self.start_lane, number)
        elif not self.dead and (number not in self._jobs or self._jobs[number].dead):
            self.replace_lane(number)

    def start_lane_later(self, number: int) -> None:
        self._world.after(self._world.chance.randint(50, 1_500), self.start_lane, number)

    def replace_lane(self, number: int) -> None:
        """Spark may be faster than the news of the last one's end."""
        if not self.dead:
            self._jobs[number] = SimLane(self._world, self, number)

    def hear(self, wire: ControlWire, message: Message) -> None:
        self._in_process(self._hear, wire, message)

    def _hear(self, wire: ControlWire, message: Message) -> None:
        number = wire.lane.number
        if message == ("hello",):
            self._replace(wire)
        if self._wires.get(number) is not wire:
            return
        wire.silent_ticks = 0
        match message:
            case ("heartbeat", asked_s, wants):
                self._renew(wire, asked_s, wants=wants)
            case ("stopped",):
                self._in_loop(self._note_stop)
            case ("revoked", clean):
                self._in_loop(self._let_go, number, clean)
            case ("drained", clean):
                self._clean[number] = clean
            case ("gone",):
                self._lose(wire, hung=False)

    def _replace(self, wire: ControlWire) -> None:
        number = wire.lane.number
        if number in self._wires:
            self._wires[number].end()
        self._wires[number] = wire
        self._clean[number] = False
        self._in_loop(self._lane_up, number)

    def _renew(self, wire: ControlWire, asked_s: float, *, wants: bool) -> None:
        now_s, number = self._world.clock_s(), wire.lane.number
        right_s = max(min(self._lease_until - now_s, LEASE_MOST_S), 0.0) if self._granted else 0.0
        if wants:
            self._leased_until[number] = max(now_s + right_s, self._leased_until.get(number, NEVER))
        if right_s > 0 or self._world.plan.planted_word_without_right:
            wire.to_lane("renew", asked_s, right_s if wants else 0.0)
        else:
            wire.to_lane("no right")

    def _tick(self) -> None:
        """Counted in turns of this process: a driver that slept itself blames no lane for it."""
        if self.dead:
            return
        self._world.after(SILENCE_TICK_MS, self._tick)
        if self.frozen:
            return
        for wire in list(self._wires.values()):
            wire.silent_ticks += 1
            if wire.silent_ticks >= SILENT_TICKS:
                self._lose(wire, hung=True)

    def _lose(self, wire: ControlWire, *, hung: bool) -> None:
        number = wire.lane.number
        wire.end()
        del self._wires[number]
        if hung and self._jobs[number] is wire.lane:
            del self._jobs[number]
        self._in_loop(self._lane_gone, number, self._clean.pop(number, False), hung)

    # -- who holds the partition

    def give_up(self, number: int) -> None:
        """A lane that does not advance, as far as this driver knows."""
        wire = self._wires.get(number)
        if wire is not None and not (self.frozen or self.busy or self.dead):
            self._lose(wire, hung=True)

    def take_executor_away(self, number: int) -> None:
        wire = self._wires.get(number)
        if wire is not None and not (self.frozen or self.dead):
            wire.to_lane("stop")

    def _lane_up(self, number: int) -> None:
        if number in self._up:
            self._lane_gone(number, False, True)  # replaced before its end was noticed
        self._up.add(number)
        self._placement.lane_up(number, self._world.clock_s())
        self._settle()

    def _lane_gone(self, number: int, clean: bool, hung: bool) -> None:
        self._up.discard(number)
        self._world.tell(self.name, "loses lane", number, "hung" if hung else "clean" if clean else "dead")
        leased_until = self._leased_until.get(number, NEVER)
        self._placement.lane_gone(
            number, self._world.clock_s(), clean=clean, hung=hung, leased_until=lambda _: leased_until
        )
        if self.holder == number:
            self.holder = None
        self.start_lane_later(number)
        self._settle()

    def _let_go(self, number: int, clean: bool) -> None:
        self._placement.let_go(PARTITION, number, self._world.clock_s(), clean=clean)
        if self.holder == number:
            self.holder = None
        self._settle()

    def _note_stop(self) -> None:
        """The partition needs an operator: nobody gets it again."""
        self._stopped = True

    def _settle_often(self) -> None:
        if not self.dead:
            self._world.after(SETTLE_MS, self._settle_often)
            if not (self.frozen or self.busy):
                self._settle()

    def _settle(self) -> None:
        if self._taking:
            return
        for order in self._placement.orders(self._world.clock_s(), lambda _: self._stopped):
            wire = self._wires.get(order.lane)
            if isinstance(order, Give):
                self.holder = order.lane
            if wire is not None and isinstance(order, Give):
                wire.to_lane("assign", order.clear_in_s)
            elif wire is not None:
                wire.to_lane("revoke")
