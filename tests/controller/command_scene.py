"""A link that is ours, with lanes, board and ledger, and an operator who writes commands: played clusters and lanes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Self, cast

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.config_reads import Configs
from heliograph.cluster.metadata import ClusterMetadata
from heliograph.cluster.properties import parse_properties
from heliograph.controller.act import Made
from heliograph.controller.board import Board
from heliograph.controller.builds import Builds
from heliograph.controller.cleaning import CleanerIdle, Cleaning, Shown, Waits
from heliograph.controller.commands import Commands
from heliograph.controller.lane_keeper import LaneKeeper
from heliograph.controller.ledger import Ledger
from heliograph.controller.ledger_word import Answer
from heliograph.controller.link_ledger import LinkLedger
from heliograph.controller.link_roles import Commanded, LinkRoles, Prepared, RoleEvent, StoodDown
from heliograph.controller.plan import AddPartitions, CreateTopic, RefusePartition
from heliograph.controller.recorded import Recorded
from heliograph.controller.remirror import Remirror
from heliograph.controller.restart import Restart
from heliograph.controller.snapshot import LinkSnapshot, PartitionSight
from heliograph.controller.topic_turns import TopicTurns
from heliograph.engine.lanes import LaneEvent, LaneRevoked, LaneUp
from heliograph.model.admission import Refused
from heliograph.model.clock import clock_of_waits, time_of_day
from heliograph.model.command import Command, Outcome, Subject, Wish
from heliograph.model.errors import HeliographError
from heliograph.model.ledger import LEDGER_TOPIC, WHOLE_TOPIC, Row, RowKind, decode_row
from heliograph.model.outbox import Outbox
from heliograph.model.partition import MirrorPartition
from heliograph.model.states import PartitionState, StopReason

from .observed import (
    LINK,
    NYC_ID,
    SF_ID,
    config,
    metadata_of,
    mirrored_sight,
    partition,
    snapshot,
    source_topic,
    span,
    target_topic,
)
from .played import ELECTED, ENDS, FakeClusters, FakeDrivership, FakeLanes
from .source_fake import Source

NAME, TOPIC = LINK.name, "orders"
# Configs that brokers on both sides know, with their defaults.
KNOWN: Mapping[str, Any] = {"segment_ms": "1", "retention_ms": "2", "flush_ms": "3"}
FIRST, SECOND, SOURCE_TOPIC_ID = "id of the first", "id of the second", "id of the source topic"
SOON_S = 5.0


class PlayedTopic(FakeClusters):
    """One topic on both sides. `topic_id`: of the target's, empty while there is none. `steps`: what was done to it, in
    order. `fails`: what the next deletions or creations end with."""

    def __init__(self, sights: Sequence[PartitionSight]) -> None:
        super().__init__()
        self.sights = list(sights)
        self.topic_id, self.source_topic_id = FIRST, SOURCE_TOPIC_ID
        self.own: dict[str, str] = {}
        self.steps: list[str] = []
        self.created: list[CreateTopic] = []
        self.fails: list[HeliographError] = []
        self.away: list[HeliographError] = []  # what the next looks at metadata end with
        self.has_source = True
        self.hidden = False  # the source has the topic, and this client may not see it any more
        self.looked = 0  # how often metadata was read
        self.absent_for = 0  # how many of the next looks at metadata show no topic
        self.there: int | None = None  # partitions of the target topic; None: as many as the source has
        self.played_link = LINK
        self.source_own: dict[str, str] = {}
        self.altered: list[Mapping[str, str | None]] = []  # changes of configs
        self.configs_read = 0  # how often those of both topics were read
        self.unread: list[HeliographError] = []  # what the next readings of configs end with
        self.lags = 0  # how many looks still show the configs as they were before the last change
        self._former: dict[str, str] = {}
        self.creation_code = 0  # what a broker says of creating it
        self.appears = ""  # the id of a topic that somebody else creates right behind a deletion

    async def _look(self) -> LinkSnapshot:
        self.observations += 1
        await self._step("observe")
        sights = self.sights if self.topic_id == FIRST else [self._new(sight) for sight in self.sights]
        own = self.source_own
        source = source_topic(TOPIC, sights, topic_id=self.source_topic_id, config=config(own, **own))
        shown = self._former if self.lags else self.own
        self.lags = max(self.lags - 1, 0)
        target = target_topic(TOPIC, self._there, topic_id=self.topic_id, own=shown)
        sources = [source] if self.has_source else []
        return snapshot(*sources, link=self.played_link, targets=[target] if self.topic_id else [])

    @property
    def _there(self) -> int:
        return len(self.sights) if self.there is None else self.there

    async def topics(self, _name: str) -> tuple[ClusterMetadata, ClusterMetadata]:
        await asyncio.sleep(0)
        if self.away:
            raise self.away.pop(0)
        self.looked += 1
        if self.absent_for:
            self.absent_for -= 1
            return metadata_of({}), metadata_of({})
        source = {TOPIC: len(self.sights)} if self.has_source else {}
        return metadata_of(source), metadata_of({TOPIC: self._there} if self.topic_id else {})

    async def unknown_topics(self, _name: str, topics: Collection[str]) -> frozenset[str]:
        return frozenset() if self.hidden else frozenset(topics)

    def id_of_source(self, _link: str, _topic: str) -> str:
        return self.source_topic_id

    async def configs_again(self, _name: str, topics: Collection[str]) -> tuple[Configs, Configs]:
        """As the brokers show them now."""
        await asyncio.sleep(0)
        if self.unread:
            raise self.unread.pop(0)
        self.configs_read += 1
        source = {TOPIC: config(self.source_own, **KNOWN)} if self.has_source else {}
        target = {TOPIC: config(self.own, **KNOWN)} if self.topic_id else {}
        return (source, target) if TOPIC in topics else ({}, {})

    async def grow(self, _client: ClusterClient, growth: AddPartitions) -> bool:
        await asyncio.sleep(0)
        if self.fails:
            raise self.fails.pop(0)
        self.steps.append(f"{growth.to} partitions")
        self.there = None
        return True

    def _new(self, sight: PartitionSight) -> PartitionSight:
        there = span(0, 0) if self.topic_id else None
        return PartitionSight(source=sight.source, source_end=sight.source_end, target=there)

    def source(self, link: str) -> ClusterClient:  # noqa: ARG002
        return cast(ClusterClient, Source(led=False))

    def target(self, link: str) -> ClusterClient:  # noqa: ARG002
        async def read_metadata(_topics: Sequence[str]) -> Any:
            return SimpleNamespace(topic_id=lambda _topic: self.topic_id)

        properties = parse_properties({"bootstrap.servers": "nyc:9092"})
        return cast(ClusterClient, SimpleNamespace(read_metadata=read_metadata, properties=properties))

    def target_topic_id(self, _link: str, _topic: str) -> str:
        return self.topic_id

    async def refresh_target(self, _link: str) -> None:
        await asyncio.sleep(0)
        if self.away:
            raise self.away.pop(0)

    async def delete(self, _client: ClusterClient, topic_id: str) -> None:
        await asyncio.sleep(0)
        if self.fails:
            raise self.fails.pop(0)
        self.steps.append(f"deleted {topic_id}")
        if topic_id == self.topic_id:
            self.topic_id, self.own = self.appears, {}

    async def alter(self, _client: ClusterClient, _topic: str, changes: Mapping[str, str | None]) -> None:
        await asyncio.sleep(0)
        if self.fails:
            raise self.fails.pop(0)
        self.altered.append(changes)
        self._former = self.own
        both = {**self.own, **changes}
        self.own = {key: value for key, value in both.items() if value is not None}

    async def may_create(
        self, _client: ClusterClient, shapes: Mapping[str, Any]
    ) -> dict[str, tuple[int, str]]:
        return dict.fromkeys(shapes, (self.creation_code, "in the broker's words"))

    async def create(self, _client: ClusterClient, creation: CreateTopic) -> Made:
        await asyncio.sleep(0)
        if self.fails:
            raise self.fails.pop(0)
        self.created.append(creation)
        new = not self.topic_id
        if new:
            self.steps.append("created")
            times = self.steps.count("created")
            self.topic_id = SECOND if times == 1 else f"id of the second, made again {times - 1} times"
            self.own = dict(creation.shape.configs)
        return Made(new=new)


class PlayedCleaning:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    async def prepare(self) -> None:
        await asyncio.sleep(0)

    async def until_clean(self, show: Shown, waits: Waits) -> bool:
        show(0, 1)
        waits(self._scene.waits_for)
        if self._scene.idle:
            raise self._scene.idle.pop(0)
        await self._scene.cleaned.wait()
        return True


class Scene:
    """`async with` it: the link is ours and prepared then, unless told otherwise."""

    def __init__(self, *sights: PartitionSight, topic: PlayedTopic | None = None, elect: bool = True) -> None:
        self.topic = topic or PlayedTopic(sights or [mirrored_sight(source_end=9, target_end=5)] * 2)
        self.outbox = Outbox()
        self.drivership = FakeDrivership(at_start=None)
        self.drivership.granted = {NAME: 5.0}
        self.board = Board([], [])
        self.lanes = FakeLanes()
        self.lanes.on_event = self._of_lane
        self.roles = LinkRoles(
            self.topic.made, {NAME: (SF_ID, NYC_ID)}, self._of_role, self.outbox, self.drivership.make
        )
        self.keeper = LaneKeeper(
            self.lanes.made, self.board, [ENDS], {NAME: 30.0}, self.outbox, count=1, now=clock_of_waits()
        )
        self.restart = Restart(self.board, self.keeper, lambda keys: self.builds.clean(keys))
        self.cleaned = asyncio.Event()  # brokers have removed all fillers
        self.idle: list[CleanerIdle] = []  # what the next waits for that end with
        self.waits_for: str | None = None
        self.builds = Builds(
            self.topic.made,
            self.roles,
            self.board,
            self.restart,
            self.outbox,
            alter=self.topic.alter,
            make_cleaning=lambda *_: cast(Cleaning, PlayedCleaning(self)),
        )
        self.clear_in_s = 0.0
        self.remirror = Remirror(
            self.topic.made,
            self.roles,
            self.restart,
            self.builds,
            lambda _key: self.clear_in_s,
            self.outbox,
            delete=self.topic.delete,
            create=self.topic.create,
            may_create=self.topic.may_create,
        )
        self.turns = TopicTurns()
        self.commands = Commands(
            self.topic.made, self.roles, self.board, self.restart, self.remirror, self.turns, self.outbox
        )
        self.operator = Ledger(self.topic.logs)
        self._elect = elect
        self._settling: asyncio.Task[None] | None = None

    # -- what a run does with events

    def _of_role(self, event: RoleEvent) -> None:
        match event:
            case Prepared(link, todo):
                others = (todo.left, todo.awaited, todo.paused, todo.cleaning)
                self.board.adopt(link, todo.copies, todo.refusals, *others)
                self.keeper.adopt(link, todo.copies, clock_of_waits())
                self.roles.grant(link)
                self.commands.ready(link)
                self.builds.ready(todo)
            case StoodDown(link):
                self.commands.stood_down(link)
                self.builds.stood_down(link)
                self.keeper.drop(link)
            case Commanded(command):
                self.commands.take(command)

    def _of_lane(self, event: LaneEvent) -> None:
        if isinstance(event, LaneRevoked):
            self.keeper.revoked(event, clock_of_waits())

    async def _settle(self) -> None:
        while True:
            self.keeper.settle(clock_of_waits())
            await asyncio.sleep(0.002)

    async def __aenter__(self) -> Self:
        await self.operator.open()
        self.keeper.up(LaneUp(0, 100, "here"), clock_of_waits())
        self._settling = asyncio.create_task(self._settle())
        self.roles.start()
        if self._elect:
            self.drivership.tell(NAME, ELECTED)
            await self.until(lambda: NAME in self.roles._granted)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._settling is not None
        await self.commands.aclose()
        await self.builds.aclose()
        await self.roles.aclose()
        self._settling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._settling

    # -- what tests do and see

    async def until(self, is_so: Any) -> None:
        async with asyncio.timeout(SOON_S):
            while not is_so():  # noqa: ASYNC110 - states are no events
                await asyncio.sleep(0.002)

    def command(self, wish: Wish, number: int = 0, **changed: Any) -> Command:
        where = WHOLE_TOPIC if wish is Wish.REMIRROR else number
        subject = Subject(source_cluster_id=SF_ID, target_topic=TOPIC, partition=where)
        made = Command(
            id=f"{wish} {number}",
            wish=wish,
            subject=subject,
            at=time_of_day(),
            author="ann@desk",
            target_topic_id=FIRST,
        )
        return replace(made, **changed)

    async def wish(self, wish: Wish, number: int = 0, **changed: Any) -> Command:
        command = self.command(wish, number, **changed)
        await self.operator.command([command])
        return command

    async def done(self, command: Command) -> Answer:
        """The last word on it."""
        recorded = Recorded(self.operator.state, self.operator.commands, SF_ID)
        async with asyncio.timeout(SOON_S):
            while True:
                await self.operator.catch_up()
                answer = recorded.answer(command)
                if answer is not None and answer.outcome is not Outcome.UNDER_WAY:
                    return answer
                await asyncio.sleep(0.002)

    async def wished(self, wish: Wish, number: int = 0, **changed: Any) -> Answer:
        return await self.done(await self.wish(wish, number, **changed))

    def rows(self, kind: RowKind) -> list[Row]:
        """All that were ever written, in order."""
        records = self.topic.logs.logs[LEDGER_TOPIC].records
        rows = [decode_row(record.key or b"", record.value) for record in records]
        return [row for row in rows if row is not None and row.name.kind is kind]

    def state(self, number: int = 0) -> PartitionState:
        return self.board.rows[partition(number)].state

    def is_held(self, number: int = 0) -> bool:
        """By a lane."""
        return partition(number) in self.lanes.held

    @property
    def ledger(self) -> LinkLedger:
        ledger = self.roles.ledgers.of(NAME)
        assert ledger is not None
        return ledger

    async def stop(self, number: int = 0, reason: StopReason = StopReason.FOREIGN) -> None:
        """As a lane's word, written down."""
        key = partition(number)
        why = Refused(reason=reason, message="why", hint="do")
        self.board.adopt_again(refusals=[RefusePartition(partition=key, why=why)])
        await self.ledger.write([self.ledger.of_stop(key, why)])


def keys(count: int = 2) -> list[MirrorPartition]:
    return [partition(number) for number in range(count)]
