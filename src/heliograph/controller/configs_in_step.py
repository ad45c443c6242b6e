"""Topic configs of a link that is ours, kept in step with the source's, a portion of its topics at a time.

    read both sides ─▶ verdict (pure) ─┬─▶ in step: written down which values are the mirror's
          ▲                            ├─▶ drift: told, and kept
          └── every discovery_interval └─▶ to change: written down ─▶ changed ─▶ seen by the next look

Must not hold up anything: what cannot be read or changed is told, and records are copied all the same. One change at a
time is made of a topic, by who has the topic for himself (topic_turns.py) and while the link is ours.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any

from heliograph.cluster.admin import TopicConfig, alter_topic_configs, in_portions
from heliograph.cluster.at_most import at_most
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.tool_servers import tool_servers
from heliograph.controller.board import Board
from heliograph.controller.clusters import Clusters
from heliograph.controller.config_refusals import RefusedConfigs, not_known, refused_by
from heliograph.controller.config_verdict import ConfigFacts, ConfigVerdict, Drift, judge_configs
from heliograph.controller.configs_told import ConfigsTold
from heliograph.controller.followed_configs import NONE_FOLLOWED, Followed
from heliograph.controller.link_roles import LinkRoles
from heliograph.controller.topic_turns import TopicTurns
from heliograph.model.clock import Clock, clock_of_waits
from heliograph.model.errors import BrokerRefused, ClusterUnreachable, ProtocolError, RequestFailed
from heliograph.model.partition_status import PartitionStatus
from heliograph.model.states import OTHER_RECORDS, PartitionState
from heliograph.wire.error_codes import ErrorCode

ROUND_S = 10.0  # in which all topics are looked at, where one portion a look is too slow for that
DEFAULTS_S = 60.0  # how old the knowledge of the brokers' defaults may get
SHOWN_S = 2.0  # until all brokers show a change
AGAIN_S = 60.0  # until what was refused is tried again
CHANGED_AT_ONCE = 16
UNREAD_LIMIT = 3  # looks in a row: a broker that restarts is back by then

Alter = Callable[[ClusterClient, str, Mapping[str, str | None]], Awaitable[None]]
Changes = Mapping[str, str | None]
_FAILURES = (ClusterUnreachable, RequestFailed, ProtocolError)


@dataclass(frozen=True, slots=True)
class _Rest:
    """These changes were made, or refused, and are not tried again before."""

    changes: Changes
    until: float


def is_followed(rows: Iterable[PartitionStatus], *, written: bool) -> bool:
    """Whether the configs of a topic with these partitions are to be in step. Not while it is aligned or built, another
    run has it, or it is doubted that it is our mirror. `written`: the ledger says that it is; else a lane must have
    found it to be."""
    rows = list(rows)
    if any(
        row.held_by or row.state is PartitionState.ALIGNING or row.reason in OTHER_RECORDS for row in rows
    ):
        return False
    copied = (PartitionState.COPYING, PartitionState.CAUGHT_UP)
    return written or any(row.state in copied for row in rows)


class ConfigsInStep:
    """`start` looks again and again, `start_once` once at all topics; `busy` until that is done."""

    def __init__(
        self,
        link: str,
        clusters: Clusters,
        roles: LinkRoles,
        board: Board,
        turns: TopicTurns,
        told: ConfigsTold,
        *,
        interval_s: float,
        alter: Alter = alter_topic_configs,
        clock: Clock = clock_of_waits,
    ) -> None:
        self._name = link
        self._link = clusters.link(link)
        self._clusters = clusters
        self._roles = roles
        self._board = board
        self._turns = turns
        self._told = told
        self._interval_s = interval_s
        self._alter = alter
        self._clock = clock
        self._first = 0  # which portion is next
        self._defaults: Mapping[str, str] = {}
        self._defaults_until = 0.0
        self._without_ledger: dict[
            str, Followed
        ] = {}  # by target topic, for as long as this run has the link
        self._drift: dict[str, Mapping[str, Drift]] = {}  # as the last look showed it
        self._rests: dict[str, _Rest] = {}
        self._unread: Counter[str] = Counter()  # how many looks in a row
        self._task: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        self._begin(self._keep)

    def start_once(self) -> None:
        self._begin(partial(self._try, whole=True))

    def _begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._link.topic_configs.sync:
            self._task = asyncio.get_running_loop().create_task(work())
            self._task.add_done_callback(_report)

    def stop(self) -> None:
        """What is under way is dropped: the next holder of the link finds it again."""
        if self._task is not None:
            self._task.cancel()

    async def aclose(self) -> None:
        self.stop()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    # -- looks

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            await self._try()

    async def _try(self, *, whole: bool = False) -> None:
        try:
            await self._look(whole=whole)
        except _FAILURES as problem:
            self._told.trouble(self._name, problem.message)
        else:
            self._told.trouble(self._name, None)

    async def _look(self, *, whole: bool = False) -> None:
        portions = in_portions(self._topics())
        await self._read_defaults()
        for portion in portions if whole else self._next(portions):
            await self._look_at(portion)

    def _topics(self) -> list[str]:
        """Of the source."""
        return [
            topic
            for topic, rows in self._board.by_source_topic(self._name).items()
            if is_followed(rows, written=self._is_written(topic))
        ]

    def _is_written(self, source_topic: str) -> bool:
        ledger = self._roles.ledgers.of(self._name)
        if ledger is None:
            return False
        target_topic = self._link.target_topic(source_topic)
        source_id = self._clusters.id_of_source(self._name, source_topic)
        return ledger.recorded.is_topic(target_topic, source_id, ledger.target_id(target_topic))

    def _next(self, portions: Sequence[list[str]]) -> list[list[str]]:
        """One after another, so many at a time that a round takes no longer than ROUND_S, if looks come that often."""
        count = min(ceil(len(portions) * self._interval_s / ROUND_S), len(portions))
        chosen = [portions[(self._first + number) % len(portions)] for number in range(count)]
        self._first = (self._first + count) % max(len(portions), 1)
        return chosen

    async def _read_defaults(self) -> None:
        if self._clock() >= self._defaults_until:
            self._defaults = await self._clusters.target_defaults(self._name)
            self._defaults_until = self._clock() + DEFAULTS_S

    async def _look_at(self, topics: Collection[str]) -> None:
        source, target = await self._clusters.configs_again(self._name, topics)
        self._count_unread({topic: source.get(topic) for topic in topics})
        judged = {topic: self._judge(topic, source, target) for topic in topics}
        verdicts = {topic: verdict for topic, verdict in judged.items() if verdict is not None}
        self._tell_drift(verdicts)
        self._tell_settled(verdicts)
        self._tell_refused(
            not_known(self._link.target_topic(topic), verdict.unknown)
            for topic, verdict in verdicts.items()
            if verdict.unknown
        )
        await self._write_down(verdicts)
        await self._change_all(verdicts)

    def _judge(
        self, topic: str, source: Mapping[str, TopicConfig], target: Mapping[str, TopicConfig]
    ) -> ConfigVerdict | None:
        target_topic = self._link.target_topic(topic)
        if topic not in source or target_topic not in target:
            return None
        facts = ConfigFacts(
            source=source[topic],
            target=target[target_topic],
            replicas=self._clusters.target_replicas(self._name, target_topic),
            target_defaults=self._defaults,
            followed=self._followed(target_topic),
        )
        return judge_configs(facts, self._link.topic_configs)

    def _tell_drift(self, verdicts: Mapping[str, ConfigVerdict]) -> None:
        """Once two looks in a row have shown it: a broker may be behind with a change of ours."""
        shown = {
            (topic, self._link.target_topic(topic)): verdict.drift
            for topic, verdict in verdicts.items()
            if self._drift.get(topic, {}) == verdict.drift
        }
        self._drift |= {topic: verdict.drift for topic, verdict in verdicts.items()}
        servers = tool_servers(self._clusters.target(self._name).properties)
        written = self._roles.ledgers.of(self._name) is not None
        self._told.drift(self._name, shown, servers, written=written)

    def _tell_settled(self, verdicts: Mapping[str, ConfigVerdict]) -> None:
        calm = {
            self._link.target_topic(topic)
            for topic, verdict in verdicts.items()
            if not (verdict.changes or verdict.unknown)
        }
        self._told.settled(self._name, calm)

    def _tell_refused(self, refused: Iterable[RefusedConfigs]) -> None:
        self._told.refused(self._name, self._clusters.target(self._name).properties, refused)

    def _count_unread(self, configs: Mapping[str, TopicConfig | None]) -> None:
        """Of the source: those of target topics are read by lanes, too, and told by them."""
        problems = {
            topic: "the answer leaves it out" if config is None else config.problem
            for topic, config in configs.items()
            if config is None or config.problem is not None
        }
        for topic in configs:
            self._unread[topic] = self._unread[topic] + 1 if topic in problems else 0
        due = {t: why for t, why in problems.items() if why and self._unread[t] == UNREAD_LIMIT}
        if due:
            self._told.unread(self._name, self._link.source, due)

    # -- which values are the mirror's

    def _followed(self, target_topic: str) -> Followed:
        ledger = self._roles.ledgers.of(self._name)
        if ledger is not None:
            return ledger.recorded.followed(target_topic)
        return self._without_ledger.get(target_topic, NONE_FOLLOWED)

    async def _write_down(self, verdicts: Mapping[str, ConfigVerdict]) -> None:
        """What is found to be in step. A topic that somebody works on is left to the next look."""
        found = {self._link.target_topic(topic): verdict.followed for topic, verdict in verdicts.items()}
        free = {
            topic: followed
            for topic, followed in found.items()
            if followed != self._followed(topic) and not self._turns.is_taken(self._name, topic)
        }
        if free:
            async with self._turns.alone(self._name, free):
                await self._write(free)

    async def _write(self, followed: Mapping[str, Followed]) -> None:
        """Durable on return, where there is a ledger. To be called by who has these target topics for himself."""
        ledger = self._roles.ledgers.of(self._name)
        if ledger is None:
            self._without_ledger |= followed
            return
        await ledger.write(
            [row for topic, each in followed.items() for row in ledger.of_followed(topic, each)]
        )

    # -- changes

    async def _change_all(self, verdicts: Mapping[str, ConfigVerdict]) -> None:
        """A failure concerns its topic alone; the first is raised when all others are done."""
        due = [topic for topic, verdict in verdicts.items() if self._is_due(topic, verdict.changes)]
        failures: list[ClusterUnreachable | RequestFailed | ProtocolError] = []

        async def change(topic: str) -> list[RefusedConfigs]:
            try:
                return await self._change(topic, verdicts[topic].changes)
            except _FAILURES as problem:
                failures.append(problem)
                return []

        answers = await at_most(CHANGED_AT_ONCE, [partial(change, topic) for topic in due])
        self._tell_refused(refused for some in answers for refused in some)
        if failures:
            raise failures[0]

    def _is_due(self, topic: str, changes: Changes) -> bool:
        if not changes or self._turns.is_taken(self._name, self._link.target_topic(topic)):
            return False
        rest = self._rests.get(topic)
        return rest is None or rest.changes != changes or self._clock() >= rest.until

    async def _change(self, topic: str, changes: Changes) -> list[RefusedConfigs]:
        """Read once more, so that what another broker shows, or somebody has changed since, counts."""
        target_topic = self._link.target_topic(topic)
        async with self._turns.alone(self._name, [target_topic]):
            verdict = self._judge(topic, *await self._clusters.configs(self._name, [topic]))
            if verdict is None or verdict.changes != changes:
                return []
            await self._write({target_topic: verdict.followed.about_to(changes)})
            if not self._roles.holds(self._name):
                return []
            refused = await self._make(target_topic, changes)
        left = {name for each in refused for name in each.names}
        made = {name: value for name, value in changes.items() if name not in left}
        if made:
            self._told.changed(self._name, (topic, target_topic), made, verdict.before)
        wait_s = AGAIN_S if left else SHOWN_S
        waits = {name: changes[name] for name in left} or changes
        self._rests[topic] = _Rest(waits, self._clock() + wait_s)
        return refused

    async def _make(self, target_topic: str, changes: Changes) -> list[RefusedConfigs]:
        """All at once; where a broker will not have that, one by one: one bad value holds up no other."""
        refused = await self._make_some(target_topic, changes)
        if refused is None:
            return []
        if len(changes) == 1 or ErrorCode.denies(refused.code):
            return [refused]
        answers = [await self._make_some(target_topic, {name: value}) for name, value in changes.items()]
        return [each for each in answers if each is not None]

    async def _make_some(self, target_topic: str, changes: Changes) -> RefusedConfigs | None:
        try:
            await self._alter(self._clusters.target(self._name), target_topic, changes)
        except BrokerRefused as problem:
            if ErrorCode.passes(problem.code):
                raise
            return refused_by(target_topic, changes, problem)
        return None


def _report(task: asyncio.Task[None]) -> None:
    """A bug: somebody must hear of it."""
    if not task.cancelled() and (problem := task.exception()) is not None:
        context = {
            "message": "topic configs are not kept in step any more",
            "exception": problem,
        }
        task.get_loop().call_exception_handler(context)
