"""What an operator has decided, written to the target, and what a running mirror makes of it.

Commands are durable before anybody is asked about them: with no mirror running, the next one does what they say.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from heliograph.cluster.claims_group import claims_group_of, read_claims, read_runner
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.grants import Resource, Right, grant_line
from heliograph.cluster.group_reads import read_members
from heliograph.cluster.own_topics import OwnTopics
from heliograph.controller.clusters import Clusters
from heliograph.controller.ledger import Ledger
from heliograph.controller.ledger_word import Answer
from heliograph.controller.recorded import Recorded
from heliograph.model.clock import clock_of_waits
from heliograph.model.command import Command, Subject
from heliograph.model.errors import BrokerRefused, CommandRefused, ProtocolError, RequestFailed
from heliograph.model.ledger import COMMANDS_TOPIC, LEDGER_TOPIC
from heliograph.model.settings import Settings
from heliograph.operations.answers import Waiting
from heliograph.operations.decision import Decision, Draft
from heliograph.operations.looking import Tell
from heliograph.wire.error_codes import ErrorCode

LOOK_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Runners:
    """The runs that mirror the topics from this source cluster. `problem`: why nobody can say which there are."""

    names: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def none(self) -> bool:
        return not self.names and self.problem is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """`answers`: by command id, what running mirrors said in the time that was given to them."""

    commands: tuple[tuple[Draft, Command], ...]
    runners: Runners
    answers: Mapping[str, Answer]


def commands_of(decision: Decision, author: str, now: datetime) -> tuple[tuple[Draft, Command], ...]:
    return tuple((draft, _command(decision, draft, author, now)) for draft in decision.drafts)


def _command(decision: Decision, draft: Draft, author: str, now: datetime) -> Command:
    where = draft.where
    return Command(
        id=uuid.uuid4().hex,
        wish=draft.wish,
        subject=Subject(
            source_cluster_id=decision.source_cluster_id,
            target_topic=where.target_topic,
            partition=where.partition,
        ),
        at=now,
        author=author,
        target_topic_id=draft.target_topic_id,
        stop=draft.stop,
        loses=draft.loses,
        keeps=draft.keeps,
    )


async def record(settings: Settings, decision: Decision, author: str, now: datetime, *, tell: Tell) -> Done:
    """Write them down; then wait for running mirrors, if there are any."""
    drafted = commands_of(decision, author, now)
    commands = [command for _, command in drafted]
    clusters = Clusters(replace(settings, links=(decision.link,)))
    try:
        await clusters.connect()
        target = clusters.target(decision.link.name)
        ledger = Ledger(OwnTopics(target))
        await write_down(target, ledger, commands)
        topics = {command.subject.target_topic for command in commands}
        runners = await read_runners(target, decision.source_cluster_id, topics)
        answers: Mapping[str, Answer] = {}
        if not runners.none:
            tell(f"waiting for {', '.join(runners.names) or 'an answer'}")
            answers = await await_answers(ledger, decision.source_cluster_id, commands, tell)
    finally:
        await clusters.aclose()
    return Done(commands=drafted, runners=runners, answers=answers)


async def write_down(target: ClusterClient, ledger: Ledger, commands: Sequence[Command]) -> None:
    """Durable on return; `CommandRefused` with what to do about it."""
    try:
        await ledger.open()
        await ledger.command(commands)
    except BrokerRefused as refused:
        message = f"the command cannot be recorded on cluster {target.name!r}: {refused.message}"
        hint = _grants(target) if ErrorCode.denies(refused.code) else refused.hint
        raise CommandRefused(message, hint=hint) from refused
    except (RequestFailed, ProtocolError) as problem:
        raise CommandRefused(
            f"whether the command is recorded on cluster {target.name!r} is not known: {problem.message}",
            hint="`heliograph topics list` shows what is recorded",
        ) from problem


def _grants(target: ClusterClient) -> str:
    both = [LEDGER_TOPIC, COMMANDS_TOPIC]
    lines = (
        grant_line(target.properties, Right.CREATE, Resource.TOPIC, both),
        grant_line(target.properties, Right.READ, Resource.TOPIC, both),
        grant_line(target.properties, Right.WRITE, Resource.TOPIC, [COMMANDS_TOPIC]),
    )
    return "grant what is missing; CREATE only where the topics are not there yet:\n" + "\n".join(lines)


async def read_runners(target: ClusterClient, source_cluster_id: str, topics: Collection[str]) -> Runners:
    """Those that copy to any of these target topics."""
    group = claims_group_of(source_cluster_id)
    try:
        members = await read_members(target, group)
    except BrokerRefused as refused:
        words = f"whether a mirror runs cannot be asked: {refused.message}"
        if refused.code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            words += f"; {grant_line(target.properties, Right.DESCRIBE, Resource.GROUP, [group])}"
        return Runners(problem=words)
    except (RequestFailed, ProtocolError) as problem:
        return Runners(problem=f"whether a mirror runs cannot be asked: {problem.message}")
    concerned = [
        each
        for each in members
        if any(claim.covers(topic) for claim in read_claims(each.metadata) for topic in topics)
    ]
    told = ((read_runner(each.metadata), each.host) for each in concerned)
    return Runners(names=tuple(f"{who[0]} (pid {who[1]})" if who else host for who, host in told))


async def await_answers(
    ledger: Ledger, source_cluster_id: str, commands: Sequence[Command], tell: Tell
) -> dict[str, Answer]:
    """By command id, what was answered in the time that is given."""
    recorded = Recorded(ledger.state, ledger.commands, source_cluster_id)
    waiting = Waiting([each.id for each in commands], clock_of_waits())
    while True:
        with contextlib.suppress(
            RequestFailed, ProtocolError
        ):  # away for a moment: the time that is waited counts
            await ledger.catch_up()
        for new in waiting.hear(_answers(recorded, commands), clock_of_waits()):
            if new.message:
                tell(new.message)
        if waiting.is_over(clock_of_waits()):
            return waiting.answers
        await asyncio.sleep(LOOK_S)


def _answers(recorded: Recorded, commands: Sequence[Command]) -> dict[str, Answer]:
    found = map(recorded.answer, commands)
    return {each.id: each for each in found if each is not None}
