"""Runs that take part in elections over a bad network, against model coordinators; no I/O, time is a number.

Owns the faults, chosen by seed: answers lost and late, requests executed after nobody waits for them, runs that freeze,
leave and come back, coordinators that fail over. Runs of this version are members of two groups, those of the version
before of their link's own only. A run that selects more later is in the group of claims once more.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from heliograph.cluster.claims_group import ClaimsGroup
from heliograph.cluster.group_membership import Membership, NextStep
from heliograph.cluster.group_protocol import GroupProtocol
from heliograph.cluster.leader_group import BY_CLAIMS, LeaderGroup
from heliograph.cluster.standing import Assigned, Placed, Term
from heliograph.model.claims import Claim
from heliograph.model.errors import ProtocolError

from .group_model import Coordinator

ALL = "all"  # the group of claims; others are named by their link
LATER = "all, again"  # another member of it, of the same run


class BeforeLeaderGroup(LeaderGroup):
    """As the version before has it: the leader is active and marks nothing, the others stand by."""

    def assign(self, term: Term, members: Mapping[str, bytes]) -> dict[str, bytes]:
        marked = f', "{BY_CLAIMS}": true'.encode()
        return {name: said.replace(marked, b"") for name, said in super().assign(term, members).items()}

    def read(self, assignment: bytes, term: Term, leads: bool, /) -> Assigned:
        marked = f'"{BY_CLAIMS}": true'.encode()
        return super().read(assignment.replace(marked, b'"x": 1'), term, leads)

    def keeps_id(self, _leads: bool, /) -> bool:
        return True


class World:
    """`step` runs the next event; `judge` is called whenever a run has heard something."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.random = random.Random(seed)
        self.coordinators: dict[str, Coordinator] = defaultdict(Coordinator)
        self.runs: list[Run] = []
        self.calm = False
        self.late_s = 12.0  # more than the longest wait for an answer: then nobody waits for it any more
        self.judge: Callable[[], None] = lambda: None
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self.after(0.05, self._tick)

    def add(self, link: str, claim: Claim | None, *, later: Claim | None = None) -> Run:
        """A run of this version with this claim, or one of the version before, which selects everything. `later`: it
        selects that, too, after a while."""
        run = Run(self, len(self.runs), link, claim)
        self.runs.append(run)
        self.after(self.random.uniform(0, 3), run.start)
        if later is not None:
            self.after(self.random.uniform(5, 200), lambda: run.select(later))
        return run

    def after(self, wait_s: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + wait_s, next(self._count), event))

    def run_until(self, moment: float) -> None:
        while self.now < moment:
            self.now, _, event = heapq.heappop(self._events)
            event()

    def travel(self, event: Callable[[], None]) -> None:
        """One way over the network: mostly quick, at times late, at times lost."""
        luck = self.random.random()
        if luck < 0.92 or self.calm:
            self.after(self.random.uniform(0.001, 0.05), event)
        elif luck < 0.97:
            self.after(self.random.uniform(0.05, self.late_s), event)

    def _tick(self) -> None:
        for coordinator in self.coordinators.values():
            coordinator.tick(self.now)
            if not self.calm and self.random.random() < 0.0005:
                coordinator.fail_over(self.now)
        if not self.calm and self.runs and self.random.random() < 0.001:
            self.random.choice(self.runs).leave_for_a_while()
        self.after(0.05, self._tick)


