"""Clusters, lanes and elections that are played: what a run meets, without Kafka and Spark."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.config_reads import Configs
from heliograph.cluster.fenced_cells import Cell
from heliograph.cluster.metadata import ClusterMetadata
from heliograph.cluster.security.settings import Security
from heliograph.cluster.standing import Placed, Standing, Term
from heliograph.controller.clusters import Clusters
from heliograph.controller.drivership import Active, Candidate, Drivership, Role
from heliograph.controller.event_writer import EventsTarget, EventWriter
from heliograph.controller.finding import Finding
from heliograph.controller.link_conflicts import LinkTopics
from heliograph.controller.snapshot import LinkSnapshot
from heliograph.copier.lane_clusters import LinkClusters
from heliograph.copier.spec import CopySpec
from heliograph.engine.lanes import Grants, LaneEvent, LaneGone, LaneRevoked, Lanes, LaneTold, LaneUp
from heliograph.model.claims import Claim, Claimant, Claims
from heliograph.model.errors import ClusterUnreachable, HeliographError
from heliograph.model.link import Link
from heliograph.model.occurrence import Occurrence
from heliograph.model.outbox import Outbox
from heliograph.model.partition import MirrorPartition, TopicPartition
from heliograph.model.settings import Settings

from .memory_logs import MemoryLogs
from .observed import LINK, SF_ID, metadata_of, mirrored_sight, snapshot, source_topic, target_topic

REQUEST_TIMEOUT_S = 30.0
ENDS = LinkClusters(
    link=LINK.name,
    source=LINK.source,
    target=LINK.target,
    source_properties={"bootstrap.servers": "127.0.0.1:1"},
    target_properties={"bootstrap.servers": "127.0.0.1:2"},
)


def elected(generation: int = 1, member: str = "me", claims: Claims = Claims()) -> Active:  # noqa: B008 - a frozen value
    """In the group of claims, and in the link's own."""
    term = Term(generation=generation, member=member)
    return Active(terms=(term, term), claims=claims)


ELECTED = elected()


def order(*in_front: str, link: str = "theirs", topics: str = "orders") -> Claims:
    """Other runs that select these topics, by their hosts, and this one behind them."""
    others = [
        Claimant(member=host, seniority=nth, host=host, pid=7, claims=(Claim(link=link, topics=(topics,)),))
        for nth, host in enumerate(in_front, 1)
    ]
    me = Claimant(member="me", seniority=9, host="here", pid=1, claims=(LINK.claim,))
    return Claims(claimants=(*others, me))


Look = LinkSnapshot | HeliographError


def observed(partitions: int = 1) -> LinkSnapshot:
    """A mirror in good order that is caught up."""
    sights = [mirrored_sight(source_end=5, target_end=5)] * partitions
    return snapshot(source_topic(sights=sights), targets=[target_topic(partitions=partitions)])


