"""Target topics of a link that is ours whose source topics are gone: deleted where its config wants that and every
guard is met (deletion_guards.py), kept else.

    let go ─▶ gone, by the ledger's rows ─▶ two brokers of the source, again and again ─▶ the target ─▶ deleted by id

In memory is only for how long brokers have not known a topic: a run that takes over waits anew. Topics are deleted one
after the other, and only while the run's lease lasts: that is asked for right before the request. What was gone while
the config said `keep` is written down as kept, and stays so.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import NoReturn

from heliograph.cluster.admin import delete_topic
from heliograph.cluster.at_most import at_most
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.last_writer import read_last_writer
from heliograph.cluster.metadata import ClusterMetadata
from heliograph.cluster.topic_witnesses import Witness, ask_witnesses
from heliograph.controller.board import Board
from heliograph.controller.changes import Absences
from heliograph.controller.clusters import Clusters
from heliograph.controller.deletion_guards import Facts, Guard, Held, Next, SourceWord, TargetSight, decide
from heliograph.controller.deletions_told import DeletionsTold
from heliograph.controller.gone_topics import facts_of, gone_topics
from heliograph.controller.link_ledger import LinkLedger
from heliograph.controller.link_roles import LinkRoles
from heliograph.controller.recorded import MirroredTopic
from heliograph.controller.topic_absence import Absence
from heliograph.controller.topic_turns import TopicTurns
from heliograph.model.clock import Clock, clock_of_waits
from heliograph.model.errors import BrokerRefused, ClusterUnreachable, ProtocolError, RequestFailed
from heliograph.model.outbox import Outbox
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

LOOK_S = 5.0
AGAIN_S = (
    30.0  # until a topic is looked at again that is held by what the target says: all its partitions are read
)
READS_AT_ONCE = 16

Ask = Callable[[ClusterClient, Mapping[str, str], Collection[int]], Awaitable[tuple[Witness, ...]]]


class TopicDeletions:
    """Of one link. `see` what each look at its clusters shows; `follow` does what comes of it."""

    def __init__(
        self,
        link: str,
        clusters: Clusters,
        roles: LinkRoles,
        board: Board,
        turns: TopicTurns,
        outbox: Outbox,
        *,
        clock: Clock = clock_of_waits,
        ask: Ask = ask_witnesses,
        read_writer: Callable[[ClusterClient, TopicPartition], Awaitable[int | None]] = read_last_writer,
        delete: Callable[[ClusterClient, str], Awaitable[None]] = delete_topic,
    ) -> None:
        self._name = link
        self._link = clusters.link(link)
        self._clusters = clusters
        self._roles = roles
        self._board = board
        self._turns = turns
        self._told = DeletionsTold(link, clusters, outbox, clock)
        self._clock = clock
        self._ask = ask
        self._read_writer = read_writer
        self._delete_topic = delete
        self._due: dict[MirroredTopic, Facts] = {}  # what may be deleted, by the last look
        self._absences: dict[MirroredTopic, Absence] = {}  # of these
        self._again_at: dict[MirroredTopic, float] = {}
        self._to_keep: frozenset[str] = frozenset()  # target topics, to be written down as kept
        self._seen_kept = Absences()
        self._let_go: set[str] = set()  # source topics
        self._finishing: MirroredTopic | None = None
        self._sent: set[MirroredTopic] = set()  # of which the deletion was asked for
        self._work = asyncio.Event()

    @property
    def pending(self) -> bool:
        """Something may be deleted: both clusters are to be looked at often."""
        return bool(self._due)

    def let_go(self, source_topic: str) -> None:
        """By this run, just now."""
        self._let_go.add(source_topic)

    # -- what there is to do

    def see(self, source: ClusterMetadata, target: ClusterMetadata) -> None:
        """All topics of both clusters, as a look has just shown them."""
        ledger = self._roles.ledgers.of(self._name)
        facts = self._facts(ledger, source, target) if ledger is not None else []
        verdicts = {each.topic: decide(each) for each in facts}
        self._due = {each.topic: each for each in facts if verdicts[each.topic] is Next.ASK_SOURCE}
        self._absences = {topic: self._absences.get(topic, Absence()) for topic in self._due}
        self._again_at = {topic: at for topic, at in self._again_at.items() if topic in self._due}
        kept = {each.topic.target_topic for each in facts if _is_to_keep(each)}
        self._to_keep = self._seen_kept.confirmed(kept) | (self._to_keep & kept)
        self._tell(facts, verdicts)
        if self._due or self._to_keep:
            self._work.set()
        else:
            self._work.clear()

    def _facts(self, ledger: LinkLedger, source: ClusterMetadata, target: ClusterMetadata) -> list[Facts]:
        gone = [
            topic
            for topic in gone_topics(self._link, ledger.recorded, source.topics, self._is_let_go)
            if topic == self._finishing or not self._is_taken(topic)
        ]
        if not gone:  # nearly always
            return []
        ids = {topic.name: topic.topic_id for topic in target.topics.values()}
        others = sum(self._link.matches(each.name, internal=each.internal) for each in source.topics.values())
        return facts_of(self._link, ledger.recorded, gone, ids, others=others, holds=self._holds)

    def _is_let_go(self, target_topic: str) -> bool:
        return not self._board.partitions_of(self._name, target_topic)

    def _is_taken(self, topic: MirroredTopic) -> bool:
        return self._turns.is_taken(self._name, topic.target_topic)

    def _holds(self, target_topic: str) -> bool:
        return self._roles.holds_topic(self._name, target_topic)

    def _tell(self, facts: Collection[Facts], verdicts: Mapping[MirroredTopic, Held | Next]) -> None:
        many: dict[str, list[Facts]] = {}
        for each in facts:
            verdict = verdicts[each.topic]
            if isinstance(verdict, Held):
                self._tell_held(each.topic, verdict)
                if verdict.guard is Guard.FEW:
                    many.setdefault(verdict.why, []).append(each)
        for why, held in many.items() or [("", [])]:
            self._told.many(held, why)

    def _tell_held(self, topic: MirroredTopic, held: Held) -> None:
        self._told.held(topic, held, let_go=topic.source_topic in self._let_go)

    # -- doing it

    async def follow(self) -> NoReturn:
        while True:
            await self._work.wait()
            try:
                await self._keep()
                while await self._look():
                    pass  # the next topic has a word of its own
            except (ClusterUnreachable, RequestFailed, ProtocolError) as problem:
                self._told.unasked(problem)
            await asyncio.sleep(LOOK_S)

    async def _keep(self) -> None:
        ledger = self._roles.ledgers.of(self._name)
        if ledger is not None and self._to_keep:
            await ledger.keep(self._to_keep)
            self._to_keep = frozenset()

    async def _look(self) -> bool:
        """Whether a topic was deleted: one by one, each when the source has just said that it is gone."""
        due, before = dict(self._due), dict(self._absences)
        if not due:
            return False
        source = self._clusters.source(self._name)
        await source.refresh()  # which brokers there are
        asked = {topic.source_topic: topic.source_topic_id for topic in due}
        longest = max(before.values(), key=lambda absence: absence.lasts_s).longest
        witnesses = await self._ask(source, asked, longest)
        now = self._clock()
        ready: list[Facts] = []
        for topic, facts in due.items():
            if self._absences.get(topic) is not before[topic]:
                continue  # it was there again meanwhile
            names = (topic.source_topic, topic.source_topic_id)
            absence = before[topic].heard(witnesses, *names, facts.source_cluster_id, now)
            self._absences[topic] = absence
            heard = replace(facts, source=SourceWord(witnesses=witnesses, absence=absence))
            verdict = decide(heard)
            if isinstance(verdict, Held):
                self._tell_held(topic, verdict)
            elif now >= self._again_at.get(topic, now) and not self._is_taken(topic):
                ready.append(heard)
        return bool(ready) and await self._finish(ready[0])

    async def _finish(self, facts: Facts) -> bool:
        """The source has said all that there is to say."""
        topic, done = facts.topic, False
        async with self._turns.alone(self._name, [topic.target_topic]):
            self._finishing = topic
            try:
                done = await self._delete(facts)
            except (RequestFailed, ProtocolError) as problem:
                self._told.failed(topic, problem)
            finally:
                self._finishing = None
        if done:
            self._due.pop(topic, None)
        else:
            self._again_at[topic] = self._clock() + AGAIN_S
        return done

    async def _delete(self, facts: Facts) -> bool:
        """Whether there is nothing left to do about it."""
        topic, ledger = facts.topic, self._roles.ledgers.of(self._name)
        sight = await self._read_target(topic)
        if (
            ledger is None
            or topic not in self._due
            or ledger.recorded.mirrored_to(topic.target_topic) != topic
        ):
            return False
        verdict = decide(replace(self._known_now(facts, ledger), target=sight))
        if isinstance(verdict, Held):
            self._tell_held(topic, verdict)
            return False
        if verdict is Next.DELETE:
            self._sent.add(topic)
            await self._delete_topic(self._clusters.target(self._name), topic.target_topic_id)
        if topic in self._sent:  # also when the answer was lost, and the topic is gone
            self._sent.discard(topic)
            self._told.deleted(topic)
        # If not, the next look finds that the topic is gone on both sides, and forgets it.
        with contextlib.suppress(RequestFailed, ProtocolError):
            await ledger.forget(topic.target_topic)
        return True

    def _known_now(self, facts: Facts, ledger: LinkLedger) -> Facts:
        """What is written down, and whether the topic is ours, may have changed since the look."""
        ids = {facts.topic.target_topic: facts.target_topic_id}
        (now,) = facts_of(self._link, ledger.recorded, [facts.topic], ids, others=0, holds=self._holds)
        return replace(now, gone=facts.gone, of=facts.of, source=facts.source)

    async def _read_target(self, topic: MirroredTopic) -> TargetSight:
        client, name = self._clusters.target(self._name), topic.target_topic
        seen = (await client.read_metadata([name])).topics.get(name)
        if seen is None or seen.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return TargetSight(topic_id="")
        if seen.error:
            words = f"topic {name} cannot be seen on cluster {client.name!r}: {ErrorCode.name_of(seen.error)}"
            raise BrokerRefused(words, code=seen.error)
        if seen.topic_id != topic.target_topic_id:
            return TargetSight(topic_id=seen.topic_id)
        client.follow([name])
        await client.refresh()  # who leads its partitions
        reads = [partial(self._read_writer, client, TopicPartition(name, number)) for number in seen.leaders]
        writers = await at_most(READS_AT_ONCE, reads)
        return TargetSight(topic_id=seen.topic_id, writers=dict(zip(seen.leaders, writers, strict=True)))


def _is_to_keep(facts: Facts) -> bool:
    """It could be deleted, and its link says `keep` now that its source topic is gone."""
    topic = facts.topic
    ours = topic.created and facts.holds and facts.target_topic_id == topic.target_topic_id != ""
    return ours and not (facts.wanted or topic.kept)
