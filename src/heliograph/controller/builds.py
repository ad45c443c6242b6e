"""Compacted topics whose offsets are all filled: brokers are made to remove the fillers, and the topic becomes like any
other.

    every partition filled ─▶ lanes let go ─▶ the source's cleanup.policy ─▶ no replica holds a filler (cleaning.py)
    ─▶ the source's settings ─▶ planned anew, given to lanes

Each step can be taken again by whoever holds the topic next, by what the settings show (build_settings.py). Only
the holder changes them: its lease is asked for right before each request. Until the end nothing is copied to the topic,
so that nothing but the built part is compacted.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from heliograph.cluster.admin import alter_topic_configs
from heliograph.cluster.client import ClusterClient
from heliograph.controller.board import Board
from heliograph.controller.build_changes import refused_change
from heliograph.controller.build_settings import KEEP_OFF, cleaning_changes, last_changes, phase_of
from heliograph.controller.cleaning import CleanerIdle, CleanerWatch, Cleaning
from heliograph.controller.clusters import Clusters
from heliograph.controller.link_ledger import LinkLedger
from heliograph.controller.link_roles import LinkRoles
from heliograph.controller.plan import Plan, RefusePartition
from heliograph.controller.recorded import NOTHING_RECORDED
from heliograph.controller.restart import Restart
from heliograph.controller.snapshot import LinkSnapshot
from heliograph.controller.verdict import final_configs, refuse_build
from heliograph.model.admission import Refused
from heliograph.model.clock import time_of_day
from heliograph.model.errors import (
    BrokerRefused,
    ClusterUnreachable,
    HeliographError,
    ProtocolError,
    RequestFailed,
)
from heliograph.model.events import Code, Event
from heliograph.model.hints import THEN_RESUME_TOPIC
from heliograph.model.ledger import Row
from heliograph.model.occurrence import Occurrence, of_stop
from heliograph.model.outbox import Outbox
from heliograph.model.partition import MirrorPartition
from heliograph.model.partition_status import PartitionStatus
from heliograph.model.states import BuildPhase, PartitionState, StopReason
from heliograph.wire.error_codes import ErrorCode

T = TypeVar("T")
TRY_AGAIN_S = 2.0
SHOWN_S = 0.2  # until all brokers show settings that were changed

Alter = Callable[[ClusterClient, str, Mapping[str, str | None]], Awaitable[None]]
Topic = tuple[str, str]  # link and target topic


class _SourceGone(HeliographError):
    """Nobody knows any more which settings the topic is to have."""


class Builds:
    """`ready` and `stood_down` tell which links are ours, `report` how their partitions stand."""

    def __init__(
        self,
        clusters: Clusters,
        roles: LinkRoles,
        board: Board,
        restart: Restart,
        outbox: Outbox,
        *,
        alter: Alter | None = None,
        make_cleaning: Callable[..., Cleaning] = Cleaning,
    ) -> None:
        self._clusters = clusters
        self._roles = roles
        self._board = board
        self._restart = restart
        self._outbox = outbox
        self._alter = alter or alter_topic_configs
        self._make_cleaning = make_cleaning
        self._tasks: dict[Topic, asyncio.Task[None]] = {}
        self._left_alone: set[Topic] = set()
        self._watches: defaultdict[str, CleanerWatch] = defaultdict(CleanerWatch)  # by target cluster

    def ready(self, todo: Plan) -> None:
        """A link is ours and prepared: what was begun is ended."""
        self.clean(each.partition for each in todo.cleaning)

    def clean(self, partitions: Iterable[MirrorPartition]) -> None:
        """Brokers have to clean these: their topics, as a whole."""
        for topic in {(key.link, key.target_topic) for key in partitions}:
            self._begin(topic)

    def report(self, row: PartitionStatus) -> None:
        if row.aligning is None or row.aligning.phase != BuildPhase.FILLED:
            return
        topic = (row.partition.link, row.partition.target_topic)
        rows = [self._board.rows[key] for key in self._board.partitions_of(*topic)]
        if rows and all(
            each.aligning is not None and each.aligning.phase == BuildPhase.FILLED for each in rows
        ):
            self._begin(topic)

    @asynccontextmanager
    async def left_alone(self, link: str, target_topic: str) -> AsyncIterator[None]:
        """Meanwhile nothing is done to this topic: it is deleted and made again."""
        topic = (link, target_topic)
        self._left_alone.add(topic)
        try:
            task = self._tasks.pop(topic, None)
            if task is not None:
                task.cancel()
                await asyncio.wait({task})
            yield
        finally:
            self._left_alone.discard(topic)

    def stood_down(self, link: str) -> None:
        """What was begun is for whoever is active now."""
        for topic, task in list(self._tasks.items()):
            if topic[0] == link:
                task.cancel()
                del self._tasks[topic]

    async def aclose(self) -> None:
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, topic: Topic) -> None:
        if topic not in self._tasks and topic not in self._left_alone:
            task = asyncio.get_running_loop().create_task(self._until_built(topic))
            self._tasks[topic] = task
            task.add_done_callback(_report)

    async def _until_built(self, topic: Topic) -> None:
        """What is stopped or paused stays so; its topic is cleaned all the same."""
        keys = self._board.partitions_of(*topic)
        link, source_topic = keys[0].link, keys[0].source_topic
        try:
            await self._restart.put_to_cleaning(key for key in keys if not self._restart.is_idle(key))
            why = await self._clean(keys)
            if why is not None:
                self._stop(self._cleaned(keys), why)
                return
            todo = (await self._again(lambda: self._roles.take_again(link, [source_topic]), keys[0])).todo
        finally:
            if self._tasks.get(topic) is asyncio.current_task():
                del self._tasks[topic]
        # Last: by this plan the topic may have to be cleaned once more.
        self._restart.begin(todo, self._cleaned(keys), self._roles.ledgers.of(link))

    def _cleaned(self, keys: Iterable[MirrorPartition]) -> list[MirrorPartition]:
        return [key for key in keys if self._board.rows[key].state is PartitionState.ALIGNING]

    async def _clean(self, keys: Sequence[MirrorPartition]) -> Refused | None:
        """None: it is built; or it is not what it was, and a new plan knows more."""
        link, source_topic, topic = keys[0].link, keys[0].source_topic, keys[0].target_topic
        client = self._clusters.target(link)
        began = time_of_day()
        try:
            snapshot = await self._again(lambda: self._observe(keys[0]), keys[0])
            target = snapshot.targets.get(topic)
            phase = phase_of(target.config.own) if target is not None else None
            if target is None or phase is None:
                return None
            watch = self._watches[self._clusters.link(link).target]
            cleaning = self._make_cleaning(client, topic, target.topic_id, len(keys), watch)
            if phase is BuildPhase.FILLING:
                why = refuse_build(snapshot, snapshot.sources[0])
                if why is not None:
                    return why
                await self._again(cleaning.prepare, keys[0])
                words = f"all offsets are filled; brokers remove the fillers now: {KEEP_OFF}"
                self._tell(Event.TOPIC_FILLED, keys[0], words)
                if not await self._change(
                    keys[0], target.topic_id, (BuildPhase.FILLING, BuildPhase.CLEANING), cleaning_changes
                ):
                    return None
            if not await self._again(lambda: self._look(keys, target.topic_id, cleaning), keys[0]):
                return None
            if not await self._change(keys[0], target.topic_id, (BuildPhase.CLEANING, None), last_changes):
                return None
        except (CleanerIdle, _SourceGone) as why_not:
            hint = why_not.hint + THEN_RESUME_TOPIC
            return Refused(reason=StopReason.BUILD, message=why_not.message, hint=hint)
        except BrokerRefused as refused:
            return refused_change(client, topic, refused)
        seconds = (time_of_day() - began).total_seconds()
        self._tell(
            Event.TOPIC_BUILT,
            keys[0],
            f"it is clean on every replica after {seconds:.0f} s, and like {source_topic}",
        )
        return None

    async def _look(self, keys: Sequence[MirrorPartition], topic_id: str, cleaning: Cleaning) -> bool:
        """Until it is clean. False: it is another topic by now, or gone."""
        target = (await self._observe(keys[0])).targets.get(keys[0].target_topic)
        if target is None or target.topic_id != topic_id:
            return False
        return await cleaning.until_clean(
            lambda partition, clean: self._show(keys, partition, clean), lambda words: self._wait(keys, words)
        )

    def _wait(self, keys: Sequence[MirrorPartition], words: str | None) -> None:
        self._board.waits_for_brokers(keys, words)
        if words is not None:
            self._tell(Event.NOT_CLEANED, keys[0], words)

    async def _change(
        self,
        key: MirrorPartition,
        topic_id: str,
        phases: tuple[BuildPhase, BuildPhase | None],
        changes: Callable[[Mapping[str, str]], Mapping[str, str | None]],
    ) -> bool:
        """From one phase to the other, as the topic's holder only. On return brokers show it: nothing is planned by the
        former settings. False: it is another topic by now, or somebody else has changed its settings."""
        before, after = phases

        async def change() -> bool:
            while True:
                snapshot = await self._observe(key)
                target = snapshot.targets.get(key.target_topic)
                if target is None or target.topic_id != topic_id:
                    return False
                phase = phase_of(target.config.own)
                if phase is not before:
                    return phase is after
                if not self._roles.holds(key.link):
                    raise ClusterUnreachable(f"the run's lease of link {key.link} is over")
                ledger = self._roles.ledgers.of(key.link)
                recorded = ledger.recorded if ledger is not None else NOTHING_RECORDED
                wanted = changes(final_configs(snapshot, snapshot.sources[0], recorded))
                if ledger is not None and after is None and snapshot.link.topic_configs.sync:
                    ledger.record(_followed_from_now_on(ledger, key.target_topic, wanted))
                await self._alter(self._clusters.target(key.link), key.target_topic, wanted)
                await asyncio.sleep(SHOWN_S)

        return await self._again(change, key)

    async def _observe(self, key: MirrorPartition) -> LinkSnapshot:
        snapshot = await self._clusters.observe_link(key.link, [key.source_topic])
        if not snapshot.sources:
            words = f"the source has no topic {key.source_topic} any more: its settings are not known"
            raise _SourceGone(words, hint=f"exclude topic {key.source_topic}, or create it again")
        for target in snapshot.targets.values():
            if target.config.problem is not None:  # they tell nothing of how far it is
                raise ClusterUnreachable(target.config.problem)
        return snapshot

    async def _again(self, do: Callable[[], Awaitable[T]], key: MirrorPartition) -> T:
        """Until the cluster has answered; what it refuses for good is raised."""
        while True:
            try:
                return await do()
            except (ClusterUnreachable, RequestFailed, ProtocolError) as problem:
                if isinstance(problem, BrokerRefused) and not ErrorCode.passes(problem.code):
                    raise
                words = f"link {key.link}: topic {key.target_topic} waits to be built: {problem.message}"
                self._outbox.tell(Event.CLUSTER_AWAY, words, link=key.link)
                await asyncio.sleep(TRY_AGAIN_S)

    def _show(self, keys: Iterable[MirrorPartition], partition: int, replicas_clean: int) -> None:
        for key in keys:
            if key.partition == partition:
                self._board.cleaned(key, replicas_clean)

    def _stop(self, keys: Iterable[MirrorPartition], why: Refused) -> None:
        refusals = [RefusePartition(partition=key, why=why) for key in keys]
        self._restart.refuse(refusals)
        for each in refusals:
            self._outbox.put(of_stop(each.partition, why.as_stop(), time_of_day()))

    def _tell(self, code: Code, key: MirrorPartition, message: str) -> None:
        self._outbox.put(
            Occurrence(
                at=time_of_day(),
                code=code,
                message=f"link {key.link}: topic {key.target_topic}: {message}",
                link=key.link,
                source_topic=key.source_topic,
                target_topic=key.target_topic,
            )
        )


def _followed_from_now_on(ledger: LinkLedger, topic: str, changes: Mapping[str, str | None]) -> list[Row]:
    """Of what it is given in the end, all that nobody had set by hand follows the source."""
    by_hand = ledger.recorded.set_by_hand(topic)
    ours = {name: value for name, value in changes.items() if name not in by_hand}
    return ledger.of_followed(topic, ledger.recorded.followed(topic).about_to(ours))


def _report(task: asyncio.Task[None]) -> None:
    """A bug: somebody must hear of it."""
    if not task.cancelled() and (problem := task.exception()) is not None:
        context = {"message": "a topic could not be built", "exception": problem}
        task.get_loop().call_exception_handler(context)