class FakeClusters:
    """`looks`: what each observation gives, the last one for ever. `hangs`: the step that never ends."""

    def __init__(self, *looks: Look, hangs: str = "") -> None:
        self.looks, self.hangs = list(looks), hangs
        self.observations = 0
        self.observed: list[str] = []  # links that were looked at alone
        self.closed = False
        self.targets: dict[str, Any] = {}
        self.logs = MemoryLogs()
        self.findings: tuple[Finding, ...] = ()  # of a preflight
        self.cut_off: dict[
            str, dict[str, ClusterUnreachable]
        ] = {}  # by link and cluster: what is away, and why
        self.link_names = [LINK.name]
        self.unfit: HeliographError | None = None  # what topics of links that wait are read with
        self._apart: set[str] = set()
        self.settings = Settings(clusters={}, links=())

    async def connect(self) -> None:
        await self._step("connect")
        for problems in self.cut_off.values():
            raise next(iter(problems.values()))

    async def connect_some(self) -> dict[str, dict[str, ClusterUnreachable]]:
        await self._step("connect")
        self._apart = set(self.cut_off)
        return self.cut_off

    async def reach(self, link: str) -> dict[str, ClusterUnreachable]:
        return self.cut_off.get(link, {})

    def securities(self, _settings: Settings) -> list[tuple[ClusterClient, Security]]:
        return []

    def check(self, settings: Settings, links: Collection[str]) -> None:
        del settings, links

    async def follow(self, settings: Settings) -> None:
        names = [link.name for link in settings.links]
        self._apart |= {*names} - {*self.link_names}
        self.link_names, self.settings = names, settings

    def set_apart(self, links: Iterable[str]) -> None:
        self._apart |= set(links)

    def join(self, link: str) -> None:
        self._apart -= {link}

    @property
    def links(self) -> tuple[Link, ...]:
        return tuple(self.link(name) for name in self.link_names if name not in self._apart)

    def cluster_ids(self, link: str) -> tuple[str, str]:
        return SF_ID, f"target of {link}"

    async def link_topics(self, name: str, link: Link | None = None) -> LinkTopics:
        if self.unfit is not None:
            raise self.unfit
        source_id, target_id = self.cluster_ids(name)
        return LinkTopics(
            link=link or self.link(name),
            source_cluster_id=source_id,
            target_cluster_id=target_id,
            topics=("orders",),
        )

    def events_targets(self, _links: Iterable[str]) -> list[EventsTarget]:
        return []

    async def observe(self) -> list[LinkSnapshot]:
        return [await self._look()]

    async def observe_some(self) -> tuple[list[LinkSnapshot], dict[str, ClusterUnreachable]]:
        return await self.observe(), {}

    async def observe_link(self, name: str, only: Collection[str] | None = None) -> LinkSnapshot:  # noqa: ARG002
        self.observed.append(name)
        return await self._look()

    async def topics(self, name: str) -> tuple[ClusterMetadata, ClusterMetadata]:
        """As the next look will show them."""
        await self._step("topics")
        look = self.looks[0]
        if isinstance(look, HeliographError):
            raise look
        sources = {each.name: len(each.partitions) for each in look.sources}
        targets = {each.name: each.partitions for each in look.targets.values()}
        del name
        return metadata_of(sources), metadata_of(targets)

    async def _look(self) -> LinkSnapshot:
        self.observations += 1
        await self._step("observe")
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(look, HeliographError):
            raise look
        return look

    async def preflight(
        self, _snapshots: Sequence[LinkSnapshot], _recorded: object = None
    ) -> tuple[Finding, ...]:
        return self.findings

    async def _step(self, name: str) -> None:
        if name == self.hangs:
            await asyncio.Event().wait()

    def link(self, name: str) -> Link:
        found = [link for link in self.settings.links if link.name == name]
        return found[0] if found else replace(LINK, name=name)

    def target(self, link: str) -> ClusterClient:
        return cast(ClusterClient, self.targets.get(link))

    def source(self, link: str) -> ClusterClient:
        return cast(ClusterClient, self.targets.get(link))

    def target_topic_id(self, _link: str, topic: str) -> str:
        return f"id of {topic}"

    def id_of_source(self, _link: str, _topic: str) -> str:
        return ""

    def target_replicas(self, _link: str, _topic: str) -> int:
        return 1

    async def target_defaults(self, _name: str) -> Mapping[str, str]:
        await self._step("defaults")
        return {}

    async def configs(self, name: str, topics: Collection[str]) -> tuple[Configs, Configs]:
        return await self.configs_again(name, topics)

    async def configs_again(self, _name: str, _topics: Collection[str]) -> tuple[Configs, Configs]:
        await self._step("configs")
        return {}, {}

    async def refresh_target(self, _link: str) -> None:
        await self._step("refresh")

    def own_topics(self, _link: str) -> MemoryLogs:
        return self.logs

    def event_writer(self, outbox: Outbox) -> EventWriter:
        return EventWriter((), outbox)

    def flight_s(self, _link: str) -> float:
        return REQUEST_TIMEOUT_S

    def link_clusters(self) -> list[LinkClusters]:
        return [replace(ENDS, link=link.name) for link in self.links]

    async def aclose(self) -> None:
        self.closed = True

    @property
    def made(self) -> Clusters:
        return cast(Clusters, self)


