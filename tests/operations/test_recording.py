"""Commands are written as they were decided, and answers are waited for; the logs are in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.properties import parse_properties
from heliograph.cluster.record_log import Pair
from heliograph.controller.ledger import Ledger
from heliograph.model.command import Command, CommandState, Outcome, Wish
from heliograph.model.errors import BrokerRefused, CommandRefused, RequestTimedOut
from heliograph.model.ledger import LEDGER_TOPIC, Row, RowKind, RowName, encode_row
from heliograph.operations import recording
from heliograph.operations.decision import Decision, Draft
from heliograph.operations.recording import await_answers, commands_of, write_down
from heliograph.wire.error_codes import ErrorCode
from tests.controller.memory_logs import MemoryLogs
from tests.controller.observed import LINK, SF_ID, partition

from .scene import NOW, TOPIC_ID

TARGET = ClusterClient("nyc", parse_properties({"bootstrap.servers": "nyc:9092"}))


def decided(**changed: Any) -> Decision:
    draft = Draft(where=partition(3), target_topic_id=TOPIC_ID, **{"wish": Wish.RESUME, **changed})
    return Decision(link=LINK, source_cluster_id=SF_ID, wish=draft.wish, drafts=(draft,))


async def written(logs: MemoryLogs, decision: Decision) -> tuple[Ledger, Command]:
    ledger = Ledger(logs)
    ((_, command),) = commands_of(decision, "ann@desk", NOW)
    await write_down(TARGET, ledger, [command])
    return ledger, command


def answer(command: Command, outcome: Outcome, message: str) -> Pair:
    subject = command.subject
    name = RowName(
        source_cluster_id=SF_ID,
        target_topic=subject.target_topic,
        partition=subject.partition,
        kind=RowKind.ANSWER,
    )
    fields = {"id": command.id, "outcome": outcome, "message": message, "hint": "", "at": ""}
    return encode_row(Row(name=name, term=1, fields=fields))


async def test_a_command_is_written_as_it_was_decided() -> None:
    logs = MemoryLogs()
    _, command = await written(logs, decided(stop="lost", loses={3: (5, 9)}))
    state = CommandState()
    for log in logs.logs.values():
        for record in log.records:
            state.take(record.key, record.value)
    (found,) = state.about(SF_ID)
    assert found == command
    assert (found.subject.partition, found.stop, found.loses) == (3, "lost", {3: (5, 9)})
    assert (found.target_topic_id, found.author, found.at) == (TOPIC_ID, "ann@desk", NOW)


@pytest.mark.parametrize(
    "code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
)
async def test_without_the_right_the_lines_that_grant_it_are_told(code: int) -> None:
    with pytest.raises(CommandRefused, match="cannot be recorded on cluster 'nyc'") as refused:
        await written(MemoryLogs(BrokerRefused("topic x cannot be created", code=code)), decided())
    assert refused.value.exit_code == 1
    _, create, read, write = refused.value.hint.splitlines()
    for line, right in ((create, "Create"), (read, "Read"), (write, "Write")):
        assert line.startswith("kafka-acls.sh --bootstrap-server nyc:9092 --add")
        assert f"--operation {right}" in line
        assert "__heliograph_commands" in line


async def test_an_unknown_outcome_is_told_as_that() -> None:
    with pytest.raises(CommandRefused, match="is not known: no answer"):
        await written(MemoryLogs(RequestTimedOut("no answer")), decided())


async def test_answers_are_told_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "LOOK_S", 0.01)
    logs, told = MemoryLogs(), list[str]()
    ledger, command = await written(logs, decided(wish=Wish.REMIRROR))
    rows = logs.logs[LEDGER_TOPIC]

    def tell(line: str) -> None:
        told.append(line)
        if line == "deleting":
            asyncio.get_running_loop().create_task(rows.append([answer(command, Outcome.APPLIED, "done")]))

    await rows.append([answer(command, Outcome.UNDER_WAY, "deleting")])
    answers = await await_answers(ledger, SF_ID, [command], tell)
    assert told == ["deleting", "done"]
    assert answers[command.id].outcome is Outcome.APPLIED


async def test_who_is_not_answered_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "LOOK_S", 0.01)
    monkeypatch.setattr("heliograph.operations.answers.FIRST_ANSWER_S", 0.05)
    ledger, command = await written(MemoryLogs(), decided())
    assert await await_answers(ledger, SF_ID, [command], list[str]().append) == {}
