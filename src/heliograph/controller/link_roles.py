"""What this run is to each of its links: active, standing by, or seeking; and the preparation of those that are ours.

    seeking ──▶ standby ──▶ active ──▶ prepared (observed again, planned, its topics made)
       ▲ ▲─────────┘           │
       └───────────────────────┘  the same member still (`_carries_on`): nobody else was active, all goes on

A link whose topics are all held by others stands by; one of which some are is active with the rest. While a run is a
member it loses no topic. When a claim in front of it goes, and with it the holder of a topic of ours, the link is
withdrawn and prepared again.

Owns the elections. Must not know lanes: it tells what happens as events.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from heliograph.cluster.standing import Term
from heliograph.controller.cells import Cells, FencedGroup, Mark
from heliograph.controller.clusters import Clusters
from heliograph.controller.drivership import Active, Candidate, Drivership, Role, Seeking, Standby
from heliograph.controller.link_ledger import LinkLedger
from heliograph.controller.link_ledgers import LinkLedgers
from heliograph.controller.plan import HeldBy, LeavePartition, Plan
from heliograph.controller.role_words import LastingTrouble, holders_of, tell_active, tell_standby
from heliograph.controller.takeover import Ready, Takeover
from heliograph.model.claims import Claim
from heliograph.model.command import Command
from heliograph.model.errors import ClusterUnreachable, ProtocolError, RequestFailed
from heliograph.model.events import Event
from heliograph.model.ledger import Row
from heliograph.model.outbox import Outbox
from heliograph.model.partition import MirrorPartition, TopicPartition

TRY_AGAIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Prepared:
    """A link is ours, and ready. `marks`: of partitions that their last holder has drained."""

    link: str
    todo: Plan
    marks: Mapping[MirrorPartition, Mark] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoodDown:
    """Another run is the link's active driver, or may have been: lanes must let go of its partitions. `active`: who is
    it, in words, if one is known."""

    link: str
    active: str | None = None


@dataclass(frozen=True, slots=True)
class Reserved:
    """Attempts to fill gaps, for the lane, and the process, that asked for them."""

    lane: int
    pid: int
    attempts: tuple[tuple[MirrorPartition, int], ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """A link could not be prepared for a reason that no further try mends."""

    problem: BaseException


@dataclass(frozen=True, slots=True)
class Commanded:
    """What an operator wants, of whichever mirror."""

    command: Command


RoleEvent = Prepared | StoodDown | Reserved | Failed | Commanded


class LinkRoles:
    """`cluster_ids` by link: source, target. `on_event` is called in the event loop."""

    def __init__(
        self,
        clusters: Clusters,
        cluster_ids: dict[str, tuple[str, str]],
        on_event: Callable[[RoleEvent], None],
        outbox: Outbox,
        make_drivership: Callable[..., Drivership] = Drivership,
    ) -> None:
        self.roles: dict[str, Role] = {link: Seeking() for link in cluster_ids}
        self._clusters = clusters
        self._on_event = on_event
        self._outbox = outbox
        self._terms: dict[str, Active] = {}  # of the links that are ours
        self._behind: dict[str, Standby] = {}  # those whose topics are all held by others
        self._left: dict[str, tuple[LeavePartition, ...]] = {}  # of those that are prepared
        self._mirrored: dict[str, set[str]] = {link: set() for link in cluster_ids}  # target topics
        self._ready: set[str] = set()  # prepared, and not withdrawn since
        self._granted: frozenset[str] = frozenset()  # replaced, never changed: other threads read it
        self._claims: dict[str, Claim] = {}  # as what links stand for election
        self._retiring: set[str] = set()  # links that are on their way out
        self._preparing: dict[str, asyncio.Task[None]] = {}
        self._trouble = LastingTrouble(self._problem_of, outbox)
        candidates = [self._candidate(link, *ids) for link, ids in cluster_ids.items()]
        self._drivership = make_drivership(candidates, self._changed)
        self._cells: dict[FencedGroup, Cells] = {}
        self.ledgers = LinkLedgers(
            clusters, cluster_ids, outbox, lambda command: on_event(Commanded(command))
        )
        self._take_over = Takeover(clusters, self.ledgers, outbox, self._cells_of)
        self._reserving: set[asyncio.Task[None]] = set()
        self._unreserved: dict[str, str] = {}  # why, of links whose lanes wait for attempts

    def _candidate(self, link: str, source_id: str, target_id: str) -> Candidate:
        self._claims[link] = self._clusters.link(link).claim
        return Candidate(
            claim=self._claims[link],
            fingerprint=self._clusters.link(link).fingerprint,
            target=self._clusters.target(link),
            source_cluster_id=source_id,
            target_cluster_id=target_id,
        )

    def start(self) -> None:
        self._drivership.start()

    def add(self, link: str, cluster_ids: tuple[str, str]) -> None:
        """One more link; the elections of the others go on as they are."""
        self.roles[link] = Seeking()
        self._mirrored[link] = set()
        self.ledgers.add(link, cluster_ids)
        self._drivership.add(self._candidate(link, *cluster_ids))

    @property
    def claims(self) -> Mapping[str, Claim]:
        """As what links stand for election. What they select may be less by now."""
        return self._claims

    def takes_part(self, link: str) -> bool:
        return link in self.roles and link not in self._retiring

    def retire(self, link: str) -> None:
        """It is to be removed: nothing is prepared any more. What was granted is, until then."""
        self._retiring.add(link)
        self._drop_preparation(link)
        self._trouble.end(link)

    async def remove(self, link: str) -> None:
        """No lane has anything of it: its groups are left, and it is forgotten."""
        self._ready.discard(link)
        self._granted = self._granted - {link}
        await self.ledgers.remove(link)
        self._cells.pop(self._drivership.claims_group(link), None)
        await self._drivership.remove(link)
        for by_link in (self.roles, self._claims, self._terms, self._behind, self._left, self._mirrored):
            by_link.pop(link, None)
        self._retiring.discard(link)

    def prepare_again(self, link: str) -> None:
        """Its preparation began before its config changed."""
        if link in self._preparing and link not in self._ready:
            self._drop_preparation(link)
            self._begin_preparation(link, self._terms[link])

    def grants(self) -> dict[str, float]:
        """How long each link is ours for certain, in seconds; 0 until `grant`. May be called from any thread."""
        lasts = (
            self._drivership.grants()
        )  # first: what is withdrawn meanwhile must not be granted by an older look
        granted = self._granted
        return {link: lasts_s if link in granted else 0.0 for link, lasts_s in lasts.items()}

    def grant(self, link: str) -> None:
        """Whatever lanes held of this link before was taken from them: they may have leases now. Not of a link that
        was withdrawn since it was told as prepared."""
        if link in self._ready:
            self._granted = self._granted | {link}

    def holds(self, link: str) -> bool:
        """Nobody else can hold it at this moment: it is prepared, and the lease lasts."""
        return self.grants().get(link, 0.0) > 0.0

    def holds_topic(self, link: str, target_topic: str) -> bool:
        """The same of one target topic of the link."""
        term = self._terms.get(link)
        return term is not None and term.held_by(link, target_topic) is None and self.holds(link)

    @property
    def standing_by(self) -> bool:
        return any(isinstance(role, Standby) for role in self.roles.values())

    async def aclose(self, *, leave: bool = True) -> None:
        """Step down: with `leave` a standby takes over at once, else when the last lease is over."""
        for link in self.roles:
            self._drop_preparation(link)
            self._trouble.end(link)
        for task in self._reserving:
            task.cancel()
        await self.ledgers.aclose()
        await self._drivership.aclose(leave=leave)

    # -- attempts to fill gaps

    def reserve(self, lane: int, pid: int, wants: Iterable[tuple[MirrorPartition, int]]) -> None:
        """Answered by `Reserved`, or not at all: the lane asks again."""
        by_link: dict[str, dict[MirrorPartition, int]] = {}
        for key, above in wants:
            by_link.setdefault(key.link, {})[key] = above
        for link, above_of in by_link.items():
            if link in self._ready:
                task = asyncio.get_running_loop().create_task(self._reserve(link, lane, pid, above_of))
                self._reserving.add(task)
                task.add_done_callback(self._reserving.discard)

    async def _reserve(self, link: str, lane: int, pid: int, wants: dict[MirrorPartition, int]) -> None:
        term = self._terms.get(link)
        if term is None:  # withdrawn since it was asked for
            return
        try:
            wanted = {key.target: above for key, above in wants.items()}
            given = await self._cells_of(link).reserve(wanted, member=term.member)
        except (RequestFailed, ProtocolError) as problem:
            self._tell_unreserved(link, problem.message)
            return
        self._unreserved.pop(link, None)
        self.record(link, lambda ledger: _first_gaps(ledger, wants))
        if link in self._ready:  # else others may hold them by now, and have read less than this
            self._on_event(Reserved(lane, pid, tuple((key, given[key.target]) for key in wants)))

    def _tell_unreserved(self, link: str, problem: str) -> None:
        """Once: lanes ask again every few seconds."""
        if self._unreserved.get(link) != problem:
            self._unreserved[link] = problem
            words = f"link {link}: gaps wait: no attempt to fill them could be reserved: {problem}"
            self._outbox.tell(Event.ELECTION, words, link=link)

    def _cells_of(self, link: str) -> Cells:
        group = self._drivership.claims_group(link)
        if group not in self._cells:
            self._cells[group] = Cells(group, self._clusters.flight_s(link))
        return self._cells[group]

    # -- what is kept for whoever comes next

    async def take_again(self, link: str, source_topics: Collection[str], *, as_found: bool = False) -> Ready:
        """Topics of a link that is ours, observed and planned anew. `as_found`: nobody has asked for it, so a target
        topic that was deleted under us is not made again. `ClusterUnreachable`: try again."""
        term = self._terms.get(link)
        if term is None or link not in self._granted:
            raise _not_ours(link)
        mirrored = self._mirrored[link] if as_found else ()
        ready = await self._take_over(link, term.member, mirrored, self._held_by(term), source_topics)
        if link not in self._granted or self._terms.get(link) is not term:  # withdrawn meanwhile
            raise _not_ours(link)
        self._mirrored[link] |= {copy.spec.partition.target_topic for copy in ready.todo.copies}
        known = {each.partition for each in self._left.get(link, ())}
        left = (each for each in ready.todo.left if each.partition not in known)
        self._left[link] = (*self._left.get(link, ()), *left)
        return ready

    def let_go(self, link: str, partitions: Collection[MirrorPartition]) -> None:
        """They are not mirrored any more."""
        self._mirrored[link] -= {key.target_topic for key in partitions}
        left = self._left.get(link, ())
        self._left[link] = tuple(each for each in left if each.partition not in set(partitions))

    async def leave_marks(self, marks: Mapping[MirrorPartition, Mark]) -> None:
        """These were drained: nothing of ours is on its way. To be called when lanes have ended, before `aclose`. A
        mark that cannot be left costs who comes next a wait. Of a link that was withdrawn since its lanes were given
        it, and may have been prepared again, none is left: others may have held it in between."""
        by_cells: dict[tuple[Cells, str], dict[TopicPartition, Mark]] = {}
        for key, mark in marks.items():
            if key.link in self._granted:
                member = self._terms[key.link].member
                by_cells.setdefault((self._cells_of(key.link), member), {})[key.target] = mark
        for (cells, member), of_cells in by_cells.items():
            with contextlib.suppress(RequestFailed, ProtocolError):
                await cells.leave(of_cells, member=member)

    def record(self, link: str, rows: Callable[[LinkLedger], Iterable[Row]]) -> None:
        """Write these down in the background, if the link is ours and there is a ledger."""
        ledger = self.ledgers.of(link)
        if ledger is not None and link in self._ready:
            ledger.record(rows(ledger))

    def _changed(self, link: str, role: Role) -> None:
        if not self.takes_part(link):  # others may have it by now: no mark is left
            self._granted = self._granted - {link}
            return
        match role:
            case Active():
                self._elected(link, role)
            case Standby():
                self._terms.pop(link, None)
                self._withdraw(link, role.active)
                self._stand_by(link, role)
            case Seeking():
                self.roles[link] = role
                self._trouble.begin(link)
                return
        self._trouble.end(link)

    def _stand_by(self, link: str, role: Standby) -> None:
        self.roles[link] = role
        tell_standby(self._outbox, link, role)

    def _problem_of(self, link: str) -> str | None:
        role = self.roles[link]
        return role.problem if isinstance(role, Seeking) else None

    def _elected(self, link: str, term: Active) -> None:
        before, self._terms[link] = self._terms.get(link), term
        if before is not None and _carries_on(before, term) and self._same_holders(link, before, term):
            self.roles[link] = self._behind.get(link, term)
            return
        holder = term.all_held_by(self._clusters.link(link).claim)
        self._withdraw(link, None if holder is None else str(holder))
        if holder is not None:
            self._stand_behind(link, str(holder))
            return
        self.roles[link] = term
        self._begin_preparation(link, term)

    def _begin_preparation(self, link: str, term: Active) -> None:
        task = asyncio.get_running_loop().create_task(self._prepare(link, term))
        self._preparing[link] = task
        task.add_done_callback(self._prepared)

    def _same_holders(self, link: str, before: Active, now: Active) -> bool:
        """Whether every topic of the link belongs to whom it did. Not known while it is prepared, or stands by."""
        if before.in_front == now.in_front:
            return True
        if link not in self._left or not set(now.in_front) <= set(before.in_front):
            return False
        return all(now.held_by(link, each.partition.target_topic) == each.holder for each in self._left[link])

    def _stand_behind(self, link: str, holders: str) -> None:
        self._behind[link] = Standby(active=holders)
        self._stand_by(link, self._behind[link])

    def _withdraw(self, link: str, active: str | None) -> None:
        """Others are active, or may have been since we were: what an earlier generation began knows nothing of them."""
        self._ready.discard(link)
        self._granted = self._granted - {link}
        self._behind.pop(link, None)
        self._left.pop(link, None)
        self._drop_preparation(link)
        self._on_event(StoodDown(link, active))

    def _drop_preparation(self, link: str) -> None:
        task = self._preparing.pop(link, None)
        if task is not None:
            task.cancel()

    async def _prepare(self, link: str, term: Active) -> None:
        while True:
            try:
                ready = await self._take_over(link, term.member, self._mirrored[link], self._held_by(term))
            except ClusterUnreachable as problem:
                self._outbox.tell(Event.CLUSTER_AWAY, f"link {link}: {problem.message}", link=link)
                await asyncio.sleep(TRY_AGAIN_S)
            else:
                todo = ready.todo
                self._ready.add(link)
                self._mirrored[link] |= {copy.spec.partition.target_topic for copy in todo.copies}
                self._left[link] = todo.left
                if todo.left and not todo.partitions:
                    self._stand_behind(link, holders_of(todo))
                else:
                    tell_active(self._outbox, link, term.generation, todo)
                self._on_event(Prepared(link, todo, ready.marks))
                return

    def _held_by(self, term: Active) -> HeldBy:
        return lambda of, topic: term.held_by(of.name, of.target_topic(topic))

    def _prepared(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._on_event(Failed(problem))


def _not_ours(link: str) -> ClusterUnreachable:
    return ClusterUnreachable(f"link {link} is not this run's now")


def _first_gaps(ledger: LinkLedger, wants: Iterable[MirrorPartition]) -> list[Row]:
    """That gaps of these may be filled from now on, of those of which it is not written yet."""
    return [
        ledger.of_gaps(key.target)
        for key in wants
        if not ledger.recorded.gaps_filled(key.target, ledger.target_id(key.target_topic))
    ]


def _carries_on(before: Active, now: Active) -> bool:
    """Nobody else can have held what is ours in between: who is dropped from a group comes back as another member.

    Among claims a member keeps its place in every later generation. In the link's own group a run of the version before
    may have led one that we missed."""
    (old, *olds), (new, *news) = before.terms, now.terms
    return (
        new.member == old.member
        and new.generation >= old.generation
        and all(_follows(one, other) for one, other in zip(olds, news, strict=True))
    )


def _follows(old: Term, new: Term) -> bool:
    return new.member == old.member and new.generation in (old.generation, old.generation + 1)
