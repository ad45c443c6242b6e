"""A model of a classic group's coordinator and of members that talk to it over a bad network; no I/O, time is a number.

Owns the coordinator's rules as Kafka has them (sessions, rebalances, who leads) and the faults, chosen by seed.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from heliograph.cluster.group_membership import Membership, Then
from heliograph.wire.error_codes import ErrorCode

Reply = Callable[[Any], None]


@dataclass
class Member:
    session_s: float
    heard_at: float
    reply: Reply | None = None  # who waits for the end of a join or of a sync


@dataclass
class Coordinator:
    members: dict[str, Member] = field(default_factory=dict)
    leader: str = ""
    generation: int = 0
    state: str = "stable"  # preparing, completing, stable
    began_at: float = 0.0
    ids: Any = field(default_factory=itertools.count)

    def handle(self, message: Any, now: float, reply: Reply) -> None:
        code = getattr(self, "_" + message.name.removesuffix("Request").lower())(message, now, reply)
        if code is not None:
            reply(SimpleNamespace(error_code=code, assignment=b"", member_id=message.member_id))

    def tick(self, now: float) -> None:
        for name, member in list(self.members.items()):
            if member.reply is None and now >= member.heard_at + member.session_s:
                self._remove(name, now)
        timeout_s = max((m.session_s for m in self.members.values()), default=0.0)
        if self.state == "preparing" and now >= self.began_at + timeout_s:
            for name in [name for name, m in self.members.items() if m.reply is None]:
                del self.members[name]
            self._complete(now)

    def _remove(self, name: str, now: float) -> None:
        del self.members[name]
        self._prepare(now)
        self._maybe_complete(now)

    def _prepare(self, now: float) -> None:
        if self.state == "preparing":
            return
        if self.state == "completing":  # who waits for the leader's sync is told to join again
            self._answer_all(lambda _: SimpleNamespace(error_code=ErrorCode.REBALANCE_IN_PROGRESS), now)
        self.state, self.began_at = "preparing", now

    def _maybe_complete(self, now: float) -> None:
        if self.state == "preparing" and all(m.reply is not None for m in self.members.values()):
            self._complete(now)

    def _complete(self, now: float) -> None:
        self.generation += 1
        self.state = "completing"
        if self.leader not in self.members:
            self.leader = next(iter(self.members), "")
        names = [SimpleNamespace(member_id=name) for name in self.members]
        self._answer_all(
            lambda name: SimpleNamespace(
                error_code=0,
                generation_id=self.generation,
                leader=self.leader,
                member_id=name,
                members=names,
            ),
            now,
        )

    def _answer_all(self, answer: Callable[[str], Any], now: float) -> None:
        for name, member in self.members.items():
            if member.reply is not None:
                member.heard_at = now
                member.reply(answer(name))
                member.reply = None

    def _joingroup(self, message: Any, now: float, reply: Reply) -> int | None:
        if not message.member_id:
            name = f"m{next(self.ids)}"
            reply(SimpleNamespace(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=name))
            self.pending.add(name)
            return None
        if message.member_id in self.pending:
            self.pending.discard(message.member_id)
            self.members[message.member_id] = Member(message.session_timeout_ms / 1000, now)
        elif message.member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self._prepare(now)
        self.members[message.member_id].reply = reply
        self._maybe_complete(now)
        return None

    def _syncgroup(self, message: Any, now: float, reply: Reply) -> int | None:
        if (code := self._known(message)) is not None:
            return code
        if self.state == "preparing":
            return ErrorCode.REBALANCE_IN_PROGRESS
        member = self.members[message.member_id]
        member.heard_at = now
        if self.state == "stable":
            return 0
        member.reply = reply
        if message.member_id == self.leader:
            self.state = "stable"
            self._answer_all(lambda _: SimpleNamespace(error_code=0, assignment=b""), now)
        return None

    def _heartbeat(self, message: Any, now: float, _reply: Reply) -> int | None:
        if (code := self._known(message)) is not None:
            return code
        self.members[message.member_id].heard_at = now
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state == "preparing" else 0

    def _known(self, message: Any) -> int | None:
        if message.member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.ILLEGAL_GENERATION if message.generation_id != self.generation else None

    pending: set[str] = field(default_factory=set)


class World:
    """Members that ask and a coordinator that answers; `step` runs the next event."""

    def __init__(self, seed: int, members: int) -> None:
        self.now = 0.0
        self.coordinator = Coordinator()
        self.drivers = [Driver(self, nth) for nth in range(members)]
        self.random = random.Random(seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        for driver in self.drivers:
            self.after(self.random.uniform(0, 3), driver.ask)
        self.after(0.05, self._tick)

    def after(self, wait_s: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + wait_s, next(self._count), event))

    def step(self) -> None:
        self.now, _, event = heapq.heappop(self._events)
        event()

    def travel(self, event: Callable[[], None]) -> None:
        """One way over the network: mostly quick, at times late, at times lost."""
        luck = self.random.random()
        if luck < 0.92:
            self.after(self.random.uniform(0.001, 0.05), event)
        elif luck < 0.97:
            self.after(self.random.uniform(0.05, 9), event)

    def _tick(self) -> None:
        self.coordinator.tick(self.now)
        self.after(0.05, self._tick)

    def holding(self) -> list[int]:
        return [driver.nth for driver in self.drivers if self.now < driver.membership.lease_until]


class Driver:
    def __init__(self, world: World, nth: int) -> None:
        self.nth = nth
        self.membership = Membership("g", {"host": str(nth), "pid": nth})
        self._world = world
        self._asked = 0
        self._frozen_until = 0.0

    def ask(self) -> None:
        if self._sleeps(self.ask):
            return
        world = self._world
        self._asked += 1
        number, sent_at = self._asked, world.now
        ask = self.membership.next_ask()

        def reply(response: Any) -> None:
            world.travel(lambda: self.heard(number, response, sent_at))

        world.travel(lambda: world.coordinator.handle(ask.message, world.now, reply))
        world.after(ask.timeout_s, lambda: self._timed_out(number))

    def heard(self, number: int, response: Any, sent_at: float) -> None:
        if number != self._asked or self._sleeps(lambda: self.heard(number, response, sent_at)):
            return
        self._asked += 1
        then = self.membership.answered(response, sent_at=sent_at)
        self._world.after({Then.GO_ON: 0.0, Then.REST: 1.0}.get(then, 0.3), self.ask)

    def _timed_out(self, number: int) -> None:
        if number != self._asked or self._sleeps(lambda: self._timed_out(number)):
            return
        self._asked += 1
        self.membership.trouble("no answer")
        self._world.after(0.3, self.ask)

    def _sleeps(self, event: Callable[[], None]) -> bool:
        """Now and then a process stands still; what was due then happens when it wakes."""
        world = self._world
        if world.now >= self._frozen_until and world.random.random() < 0.01:
            self._frozen_until = world.now + world.random.uniform(0.5, 20)
        if world.now < self._frozen_until:
            world.after(self._frozen_until - world.now, event)
            return True
        return False
