"""What a ledger says of a partition to whoever has no running mirror to ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from heliograph.controller.ledger_word import SILENT, LedgerWord, as_recorded
from heliograph.controller.recorded import Recorded
from heliograph.model.command import Command, CommandState, Outcome, Subject, Wish, encode_command
from heliograph.model.ledger import WHOLE_TOPIC, LedgerState, Row, RowKind, RowName
from heliograph.model.partition import TopicPartition
from heliograph.model.partition_status import PartitionStatus
from heliograph.model.states import PartitionState, StopReason

from .observed import SF_ID, partition

ORDERS = TopicPartition("orders", 0)
HERE, BEFORE = "id of the topic", "id of the one before"
STOP = {"code": "lost", "message": "offsets 5 to 9 are gone", "hint": "resume", "target_topic_id": HERE}
PAUSE = Command(
    id="1",
    wish=Wish.PAUSE,
    subject=Subject(source_cluster_id=SF_ID, target_topic="orders", partition=0),
    at=datetime(2026, 3, 1, tzinfo=UTC),
    author="ann@desk",
    target_topic_id=HERE,
)


def row(kind: RowKind, fields: Mapping[str, object]) -> Row:
    name = RowName(source_cluster_id=SF_ID, target_topic="orders", partition=0, kind=kind)
    return Row(name=name, term=1, fields=fields)


def word(*rows: Row, commands: tuple[Command, ...] = ()) -> LedgerWord:
    state, wishes = LedgerState(), CommandState()
    for each in rows:
        state.put(each)
    for command in commands:
        wishes.take(*encode_command(command))
    return Recorded(state, wishes, SF_ID).word(ORDERS, HERE)


def answered(outcome: Outcome) -> Row:
    return row(RowKind.ANSWER, {"id": "1", "outcome": outcome, "message": "m", "hint": "h"})


def test_an_empty_ledger_says_nothing() -> None:
    assert word() == SILENT
    assert SILENT.state is None
    unknown = PartitionStatus(partition=partition())
    assert as_recorded(unknown, SILENT) == unknown


@pytest.mark.parametrize("topic_id", [HERE, ""])
def test_a_stop_is_told_with_its_code_and_hint(topic_id: str) -> None:
    told = word(row(RowKind.STOP, {**STOP, "target_topic_id": topic_id}))
    status = as_recorded(PartitionStatus(partition=partition(), next_offset=5), told)
    assert (status.state, status.reason) == (PartitionState.STOPPED, StopReason.LOST)
    assert (status.error, status.hint, status.next_offset) == ("offsets 5 to 9 are gone", "resume", 5)


def test_a_stop_of_a_topic_that_was_made_again_is_not_told() -> None:
    assert word(row(RowKind.STOP, {**STOP, "target_topic_id": BEFORE})) == SILENT


def test_a_code_of_another_version_is_told_in_its_own_words() -> None:
    told = word(row(RowKind.STOP, {**STOP, "code": "of tomorrow"}))
    assert told.stop is not None
    assert told.stop.code == "of tomorrow"
    status = as_recorded(PartitionStatus(partition=partition()), told)
    assert (status.state, status.reason) == (PartitionState.STOPPED, None)


def test_a_pause_counts_before_any_mirror_has_read_it() -> None:
    assert word(commands=(PAUSE,)).state is PartitionState.PAUSED
    assert word(answered(Outcome.APPLIED), commands=(PAUSE,)).pause == PAUSE


def test_a_pause_that_was_refused_or_taken_back_does_not_count() -> None:
    assert word(answered(Outcome.REFUSED), commands=(PAUSE,)).state is None
    resume = replace(PAUSE, id="2", wish=Wish.RESUME)
    assert word(commands=(PAUSE, resume)).state is None
    assert word(commands=(replace(PAUSE, target_topic_id=BEFORE),)).state is None


def test_an_answer_to_another_command_is_none() -> None:
    told = word(answered(Outcome.REFUSED), commands=(replace(PAUSE, id="2"),))
    assert told.copying is not None
    assert told.copying.answer is None
    assert told.state is PartitionState.PAUSED


def test_a_stop_counts_more_than_a_pause() -> None:
    assert word(row(RowKind.STOP, STOP), commands=(PAUSE,)).state is PartitionState.STOPPED


def test_a_newer_version_is_told_as_what_cannot_be_read() -> None:
    state = LedgerState()
    state.take(b"\x07{}", b"\x07{}")
    told = Recorded(state, CommandState(), SF_ID).word(ORDERS, HERE)
    assert told.state is None
    assert "version 7" in (told.unread or "")


def test_a_wish_to_mirror_the_topic_again_is_told_of_each_partition_until_it_is_done() -> None:
    whole = replace(PAUSE.subject, partition=WHOLE_TOPIC)
    again = replace(PAUSE, id="2", wish=Wish.REMIRROR, subject=whole)
    told = word(commands=(PAUSE, again))
    assert (told.state, told.pause) == (PartitionState.PAUSED, PAUSE)
    assert told.remirror is not None
    assert told.remirror.command == again
    assert word(commands=(replace(again, target_topic_id=BEFORE),)).remirror is None
