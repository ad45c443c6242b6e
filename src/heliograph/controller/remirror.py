"""A topic is mirrored anew: deleted by its id, created again like its source with what was set by hand, and copied
from where its mirror began.

    lanes let go ─▶ nothing can be on its way ─▶ `remirror` row ─▶ delete by id ─▶ create ─▶ rows of the former
    topic and the `remirror` row removed, answered ─▶ planned anew, given to lanes

Each step can be taken again by whoever holds the topic next: the row says which topic was to be deleted, and what was
set on it by hand. A topic with another id than that is never deleted: where a client that asks for the topic makes the
broker create one before us, all partitions stop (`recreated`). What only the target holds is compared with what
the operator was shown when lanes have let go, right before the deletion.

Nobody deletes who is not the holder: the lease is asked for right before the request. What is left is a request that is
on its way when the lease ends, of a run that was frozen in between, say. It names the topic by its id: if the next
holder has deleted that topic, too, it finds nothing; if the next holder has refused the command meanwhile (the source
holds less by now), the topic goes all the same, and what was lost is what the former holder had compared a moment
before. Its lanes find that the topic is another one, and stop (`recreated`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from heliograph.cluster.admin import delete_topic
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.grants import Resource, Right, grant_line
from heliograph.cluster.log_reads import read_span
from heliograph.cluster.rights import try_creating
from heliograph.controller.act import Made, create
from heliograph.controller.build_settings import phase_of, with_build
from heliograph.controller.builds import Builds
from heliograph.controller.clusters import Clusters
from heliograph.controller.link_ledger import LinkLedger
from heliograph.controller.link_roles import LinkRoles
from heliograph.controller.plan import CreateTopic, Plan
from heliograph.controller.recorded import Recorded, Remirroring
from heliograph.controller.remirror_cost import NO_IDS, begin_again, lost_in, lost_of, set_by_hand
from heliograph.controller.restart import Restart
from heliograph.controller.snapshot import LinkSnapshot
from heliograph.controller.verdict import creation_shape, followed_from, is_being_built
from heliograph.model.admission import AS_THEY_ARE, Refused
from heliograph.model.clock import clock_of_waits, time_of_day
from heliograph.model.command import Command, Outcome
from heliograph.model.errors import (
    BrokerRefused,
    ClusterUnreachable,
    HeliographError,
    ProtocolError,
    RequestFailed,
    RequestTimedOut,
)
from heliograph.model.events import Event
from heliograph.model.hints import topics_line
from heliograph.model.ledger import WHOLE_TOPIC, Row, RowKind
from heliograph.model.occurrence import Occurrence
from heliograph.model.outbox import Outbox
from heliograph.model.partition import MirrorPartition, TopicPartition
from heliograph.model.states import StopReason
from heliograph.wire.error_codes import ErrorCode

GONE_LIMIT_S = 30.0
LASTS_DAYS = 7  # a command that nobody could carry out for so long is to be given again
LOOK_S = 0.2
TRY_AGAIN_S = 2.0


class Unwanted(HeliographError):
    """The command cannot be carried out as it was meant; nothing was deleted."""


class MadeByOthers(HeliographError):
    """The topic is deleted, and somebody else has created one of its name before us, in another shape."""


MayCreate = Callable[
    [ClusterClient, Mapping[str, tuple[int, int, Mapping[str, str]]]],
    Awaitable[Mapping[str, tuple[int, str]]],
]


class Remirror:
    """`clear_in_s(partition)`: for how long something that was sent there may still arrive."""

    def __init__(
        self,
        clusters: Clusters,
        roles: LinkRoles,
        restart: Restart,
        builds: Builds,
        clear_in_s: Callable[[MirrorPartition], float],
        outbox: Outbox,
        *,
        delete: Callable[[ClusterClient, str], Awaitable[None]] = delete_topic,
        create: Callable[[ClusterClient, CreateTopic], Awaitable[Made]] = create,
        may_create: MayCreate = try_creating,
    ) -> None:
        self._clusters = clusters
        self._roles = roles
        self._restart = restart
        self._builds = builds
        self._clear_in_s = clear_in_s
        self._outbox = outbox
        self._delete_topic = delete
        self._create_topic = create
        self._may_create = may_create

    async def __call__(self, ledger: LinkLedger, command: Command, keys: Sequence[MirrorPartition]) -> None:
        """`keys`: all partitions of the topic. Raises what another try may mend."""
        assert keys
        source_topic, topic = keys[0].source_topic, keys[0].target_topic
        try:
            rows = await self._remake(ledger, command, keys)
        except Unwanted as refused:
            rows = []
            outcome, message, hint = Outcome.REFUSED, refused.message, refused.hint
        except MadeByOthers as other:
            # Nothing is copied into it: its retention, for one, is not the source's.
            why = Refused(reason=StopReason.RECREATED, message=other.message, hint=other.hint)
            rows = [ledger.of_stop(key, why) for key in keys]
            outcome, message, hint = Outcome.REFUSED, other.message, other.hint
        except BrokerRefused as refused:
            if ErrorCode.passes(refused.code):
                raise
            # What the broker will never take: an operator is needed, and the topic may be gone by now.
            rows = []
            outcome, message = Outcome.REFUSED, f"{refused.message}; the topic may be deleted by now"
            hint = refused.hint or topics_line("resume", keys[0].link, source_topic)
        else:
            outcome, message, hint = Outcome.APPLIED, "deleted, created again, and copied anew", ""
        # At once, and answered before it is planned: the plan leaves a topic alone that is being mirrored anew, or
        # whose command has no answer yet; and a row without a command, or the reverse, would be misread by who is next.
        whole = TopicPartition(topic, WHOLE_TOPIC)
        answer = ledger.of_answer(command, outcome, message, hint)
        await ledger.write([*rows, answer, *ledger.removed(whole, RowKind.REMIRROR)])
        todo = await self._take_again(keys[0])
        # A command that was refused before anything was done about it has left all of them to their lanes.
        self._restart.begin(todo, [key for key in keys if self._restart.is_idle(key)], ledger)
        applied = outcome is Outcome.APPLIED
        words = message if applied else f"refused: {message}"
        self._tell(command, keys[0], Event.REMIRRORED if applied else Event.COMMAND, words)

    async def _take_again(self, key: MirrorPartition) -> Plan:
        """The command is answered: nobody would come back to partitions that are left here. Ends when the link is not
        ours any more, with the task that waits for it."""
        while True:
            try:
                return (await self._roles.take_again(key.link, [key.source_topic])).todo
            except (ClusterUnreachable, RequestFailed, ProtocolError) as problem:
                words = (
                    f"link {key.link}: topic {key.source_topic} waits to be copied anew: {problem.message}"
                )
                self._outbox.tell(Event.CLUSTER_AWAY, words, link=key.link)
                await asyncio.sleep(TRY_AGAIN_S)

    async def _remake(
        self, ledger: LinkLedger, command: Command, keys: Sequence[MirrorPartition]
    ) -> list[Row]:
        """The topic is another one on return; what is to be written of it."""
        link, source_topic, topic = keys[0].link, keys[0].source_topic, keys[0].target_topic
        if ledger.recorded.remirroring(topic) is None:
            # Before anybody is disturbed.
            snapshot = await self._observe(link, source_topic)
            await self._check(snapshot, ledger.recorded, command, keys[0])
            await self._check_rights(link, snapshot, topic)
            await self._say(ledger, command, keys[0], "lanes let go of it")
        async with self._builds.left_alone(link, topic):
            await self._put_aside(keys)
            await self._wait_until_clear(ledger, command, keys)
            return await self._make_again(ledger, command, keys)

    async def _make_again(
        self, ledger: LinkLedger, command: Command, keys: Sequence[MirrorPartition]
    ) -> list[Row]:
        """Nobody has it, and nothing is on its way."""
        link, source_topic, topic = keys[0].link, keys[0].source_topic, keys[0].target_topic
        snapshot = await self._observe(link, source_topic)
        doing, target = ledger.recorded.remirroring(topic), snapshot.targets.get(topic)
        if doing is None or (target is not None and target.topic_id == doing.target_topic_id):
            # Looked at again: that took a while, and the source may hold less by now.
            doing = await self._check(snapshot, ledger.recorded, command, keys[0])
            row = ledger.of_remirror(topic, doing.command_id, doing.target_topic_id, doing.configs)
            # Where partitions begin is written before what tells of it is gone.
            await ledger.write([*_beginnings(ledger, snapshot, keys), row])
            await self._say(ledger, command, keys[0], "it is being deleted")
            await self._delete(link, topic, doing.target_topic_id)
        new = await self._create(link, snapshot, keys[0], doing)
        await self._learn_new_id(link, topic, doing.target_topic_id)
        kinds = (RowKind.STOP, RowKind.LOSS, RowKind.GAPS)
        rows = [row for key in keys for kind in kinds for row in ledger.removed(key.target, kind)]
        # In the place of the former one's, and not removed: rows of lower terms would count again.
        source = snapshot.sources[0]
        followed = followed_from(snapshot, source, doing.configs)
        row = ledger.of_topic(topic, source_topic, source.topic_id, doing.configs, followed, created=new)
        return [*rows, row]

    async def _observe(self, link: str, source_topic: str) -> LinkSnapshot:
        snapshot = await self._clusters.observe_link(link, [source_topic])
        if not snapshot.sources:
            raise Unwanted(f"the source has no topic {source_topic} any more")
        return snapshot

    async def _put_aside(self, keys: Sequence[MirrorPartition]) -> None:
        words = f"topic {keys[0].target_topic} is being deleted and mirrored anew"
        await self._restart.put_aside(dict.fromkeys(keys, words))

    async def _check(
        self, snapshot: LinkSnapshot, recorded: Recorded, command: Command, key: MirrorPartition
    ) -> Remirroring:
        days = (time_of_day() - command.at).days
        if days >= LASTS_DAYS:
            # One that was answered long ago may come back with a ledger that was lost.
            raise Unwanted(f"it was asked for {days} days ago", hint=_look_again(key))
        target = snapshot.targets.get(key.target_topic)
        if target is None or target.topic_id != command.target_topic_id:
            there = "is gone" if target is None else f"is another one by now (id {target.topic_id})"
            raise Unwanted(
                f"topic {key.target_topic} that was shown (id {command.target_topic_id}) {there}",
                hint=_look_again(key),
            )
        if not target.topic_id:
            raise Unwanted(NO_IDS)
        source = snapshot.sources[0]
        if is_being_built(source):  # the new one would be given the settings of that build
            raise Unwanted(
                f"the source topic {source.name} is being built by another mirror itself",
                hint=f"wait for topic_built of the mirror into {snapshot.link.source!r}",
            )
        beyond = {
            number: await read_span(self._clusters.target(key.link), TopicPartition(target.name, number))
            for number in range(len(source.partitions), target.partitions)
        }
        unseen = [
            number
            for number, sight in source.partitions.items()
            if sight.source is None or (sight.target is None and number < target.partitions)
        ]
        if unseen:
            words = f"what would be lost of partition {unseen[0]} cannot be said now"
            raise Unwanted(words, hint=_look_again(key))
        losses = lost_in(recorded, source, target) | {n: lost_of(span, None) for n, span in beyond.items()}
        for number, lost in ((number, each) for number, ranges in losses.items() for each in ranges):
            if not command.accepts(number, lost):
                raise Unwanted(
                    f"partition {number}: offsets [{lost[0]}, {lost[1]}) that only the target holds would be lost, more"
                    " than were shown",
                    hint=_look_again(key),
                )
        by_hand = set_by_hand(snapshot, recorded, source, target)
        return Remirroring(command_id=command.id, target_topic_id=target.topic_id, configs=by_hand)

    async def _check_rights(self, link: str, snapshot: LinkSnapshot, topic: str) -> None:
        """Who may delete a topic and not create it must not begin. Brokers tell that also of one that is there."""
        client, shape = self._clusters.target(link), creation_shape(snapshot, snapshot.sources[0])
        wanted = {topic: (shape.partitions, shape.replication_factor, shape.configs)}
        code, words = (await self._may_create(client, wanted)).get(topic, (0, ""))
        if ErrorCode.denies(code):
            hint = grant_line(client.properties, Right.CREATE, Resource.TOPIC, (topic,))
            raise Unwanted(f"topic {topic} could be deleted, but not created again: {words}", hint=hint)

    async def _wait_until_clear(
        self, ledger: LinkLedger, command: Command, keys: Sequence[MirrorPartition]
    ) -> None:
        """An append that is on its way must not land in the new topic."""
        wait_s = max(self._clear_in_s(key) for key in keys)
        if wait_s > 0:
            words = f"appends that may be on their way are over in {wait_s:.0f} s"
            await self._say(ledger, command, keys[0], words)
            await asyncio.sleep(wait_s)

    async def _delete(self, link: str, topic: str, topic_id: str) -> None:
        client = self._clusters.target(link)
        if not self._roles.holds(link):
            raise ClusterUnreachable(f"topic {topic} is not deleted: the run's lease of link {link} is over")
        try:
            await self._delete_topic(client, topic_id)
        except BrokerRefused as refused:
            if ErrorCode.denies(refused.code):
                hint = grant_line(client.properties, Right.DELETE, Resource.TOPIC, (topic,))
                raise Unwanted(f"topic {topic} cannot be deleted: {refused.message}", hint=hint) from refused
            if refused.code == ErrorCode.TOPIC_DELETION_DISABLED:
                hint = "set delete.topic.enable=true on the target's brokers"
                raise Unwanted(f"topic {topic} cannot be deleted: {refused.message}", hint=hint) from refused
            raise
        give_up_at = clock_of_waits() + GONE_LIMIT_S
        while (await client.read_metadata([topic])).topic_id(topic) == topic_id:
            if clock_of_waits() > give_up_at:
                raise RequestTimedOut(f"topic {topic} is deleted, and still there after {GONE_LIMIT_S:.0f} s")
            await asyncio.sleep(LOOK_S)

    async def _learn_new_id(self, link: str, topic: str, former_id: str) -> None:
        """A broker that lags behind the deletion still shows the former topic, whose id must not be written."""
        give_up_at = clock_of_waits() + GONE_LIMIT_S
        await self._clusters.refresh_target(link)
        while self._clusters.target_topic_id(link, topic) in ("", former_id):
            if clock_of_waits() > give_up_at:
                raise RequestTimedOut(f"topic {topic} is created, and not seen after {GONE_LIMIT_S:.0f} s")
            await asyncio.sleep(LOOK_S)
            await self._clusters.refresh_target(link)

    async def _create(
        self, link: str, snapshot: LinkSnapshot, key: MirrorPartition, doing: Remirroring
    ) -> bool:
        """False: it was there before we could."""
        client, plain = self._clusters.target(link), creation_shape(snapshot, snapshot.sources[0])
        configs = {**plain.configs, **doing.configs}
        # What was set by hand does not go before what a topic is built with.
        shape = replace(
            plain, configs=with_build(configs) if phase_of(plain.configs) is not None else configs
        )
        try:
            made = await self._create_topic(
                client, CreateTopic(link=link, topic=key.target_topic, shape=shape)
            )
        except BrokerRefused as refused:
            if ErrorCode.passes(refused.code) or not doing.configs:
                raise
            made = await self._create_topic(
                client, CreateTopic(link=link, topic=key.target_topic, shape=plain)
            )
            listed = ", ".join(f"{name}={value}" for name, value in sorted(doing.configs.items()))
            words = f"topic {key.target_topic} cannot have what was set by hand ({listed}) any more: {refused.message}"
            self._outbox.tell(Event.PLAN_WARNING, words, link=link)
        for warning in made.warnings:
            self._outbox.tell(Event.PLAN_WARNING, warning, link=link)
        if not made.new:
            await self._check_shape(link, key, shape.partitions)
        return made.new

    async def _check_shape(self, link: str, key: MirrorPartition, partitions: int) -> None:
        """It was there before we could create it: by a request of ours, or of a holder before us, whose answer was
        lost; or because a client asked for it, and brokers create what is asked for."""
        snapshot = await self._observe(link, key.source_topic)
        there = snapshot.targets.get(key.target_topic)
        if there is None:
            raise ClusterUnreachable(f"topic {key.target_topic} is created, and not there yet")
        as_ours = all(there.config.own.get(name) == value for name, value in AS_THEY_ARE.items())
        if there.partitions != partitions or not as_ours:
            raise MadeByOthers(
                f"topic {key.target_topic} was deleted, and created by somebody else with {there.partitions}"
                f" partition(s) and configs of its own before the mirror could (auto.create.topics.enable?)",
                hint="stop whoever asks for it meanwhile; then: "
                + topics_line("remirror", key.link, key.source_topic),
            )

    async def _say(self, ledger: LinkLedger, command: Command, key: MirrorPartition, message: str) -> None:
        """How far it is, to the operator who waits, and to who reads the run's log."""
        await ledger.write([ledger.of_answer(command, Outcome.UNDER_WAY, message)])
        self._tell(command, key, Event.COMMAND, message)

    def _tell(self, command: Command, key: MirrorPartition, code: Event, message: str) -> None:
        self._outbox.put(
            Occurrence(
                at=time_of_day(),
                code=code,
                message=f"link {key.link}: topic {key.source_topic}: remirror by {command.author}: {message}",
                link=key.link,
                source_topic=key.source_topic,
                target_topic=key.target_topic,
            )
        )


def _beginnings(ledger: LinkLedger, snapshot: LinkSnapshot, keys: Sequence[MirrorPartition]) -> list[Row]:
    source, target = snapshot.sources[0], snapshot.targets[keys[0].target_topic]
    start = snapshot.link.policy_of(source.name).start
    goals = begin_again(ledger.recorded, source, target, start)
    if goals is None:
        return [row for key in keys for row in ledger.removed(key.target, RowKind.BEGIN)]
    return [
        ledger.of_begin(TopicPartition(target.name, number), goal, start, source.topic_id)
        for number, goal in goals.items()
    ]


def _look_again(key: MirrorPartition) -> str:
    line = topics_line("remirror", key.link, key.source_topic, options=("--dry-run",))
    return f"look at it again: {line}"
