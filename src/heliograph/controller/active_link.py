"""A link that is ours, from when it is prepared until it stands down: its clusters are looked at again and again, and
what has changed is acted upon, topic by topic. No partition is touched that is not concerned.

    look: metadata of both clusters ─▶ changes (pure) ─┬─▶ planned anew: observed, created, given to lanes
            ▲                                          └─▶ let go ─▶ deleted, perhaps (topic_deletions.py)
            └── every discovery_interval

    beside it: its topics' configs are kept in step (configs_in_step.py)

Whatever it does can be done again by the next look, or by another run: it writes down nothing of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable

from heliograph.cluster.tool_servers import tool_servers
from heliograph.controller.board import Board
from heliograph.controller.builds import Builds
from heliograph.controller.changes import Absences, begins_anew, changes, is_copied
from heliograph.controller.clusters import Clusters
from heliograph.controller.configs_in_step import ConfigsInStep
from heliograph.controller.half_built import half_built
from heliograph.controller.link_roles import LinkRoles
from heliograph.controller.plan_told import PlanTold
from heliograph.controller.restart import Restart
from heliograph.controller.topic_deletions import TopicDeletions
from heliograph.controller.topic_turns import TopicTurns
from heliograph.model.clock import Clock, clock_of_waits, time_of_day
from heliograph.model.errors import ClusterUnreachable, ProtocolError, RequestFailed
from heliograph.model.events import Event
from heliograph.model.link import Link
from heliograph.model.occurrence import Occurrence
from heliograph.model.outbox import Outbox
from heliograph.model.partition import MirrorPartition
from heliograph.model.policy import OnSourceDelete

# What waits for an operator, or for something that metadata does not show, is planned anew this often: it costs a few
# requests for each topic.
AGAIN_S = 30.0
CONFIRM_S = 5.0  # until a topic that was not seen is looked for once more: lanes give it up after 15 s
TOPICS_AT_ONCE = 100  # the first of many new topics are copied while the others are created


class ActiveLink:
    """`on_planned(link)` is called when partitions are there that were not there before."""

    def __init__(
        self,
        link: str,
        clusters: Clusters,
        roles: LinkRoles,
        board: Board,
        restart: Restart,
        builds: Builds,
        turns: TopicTurns,
        told: PlanTold,
        outbox: Outbox,
        on_planned: Callable[[str], None],
        configs: ConfigsInStep,
        *,
        interval_s: float,
        clock: Clock = clock_of_waits,
        make_deletions: Callable[..., TopicDeletions] = TopicDeletions,
    ) -> None:
        self._name = link
        self._clusters = clusters
        self._roles = roles
        self._board = board
        self._restart = restart
        self._builds = builds
        self._turns = turns
        self._told = told
        self._outbox = outbox
        self._on_planned = on_planned
        self._configs = configs
        self.interval_s = interval_s
        self._matched: Link | None = None  # by whose patterns all of the board is selected
        self._otherwise: set[str] = set()  # topics that are copied otherwise by now
        self._clock = clock
        self._absences = Absences()
        self._deletions = make_deletions(link, clusters, roles, board, turns, outbox, clock=clock)
        self._again_at = clock() + AGAIN_S
        self._trouble: str | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        # Apart, so that nothing new waits for a topic that is being deleted.
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(each) for each in (self._follow(), self._deletions.follow())]
        for task in self._tasks:
            task.add_done_callback(_report)
        self._configs.start()

    @property
    def _link(self) -> Link:
        """As the config has it now."""
        return self._clusters.link(self._name)

    def copy_otherwise(self, topics: Iterable[str]) -> None:
        """The config has another policy for these: their partitions are given to lanes anew, at the next look."""
        self._otherwise |= set(topics)

    def stop(self) -> None:
        """What is under way is dropped: the next holder of the link finds it again."""
        self._configs.stop()
        for task in self._tasks:
            task.cancel()

    async def aclose(self) -> None:
        self.stop()
        await self._configs.aclose()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            soon = self._absences.pending or self._deletions.pending
            await asyncio.sleep(min(self.interval_s, CONFIRM_S) if soon else self.interval_s)
            try:
                await self._look()
            except (ClusterUnreachable, RequestFailed, ProtocolError) as problem:
                self._tell_trouble(problem.message)
            else:
                self._trouble = None

    async def _look(self) -> None:
        now = self._clock()
        again = now >= self._again_at
        if again:
            self._again_at = now + AGAIN_S
        await self._drop_unmatched()
        for topic in self._free(self._otherwise):
            await self._give_anew(topic)
            self._otherwise.discard(topic)
        source, target = await self._clusters.topics(self._name)
        found = changes(self._link, source, target, self._board.by_source_topic(self._name), again=again)
        gone = self._free(self._absences.confirmed(found.gone))
        if gone:
            await self._let_go(await self._clusters.unknown_topics(self._name, gone))
        self._deletions.see(source, target)
        wanted = self._free(found.plan)
        for first in range(0, len(wanted), TOPICS_AT_ONCE):
            await self._plan(wanted[first : first + TOPICS_AT_ONCE])

    async def _drop_unmatched(self) -> None:
        """What the config does not select any more."""
        link = self._link
        if link is not self._matched:
            dropped = {topic for topic in self._board.by_source_topic(self._name) if not link.matches(topic)}
            free = self._free(dropped)
            await self._let_go(free, excluded=True)
            self._matched = link if dropped <= {*free} else None

    def _free(self, topics: Iterable[str]) -> list[str]:
        """Those that nobody works on; the others are looked at again next time."""
        return sorted(t for t in topics if not self._turns.is_taken(self._name, self._link.target_topic(t)))

    # -- planned anew

    async def _plan(self, topics: Collection[str]) -> None:
        async with self._turns.alone(self._name, {self._link.target_topic(topic) for topic in topics}):
            ready = await self._roles.take_again(self._name, topics, as_found=True)
            # From here on nothing is awaited: the board is what it was when this was decided.
            todo, rows = ready.todo, self._board.rows
            keys = {key for key in todo.keys if begins_anew(rows.get(key))}
            refused = [each for each in todo.refusals if each.partition in keys]
            # What was refused before, for whatever reason, was told before.
            self._told.refused(each for each in refused if each.partition not in rows)
            self._told.missing(each for each in todo.awaited if each.partition in keys)
            self._restart.begin(todo, keys, self._roles.ledgers.of(self._name))
        self._on_planned(self._name)

    async def _give_anew(self, topic: str) -> None:
        """What is stopped, paused or built waits for others: they plan it anew."""
        async with self._turns.alone(self._name, [self._link.target_topic(topic)]):
            todo = (await self._roles.take_again(self._name, [topic], as_found=True)).todo
            rows = self._board.rows
            keys = [key for key in todo.keys if key in rows and is_copied(rows[key])]
            await self._restart.take_back(keys)
            self._restart.begin(todo, keys, self._roles.ledgers.of(self._name))

    # -- let go

    async def _let_go(self, topics: Collection[str], *, excluded: bool = False) -> None:
        by_topic = self._board.by_source_topic(self._name)
        for topic in topics:
            keys = [row.partition for row in by_topic.get(topic, ())]
            if not keys:
                continue
            target_topic = keys[0].target_topic
            half = not excluded and any(row.aligning is not None for row in by_topic[topic])
            async with self._turns.alone(self._name, [target_topic]):
                async with self._builds.left_alone(self._name, target_topic):
                    await self._restart.let_go(keys)
                self._roles.let_go(self._name, keys)
            if not excluded:
                self._deletions.let_go(topic)
            self._tell_gone(keys[0], excluded=excluded)
            if half:
                servers = tool_servers(self._clusters.target(self._name).properties)
                words = half_built(self._name, topic, target_topic, servers)
                self._outbox.tell(Event.PLAN_WARNING, words, link=self._name)

    def _tell_gone(self, key: MirrorPartition, *, excluded: bool) -> None:
        deletes = self._link.policy_of(key.source_topic).on_source_delete is OnSourceDelete.DELETE
        becomes = (
            "is deleted, too, once that is certain" if deletes and not excluded else "keeps what was copied"
        )
        why = (
            f"the config does not select topic {key.source_topic} any more"
            if excluded
            else f"cluster {self._link.source!r} has no topic {key.source_topic} any more"
        )
        self._outbox.put(
            Occurrence(
                at=time_of_day(),
                code=Event.TOPIC_GONE,
                message=f"link {key.link}: {why}; topic {key.target_topic} {becomes}",
                link=key.link,
                source_topic=key.source_topic,
                target_topic=key.target_topic,
            )
        )

    def _tell_trouble(self, message: str) -> None:
        """Once, until it was possible again."""
        if self._trouble != message:
            self._trouble = message
            words = f"link {self._name}: whether its topics have changed is not known: {message}"
            self._outbox.tell(Event.CLUSTER_AWAY, words, link=self._name)


def _report(task: asyncio.Task[None]) -> None:
    """A bug: somebody must hear of it."""
    if not task.cancelled() and (problem := task.exception()) is not None:
        context = {"message": "a link is not followed any more", "exception": problem}
        task.get_loop().call_exception_handler(context)
