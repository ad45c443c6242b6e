"""What operators want is carried out: partitions are paused and resumed, topics mirrored anew (remirror.py).

    command ─▶ whose topic is it? ─▶ a task for each topic, one command after the other ─▶ answer, in the ledger

Commands come through the target's ledger, also those that were written while no run was there. Only the run that holds
a topic carries them out. Each is answered there, and one that is answered is not carried out again. What would destroy
more than the operator was shown is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from heliograph.controller.board import Board
from heliograph.controller.clusters import Clusters
from heliograph.controller.link_ledger import LinkLedger
from heliograph.controller.link_roles import LinkRoles
from heliograph.controller.recorded_plan import paused_words
from heliograph.controller.remirror import Remirror
from heliograph.controller.restart import Restart
from heliograph.controller.topic_turns import TopicTurns
from heliograph.model.clock import time_of_day
from heliograph.model.command import Command, Outcome, Wish
from heliograph.model.errors import BrokerRefused, ClusterUnreachable, ProtocolError, RequestFailed
from heliograph.model.events import Event
from heliograph.model.hints import ACCEPT_LOSS, hint_for
from heliograph.model.ledger import Row, RowKind
from heliograph.model.occurrence import Occurrence
from heliograph.model.outbox import Outbox
from heliograph.model.partition import MirrorPartition, TopicPartition
from heliograph.model.states import CONDITIONS, PartitionState, StopReason
from heliograph.wire.error_codes import ErrorCode

TRY_AGAIN_S = 2.0
TOPICS_AT_ONCE = 4  # each is observed and planned anew


@dataclass(frozen=True, slots=True)
class _Refusal:
    message: str
    hint: str = ""


class Commands:
    """`ready` and `stood_down` tell which links are ours."""

    def __init__(
        self,
        clusters: Clusters,
        roles: LinkRoles,
        board: Board,
        restart: Restart,
        remirror: Remirror,
        turns: TopicTurns,
        outbox: Outbox,
    ) -> None:
        self._clusters = clusters
        self._roles = roles
        self._board = board
        self._restart = restart
        self._remirror = remirror
        self._turns = turns
        self._outbox = outbox
        self._waiting: dict[tuple[str, str], list[Command]] = {}  # by link and target topic
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._links: set[str] = set()
        self._few = asyncio.Semaphore(TOPICS_AT_ONCE)

    def ready(self, link: str) -> None:
        """The link is ours and prepared: what was wanted while nobody could do it is done now."""
        self._links.add(link)
        self.look_again(link)

    def look_again(self, link: str) -> None:
        """There are partitions that were not there before: something may be wanted of them already."""
        ledger = self._roles.ledgers.of(link)
        if ledger is None:
            return
        for command in ledger.recorded.commands():
            self.take(command)

    @property
    def busy(self) -> bool:
        """Something that was wanted is not done yet."""
        return bool(self._tasks)

    def stood_down(self, link: str) -> None:
        """What was begun is for whoever is active now."""
        self._links.discard(link)
        for (of, topic), task in list(self._tasks.items()):
            if of == link:
                task.cancel()
                del self._tasks[of, topic]
                self._waiting.pop((of, topic), None)

    async def aclose(self) -> None:
        tasks = list(self._tasks.values())
        for link in list(self._links):
            self.stood_down(link)
        await asyncio.gather(*tasks, return_exceptions=True)

    def take(self, command: Command) -> None:
        """Whether it is ours, and not answered yet, is looked at here."""
        subject = command.subject
        for link in self._links:
            ledger = self._roles.ledgers.of(link)
            if ledger is None or ledger.recorded.source_cluster_id != subject.source_cluster_id:
                continue
            if ledger.recorded.unanswered(command) and self._keys(link, subject.target_topic):
                self._waiting.setdefault((link, subject.target_topic), []).append(command)
                self._work(link, subject.target_topic, ledger)
                return

    def _keys(self, link: str, topic: str) -> list[MirrorPartition]:
        rows = self._board.rows
        return [key for key in self._board.partitions_of(link, topic) if rows[key].held_by is None]

    def _work(self, link: str, topic: str, ledger: LinkLedger) -> None:
        if (link, topic) not in self._tasks:
            task = asyncio.get_running_loop().create_task(self._carry_out(link, topic, ledger))
            self._tasks[link, topic] = task
            task.add_done_callback(_report)

    async def _carry_out(self, link: str, topic: str, ledger: LinkLedger) -> None:
        """All that is wanted of one topic, in turn."""
        try:
            while commands := self._waiting.pop((link, topic), []):
                async with self._turns.alone(link, [topic]):
                    await self._until_done(link, topic, ledger, commands)
        finally:
            if self._tasks.get((link, topic)) is asyncio.current_task():
                del self._tasks[link, topic]

    async def _until_done(
        self, link: str, topic: str, ledger: LinkLedger, commands: Sequence[Command]
    ) -> None:
        while True:
            # Of several about one partition that came together the last counts: a pause behind a resume, say.
            unanswered = [
                each for each in commands if ledger.recorded.counts(each) and ledger.recorded.unanswered(each)
            ]
            try:
                async with self._few:
                    await self._clusters.refresh_target(link)
                    await self._pause(link, ledger, [each for each in unanswered if each.wish is Wish.PAUSE])
                    await self._resume(
                        link, ledger, [each for each in unanswered if each.wish is Wish.RESUME]
                    )
                for command in unanswered:
                    if command.wish is Wish.REMIRROR:
                        await self._remirror(ledger, command, self._keys(link, topic))
                return
            except (ClusterUnreachable, RequestFailed, ProtocolError) as problem:
                if isinstance(problem, BrokerRefused) and not ErrorCode.passes(problem.code):
                    words = (
                        f"link {link}: a command about topic {topic} cannot be carried out: {problem.message}"
                    )
                    self._outbox.tell(Event.COMMAND, words, hint=problem.hint or None, link=link)
                    return
                words = f"link {link}: a command about topic {topic} waits: {problem.message}"
                self._outbox.tell(Event.CLUSTER_AWAY, words, link=link)
                await asyncio.sleep(TRY_AGAIN_S)

    # -- pause

    async def _pause(self, link: str, ledger: LinkLedger, commands: Sequence[Command]) -> None:
        by_key = self._by_key(link, commands)
        refused = {
            key: why
            for key, each in by_key.items()
            if (why := self._other_topic(ledger, key, each)) is not None
        }
        await self._refuse(ledger, by_key, refused)
        by_key = {key: each for key, each in by_key.items() if key not in refused}
        stopped = {key for key in by_key if self._restart.state(key) is PartitionState.STOPPED}
        running = [key for key in by_key if key not in stopped]
        await self._restart.put_aside({key: paused_words(by_key[key]) for key in running})
        for key in running:
            self._tell(Event.PAUSED, key, f"{key} is paused by {by_key[key].author}")
        await ledger.write(
            [
                ledger.of_answer(
                    command, Outcome.APPLIED, "it is stopped, and stays so" if key in stopped else "paused"
                )
                for key, command in by_key.items()
            ]
        )

    # -- resume

    async def _resume(self, link: str, ledger: LinkLedger, commands: Sequence[Command]) -> None:
        by_key = self._by_key(link, commands)
        starts = await self._source_starts(link, by_key)
        refused = {
            key: why
            for key, each in by_key.items()
            if (why := self._refusal(ledger, key, each) or _loses_more(each, key, starts.get(key)))
        }
        await self._refuse(ledger, by_key, refused)
        wanted = {key: each for key, each in by_key.items() if key not in refused}
        idle = {key: each for key, each in wanted.items() if self._restart.is_idle(key)}
        if idle:
            await self._begin_again(link, ledger, idle)
        await ledger.write(
            [
                ledger.of_answer(each, Outcome.APPLIED, "it is neither stopped nor paused")
                for key, each in wanted.items()
                if key not in idle
            ]
        )

    async def _source_starts(
        self, link: str, commands: Mapping[MirrorPartition, Command]
    ) -> dict[MirrorPartition, int]:
        """Of partitions whose loss is accepted: it may have grown since it was shown."""
        topics = {key.source_topic for key, each in commands.items() if each.loses}
        if not topics:
            return {}
        snapshot = await self._clusters.observe_link(link, topics)
        sights = {
            (topic.name, number): sight
            for topic in snapshot.sources
            for number, sight in topic.partitions.items()
        }
        found = {key: sights.get((key.source_topic, key.partition)) for key in commands}
        return {key: sight.source.start for key, sight in found.items() if sight and sight.source}

    async def _refuse(
        self,
        ledger: LinkLedger,
        commands: Mapping[MirrorPartition, Command],
        refused: Mapping[MirrorPartition, _Refusal],
    ) -> None:
        await ledger.write(
            [ledger.of_answer(commands[key], Outcome.REFUSED, *_words(why)) for key, why in refused.items()]
        )
        for key, why in refused.items():
            self._tell(Event.COMMAND, key, f"{key}: {commands[key].wish} is refused: {why.message}")

    def _other_topic(self, ledger: LinkLedger, key: MirrorPartition, command: Command) -> _Refusal | None:
        """The topic that was shown to the operator is not the one that is there."""
        now_id = ledger.target_id(key.target_topic)
        if not command.target_topic_id or not now_id or command.target_topic_id == now_id:
            return None
        return _Refusal(
            f"topic {key.target_topic} was deleted and created again since it was shown (id {now_id}, was"
            f" {command.target_topic_id})",
            "look at it again: heliograph topics list",
        )

    def _refusal(self, ledger: LinkLedger, key: MirrorPartition, command: Command) -> _Refusal | None:
        """Why this would not do what the operator was shown."""
        other = self._other_topic(ledger, key, command)
        if other is not None:
            return other
        row = self._board.rows[key]
        if row.state is not PartitionState.STOPPED or row.reason is None:
            return None
        # What every plan finds anew may be resumed unseen: it stops again as long as its cause lasts.
        if command.stop == row.reason or (command.stop is None and row.reason in CONDITIONS):
            return None
        return _Refusal(
            f"it is stopped for another reason than was shown: {row.reason} ({row.error})",
            "look at it again: heliograph topics list",
        )

    async def _begin_again(
        self, link: str, ledger: LinkLedger, commands: dict[MirrorPartition, Command]
    ) -> None:
        rows: list[Row] = []
        for key, command in commands.items():
            rows += ledger.removed(key.target, RowKind.STOP)
            lost = command.loses.get(key.partition)
            rows += [ledger.of_loss(key.target, lost, command.author)] if lost is not None else []
        rows += _accepted_topics(ledger, commands)
        await ledger.write(rows)
        await self._restart.take_back(commands)
        todo = (await self._roles.take_again(link, {key.source_topic for key in commands})).todo
        refused = self._restart.begin(todo, commands, ledger)
        awaited = {each.partition: each for each in todo.awaited}
        answers = []
        for key, command in commands.items():
            why = refused.get(key)
            if why is None and key in awaited:
                waits = awaited[key]
                answers.append(
                    ledger.of_answer(command, Outcome.APPLIED, f"it waits: {waits.why}", waits.command or "")
                )
            elif why is None:
                self._tell(Event.RESUMED, key, f"{key} is resumed by {command.author}")
                answers.append(ledger.of_answer(command, Outcome.APPLIED, "resumed"))
            else:
                answers.append(
                    ledger.of_answer(command, Outcome.REFUSED, why.message, hint_for(key, why.hint))
                )
        await ledger.write(answers)

    # -- inside

    def _by_key(self, link: str, commands: Iterable[Command]) -> dict[MirrorPartition, Command]:
        """The last about each partition of ours."""
        topics = {command.subject.target_topic for command in commands}
        keys = {key.target: key for topic in topics for key in self._keys(link, topic)}
        wheres = {
            TopicPartition(each.subject.target_topic, each.subject.partition): each for each in commands
        }
        return {keys[where]: each for where, each in wheres.items() if where in keys}

    def _tell(self, code: Event, key: MirrorPartition, message: str) -> None:
        self._outbox.put(Occurrence(at=time_of_day(), code=code, message=message, **key._asdict()))


def _accepted_topics(ledger: LinkLedger, commands: Mapping[MirrorPartition, Command]) -> list[Row]:
    """A target topic that somebody has made again is the one that is mirrored to, now that an operator says so who was
    shown that."""
    recorded = ledger.recorded
    shown = [key for key, command in commands.items() if command.stop == StopReason.RECREATED]
    pairs = {(key.target_topic, key.source_topic) for key in shown}
    return [
        ledger.of_topic(target, source, recorded.source_topic_id(target))
        for target, source in sorted(pairs)
        if (now_id := ledger.target_id(target)) and recorded.target_topic_id(target) not in ("", now_id)
    ]


def _loses_more(command: Command, key: MirrorPartition, source_start: int | None) -> _Refusal | None:
    shown = command.loses.get(key.partition)
    if shown is None or source_start is None or source_start <= shown[1]:
        return None
    return _Refusal(
        f"more is lost by now than was shown: the source starts at {source_start}, and offsets"
        f" [{shown[0]}, {shown[1]}) were accepted",
        hint_for(key, ACCEPT_LOSS),
    )


def _words(why: _Refusal) -> tuple[str, str]:
    return why.message, why.hint


def _report(task: asyncio.Task[None]) -> None:
    """A bug: somebody must hear of it."""
    if not task.cancelled() and (problem := task.exception()) is not None:
        context = {"message": "a command could not be carried out", "exception": problem}
        task.get_loop().call_exception_handler(context)