class Run:
    def __init__(self, world: World, nth: int, link: str, claim: Claim | None) -> None:
        self.nth = nth
        self.world = world
        self.talks: dict[str, Talk] = {}
        self.frozen_until = 0.0
        self._link = link
        self._claims = [claim] if claim is not None else None  # None: a run of the version before

    def start(self) -> None:
        if self._claims is None:
            self.talks = {self._link: Talk(self, self._link, BeforeLeaderGroup("h", self.nth, "config"))}
        else:
            self.talks = {
                ALL: Talk(self, ALL, ClaimsGroup("h", self.nth, self._claims)),
                self._link: Talk(self, self._link, LeaderGroup("h", self.nth, "config")),
            }
        for talk in self.talks.values():
            talk.ask()

    def select(self, claim: Claim) -> None:
        """This, too. If it is not there now, it says so when it is back."""
        assert self._claims is not None
        self._claims = [*self._claims, claim]
        if self.talks:
            self.talks[LATER] = Talk(self, ALL, ClaimsGroup("h", self.nth, [claim]))
            self.talks[LATER].ask()

    def leave_for_a_while(self) -> None:
        if not self.talks or self.world.now < self.frozen_until:
            return
        for talk in self.talks.values():
            talk.leave()
        self.talks = {}
        self.world.after(self.world.random.uniform(0, 30), self.start)

    def membership(self, group: str) -> Membership:
        return self.talks[group].membership

    def wants(self, topic: str) -> bool:
        return self._claims is None or any(claim.covers(topic) for claim in self._claims)

    def holds(self, source_topic: str) -> bool:
        """By its leases, this very moment."""
        if not self.talks or not self._is_leased(self._link):
            return False
        return ALL not in self.talks or any(self._is_first(name, source_topic) for name in (ALL, LATER))

    def _is_leased(self, name: str) -> bool:
        return name in self.talks and self.world.now < self.membership(name).lease_until

    def _is_first(self, name: str, source_topic: str) -> bool:
        if not self._is_leased(name):
            return False
        placed = self.membership(name).standing(self.world.now)
        assert isinstance(placed, Placed)
        holder = placed.claims.holder(source_topic)
        return holder is not None and holder.claimant.member == placed.term.member

    def sleeps(self, event: Callable[[], None]) -> bool:
        """Now and then a process stands still; what was due then happens when it wakes."""
        world = self.world
        if world.now >= self.frozen_until and not world.calm and world.random.random() < 0.01:
            self.frozen_until = world.now + world.random.uniform(0.5, 20)
        if world.now < self.frozen_until:
            world.after(self.frozen_until - world.now, event)
            return True
        return False


class Talk:
    """One membership, and the questions of it."""

    def __init__(self, run: Run, group: str, protocol: GroupProtocol) -> None:
        self.membership = Membership(group, protocol)
        self.protocol = protocol
        self._run, self._world = run, run.world
        self._coordinator = run.world.coordinators[group]
        self._asked = 0
        self._left = False

    def ask(self) -> None:
        if self._left or self._run.sleeps(self.ask):
            return
        world = self._world
        self._asked += 1
        number, sent_at = self._asked, world.now
        ask = self.membership.next_ask()

        def reply(response: Any) -> None:
            world.travel(lambda: self.heard(number, response, sent_at))

        world.travel(lambda: self._coordinator.handle(ask.message, world.now, reply))
        world.after(ask.timeout_s, lambda: self._timed_out(number))

    def heard(self, number: int, response: Any, sent_at: float) -> None:
        if number != self._asked or self._run.sleeps(lambda: self.heard(number, response, sent_at)):
            return
        self._asked += 1
        try:
            then = self.membership.answered(response, sent_at=sent_at)
        except ProtocolError as problem:
            self.membership.trouble(problem.message)
            then = NextStep.FIND
        self._world.judge()
        self._world.after({NextStep.GO_ON: 0.0, NextStep.REST: 1.0}.get(then, 0.3), self.ask)

    def leave(self) -> None:
        self._asked += 1
        self._left = True
        goodbye = self.membership.leave()
        if goodbye is not None:
            message = goodbye.message
            self._world.travel(lambda: self._coordinator.handle(message, self._world.now, lambda _: None))

    def _timed_out(self, number: int) -> None:
        if number != self._asked or self._run.sleeps(lambda: self._timed_out(number)):
            return
        self._asked += 1
        self.membership.trouble("no answer")
        self._world.after(0.3, self.ask)