class FakeLanes:
    """Lanes that come up, let go and end as they are told, on a Spark that takes `start_s`, and `slots_s` to count its
    slots: one more than lanes may have. `deaf`: they do not end."""

    def __init__(
        self,
        *,
        start_s: float = 0.0,
        come_up: bool = True,
        slots_s: float = 0.0,
        local_slots: int | None = 3,
        deaf: bool = False,
    ) -> None:
        self.start_s, self.come_up, self.local_slots, self.deaf = start_s, come_up, local_slots, deaf
        self.slots_s = slots_s
        self.session = SimpleNamespace(lost=False, ui_address=None)
        self.is_made = False
        self.started = 0
        self.closed = threading.Event()
        self.sent: list[tuple[int, str]] = []  # every order so far, by its name
        self.links: dict[int, Sequence[LinkClusters]] = {}  # of the last assignment of each lane
        self._assigned: list[tuple[int, float, list[MirrorPartition]]] = []
        self.held: dict[MirrorPartition, int] = {}
        self.abandoned: list[int] = []
        self.last_words: tuple[Occurrence, ...] = ()  # of each lane that is told to end
        self.leases: dict[tuple[int, str], float] = {}  # until when; others were never given
        self.grants: Grants = dict
        self.on_event: Callable[[LaneEvent], None] = lambda _: None

    def make(
        self,
        _spark: Any,
        _memory_bytes: int,
        on_event: Callable[[LaneEvent], None],
        grants: Grants,
        _outbox: Outbox,
    ) -> Lanes:
        time.sleep(self.start_s)
        self.on_event, self.grants = on_event, grants
        self.is_made = True
        return self.made

    @property
    def made(self) -> Lanes:
        return cast(Lanes, self)

    @property
    def slots(self) -> int:
        time.sleep(self.slots_s)
        return self.local_slots or 3

    def start(self, count: int) -> None:
        self.add(range(count))

    def add(self, lanes: Iterable[int]) -> None:
        for lane in lanes:
            self.started += 1
            if self.come_up:
                self.on_event(LaneUp(lane, 100 + lane, "here"))

    def assign(
        self,
        lane: int,
        links: Sequence[LinkClusters],
        specs: Sequence[CopySpec],
        *,
        clear_in_s: float,
        pid: int | None,  # noqa: ARG002
    ) -> None:
        self.sent.append((lane, "assign"))
        self.links[lane] = links
        partitions = [spec.partition for spec in specs]
        self._assigned.append((lane, clear_in_s, partitions))
        self.held |= dict.fromkeys(partitions, lane)

    def revoke(self, lane: int, partitions: Sequence[MirrorPartition]) -> None:
        self.sent.append((lane, "revoke"))
        for key in () if self.deaf else partitions:
            del self.held[key]
            self.on_event(LaneRevoked(lane, key, clean=True))

    def grant_attempts(self, lane: int, _attempts: object, *, pid: int) -> None:  # noqa: ARG002
        self.sent.append((lane, "grant_attempts"))

    def stop(self, lane: int) -> None:
        self.sent.append((lane, "stop"))
        self.on_event(LaneTold(lane, self.last_words))
        if not self.deaf:
            self.on_event(LaneGone(lane))

    def assigned(self) -> list[tuple[int, float, list[MirrorPartition]]]:
        """Every assignment so far: the lane, `clear_in_s`, the partitions."""
        return list(self._assigned)

    def leased_until(self, lane: int, link: str) -> float:
        return self.leases.get((lane, link), float("-inf"))

    def abandon(self, lane: int) -> None:
        self.abandoned.append(lane)

    def ask_to_stop(self, count: int) -> None:
        for lane in range(count):
            self.stop(lane)

    def close(self, _timeout_s: float) -> None:
        self.closed.set()


class PlayedGroup:
    """The fenced cells of an election. `fails`: what the next commits end with. `pending`: what was taken from a member
    before, and is not shown before the next commit is."""

    def __init__(self) -> None:
        self.standing: Standing = Placed(term=Term(generation=1, member="me"), claims=Claims())
        self.committed: dict[TopicPartition, Cell] = {}
        self.fails: list[HeliographError] = []
        self.pending: dict[TopicPartition, Cell] = {}
        self.delays_s: list[float] = []  # how long the next commits take

    async def commit(self, cells: Mapping[TopicPartition, Cell]) -> None:
        await asyncio.sleep(self.delays_s.pop(0) if self.delays_s else 0)
        if self.fails:
            raise self.fails.pop(0)
        self.committed |= {**self.pending, **cells}
        self.pending = {}

    async def cells(self) -> dict[TopicPartition, Cell]:
        await asyncio.sleep(0)
        return dict(self.committed)


class FakeDrivership:
    """Elections whose outcome is told: `at_start` by link, or the same of all."""

    def __init__(self, at_start: Role | None = ELECTED) -> None:
        self._at_start = at_start
        self.candidates: Sequence[Candidate] = ()
        self.tell: Callable[[str, Role], None] = lambda _link, _role: None
        self.closed: list[bool] = []  # of each end, whether the group was left
        self.granted: dict[str, float] = {}
        self.removed: list[str] = []
        self.group = PlayedGroup()

    def make(self, candidates: Sequence[Candidate], on_change: Callable[[str, Role], None]) -> Drivership:
        def tell(link: str, role: Role) -> None:
            if isinstance(role, Active):
                self.group.standing = Placed(term=role.terms[0], claims=role.claims)
            on_change(link, role)

        self.candidates, self.tell = candidates, tell
        return cast(Drivership, self)

    def start(self) -> None:
        if self._at_start is not None:
            for each in self.candidates:
                self.tell(each.link, self._at_start)

    def add(self, candidate: Candidate) -> None:
        self.candidates = [*self.candidates, candidate]
        if self._at_start is not None:
            self.tell(candidate.link, self._at_start)

    async def remove(self, link: str) -> None:
        self.removed.append(link)

    def grants(self) -> dict[str, float]:
        return dict(self.granted)

    def claims_group(self, _link: str) -> PlayedGroup:
        return self.group

    async def aclose(self, *, leave: bool = True) -> None:
        self.closed.append(leave)
