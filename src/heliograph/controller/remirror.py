"""A topic is mirrored anew: deleted by its id, created again as it was, and copied from where the source begins.

    lanes let go ─▶ nothing can be on its way ─▶ `remirror` row ─▶ delete by id ─▶ create ─▶ rows of the former
    topic removed ─▶ planned anew, given to lanes ─▶ row removed, answered

Each step can be taken again by whoever holds the topic next: the row says which topic was to be deleted, and what was
set on it by hand. A topic with another id than that is never deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from heliograph.cluster.admin import delete_topic
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.grants import Resource, Right, grant_line
from heliograph.controller.act import create
from heliograph.controller.clusters import Clusters
from heliograph.controller.link_ledger import LinkLedger
from heliograph.controller.link_roles import LinkRoles
from heliograph.controller.plan import CreateTopic
from heliograph.controller.recorded import Remirroring
from heliograph.controller.remirror_cost import hulls, lost_of, set_by_hand
from heliograph.controller.restart import Restart
from heliograph.controller.snapshot import LinkSnapshot
from heliograph.controller.verdict import shape_for
from heliograph.model.clock import clock_of_waits, time_of_day
from heliograph.model.command import Command, Outcome
from heliograph.model.errors import BrokerRefused, HeliographError, RequestTimedOut
from heliograph.model.events import Event
from heliograph.model.hints import topics_line
from heliograph.model.ledger import WHOLE_TOPIC, RowKind
from heliograph.model.occurrence import Occurrence
from heliograph.model.outbox import Outbox
from heliograph.model.partition import MirrorPartition, TopicPartition
from heliograph.wire.error_codes import ErrorCode

GONE_LIMIT_S = 30.0
LOOK_S = 0.2
_DENIED = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})


class Unwanted(HeliographError):
    """The command cannot be carried out as it was meant; nothing was deleted."""


class Remirror:
    """`clear_in_s(partition)`: for how long something that was sent there may still arrive."""

    def __init__(
        self,
        clusters: Clusters,
        roles: LinkRoles,
        restart: Restart,
        clear_in_s: Callable[[MirrorPartition], float],
        outbox: Outbox,
    ) -> None:
        self._clusters = clusters
        self._roles = roles
        self._restart = restart
        self._clear_in_s = clear_in_s
        self._outbox = outbox

    async def __call__(self, ledger: LinkLedger, command: Command, keys: Sequence[MirrorPartition]) -> None:
        """`keys`: all partitions of the topic. Raises what another try may mend."""
        assert keys
        link, source_topic, topic = keys[0].link, keys[0].source_topic, keys[0].target_topic
        try:
            await self._remake(ledger, command, keys)
        except Unwanted as refused:
            await ledger.write(ledger.removed(TopicPartition(topic, WHOLE_TOPIC), RowKind.REMIRROR))
            outcome, message, hint = Outcome.REFUSED, refused.message, refused.hint
        else:
            outcome, message, hint = Outcome.APPLIED, "deleted, created again, and copied anew", ""
        # Answered first: the plan leaves a topic alone whose command has no answer yet.
        await ledger.write([ledger.of_answer(command, outcome, message, hint)])
        todo = (await self._roles.take_again(link, [source_topic])).todo
        # A command that was refused before anything was done about it has left all of them to their lanes.
        self._restart.begin(todo, [key for key in keys if self._restart.is_idle(key)], ledger)
        self._tell(command, keys[0], outcome, message)

    async def _remake(self, ledger: LinkLedger, command: Command, keys: Sequence[MirrorPartition]) -> None:
        link, topic = keys[0].link, keys[0].target_topic
        client = self._clusters.target(link)
        doing = ledger.recorded.remirroring(topic)
        snapshot = await self._clusters.observe_link(link, [keys[0].source_topic])
        if not snapshot.sources:
            raise Unwanted(f"the source has no topic {keys[0].source_topic} any more")
        if doing is None:
            doing = self._check(snapshot, command, keys[0])
            await self._say(ledger, command, "lanes let go of it")
            await self._put_aside(keys)
            await self._wait_until_clear(ledger, command, keys)
            row = ledger.of_remirror(topic, doing.command_id, doing.target_topic_id, doing.configs)
            await ledger.write([row])
        else:
            await self._put_aside(keys)
            await self._wait_until_clear(ledger, command, keys)
        target = snapshot.targets.get(topic)
        if target is not None and target.topic_id == doing.target_topic_id:
            await self._say(ledger, command, "it is being deleted")
            await self._delete(client, topic, doing.target_topic_id)
        await self._create(client, link, snapshot, keys[0], doing)
        rows = []
        for key in keys:
            for kind in (RowKind.STOP, RowKind.LOSS, RowKind.GAPS):
                rows += ledger.removed(key.target, kind)
        whole = TopicPartition(topic, WHOLE_TOPIC)
        await ledger.write(
            [*rows, *ledger.removed(whole, RowKind.TOPIC), *ledger.removed(whole, RowKind.REMIRROR)]
        )

    async def _put_aside(self, keys: Sequence[MirrorPartition]) -> None:
        words = f"topic {keys[0].target_topic} is being deleted and mirrored anew"
        await self._restart.put_aside(dict.fromkeys(keys, words))

    def _check(self, snapshot: LinkSnapshot, command: Command, key: MirrorPartition) -> Remirroring:
        target = snapshot.targets.get(key.target_topic)
        if target is None or target.topic_id != command.target_topic_id:
            there = "is gone" if target is None else f"is another one by now (id {target.topic_id})"
            raise Unwanted(
                f"topic {key.target_topic} that was shown (id {command.target_topic_id}) {there}",
                hint=_look_again(key),
            )
        sights = snapshot.sources[0].partitions
        losses = hulls({number: lost_of(sight.target, sight.source) for number, sight in sights.items()})
        for number, lost in losses.items():
            shown = command.loses.get(number)
            if shown is None or not (shown[0] <= lost[0] and lost[1] <= shown[1]):
                raise Unwanted(
                    f"partition {number}: offsets [{lost[0]}, {lost[1]}) that only the target holds would be lost, more"
                    " than were shown",
                    hint=_look_again(key),
                )
        by_hand = set_by_hand(snapshot, snapshot.sources[0], target)
        return Remirroring(command_id=command.id, target_topic_id=target.topic_id, configs=by_hand)

    async def _wait_until_clear(
        self, ledger: LinkLedger, command: Command, keys: Sequence[MirrorPartition]
    ) -> None:
        """An append that is on its way must not land in the new topic."""
        wait_s = max(self._clear_in_s(key) for key in keys)
        if wait_s > 0:
            await self._say(ledger, command, f"appends that may be on their way are over in {wait_s:.0f} s")
            await asyncio.sleep(wait_s)

    async def _delete(self, client: ClusterClient, topic: str, topic_id: str) -> None:
        try:
            await delete_topic(client, topic_id)
        except BrokerRefused as refused:
            if refused.code in _DENIED:
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

    async def _create(
        self,
        client: ClusterClient,
        link: str,
        snapshot: LinkSnapshot,
        key: MirrorPartition,
        doing: Remirroring,
    ) -> None:
        shape = shape_for(snapshot, snapshot.sources[0])
        shape = replace(shape, configs={**shape.configs, **doing.configs})
        made = await create(client, CreateTopic(link=link, topic=key.target_topic, shape=shape))
        for warning in made.warnings:
            self._outbox.tell(Event.PLAN_WARNING, warning, link=link)

    async def _say(self, ledger: LinkLedger, command: Command, message: str) -> None:
        await ledger.write([ledger.of_answer(command, Outcome.UNDER_WAY, message)])

    def _tell(self, command: Command, key: MirrorPartition, outcome: Outcome, message: str) -> None:
        code = Event.REMIRRORED if outcome is Outcome.APPLIED else Event.COMMAND
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


def _look_again(key: MirrorPartition) -> str:
    line = topics_line("remirror", key.link, key.source_topic, options=("--dry-run",))
    return f"look at it again: {line}"
