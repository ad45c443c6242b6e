"""Hints name commands that can be pasted, with the names of the partition that they are about."""

from __future__ import annotations

import ast
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import heliograph
from heliograph.controller.board import Board
from heliograph.controller.link_ledger import LinkLedger
from heliograph.controller.plan import RefusePartition
from heliograph.copier.partition_copy import PartitionCopy
from heliograph.copier.recovery import APPEND_ANSWERS, NEVER_READ, Stop
from heliograph.engine.copy_reports import progress_of
from heliograph.model import hints
from heliograph.model.admission import Refused
from heliograph.model.command import CommandState
from heliograph.model.hints import ACCEPT_LOSS, AFRESH, REMIRROR, RESUME, RESUME_TOPIC, hint_for, topics_line
from heliograph.model.ledger import LedgerState
from heliograph.model.occurrence import of_stop
from heliograph.model.partition import MirrorPartition
from heliograph.model.states import StopReason
from tests.controller.observed import partition
from tests.copier.source_batches import spec_of

PACKAGE = Path(heliograph.__file__).parent
P3 = MirrorPartition("sf-to-nyc", "orders", "sf.orders", 3)


@pytest.mark.parametrize(
    ("placeholder", "line"),
    [
        (RESUME, "heliograph topics resume sf-to-nyc orders:3"),
        (RESUME_TOPIC, "heliograph topics resume sf-to-nyc orders"),
        (ACCEPT_LOSS, "heliograph topics resume sf-to-nyc orders:3 --accept-loss"),
        (REMIRROR, "heliograph topics remirror sf-to-nyc orders"),
        (hints.TARGET_TOPIC, "sf.orders"),
    ],
)
def test_a_placeholder_becomes_a_line_with_the_names_of_the_source(placeholder: str, line: str) -> None:
    assert hint_for(P3, f"mend it, then: {placeholder}") == f"mend it, then: {line}"


def test_every_placeholder_is_filled_and_one_time_is_enough() -> None:
    texts = [text for name, text in vars(hints).items() if name.isupper()]
    assert len(texts) > 8
    for text in texts:
        once = hint_for(P3, text)
        assert "{" not in once
        assert hint_for(P3, once) == once


def test_names_that_look_like_options_are_no_options() -> None:
    line = topics_line("resume", "-link", "-topic:0", options=["--accept-loss"], config="my conf.yaml")
    assert line == "heliograph topics resume -f 'my conf.yaml' --accept-loss -- -link -topic:0"
    assert shlex.split(line)[-2:] == ["-link", "-topic:0"]


def refused(where: MirrorPartition) -> RefusePartition:
    why = Refused(reason=StopReason.FOREIGN, message="somebody else wrote it", hint=AFRESH)
    return RefusePartition(partition=where, why=why)


def test_who_shows_or_writes_a_stop_puts_the_names_in() -> None:
    where = partition(0)
    why = refused(where).why
    wanted = hint_for(where, AFRESH)
    assert wanted.endswith(": heliograph topics remirror sf-to-nyc orders")
    assert of_stop(where, why.as_stop(), datetime.now(UTC)).hint == wanted
    assert Board([], [refused(where)]).rows[where].hint == wanted
    copy = PartitionCopy(spec_of(), 1)
    copy.stop(why.as_stop())
    assert progress_of(copy, 0.0).hint == hint_for(copy.spec.partition, AFRESH)
    ledger: Any = SimpleNamespace(state=LedgerState(), commands=CommandState())
    row = LinkLedger(ledger, where.link, "sf-id", lambda _topic: "").of_stop(where, why)
    assert row.fields is not None
    assert row.fields["hint"] == wanted


def texts_of(path: Path) -> list[str]:
    """What the code may say: all its texts but docstrings."""
    tree = ast.parse(path.read_text())
    documentation = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in documentation
    ]


@pytest.mark.parametrize("advice", ["delete the", "delete it ", "then start again", "and start again"])
def test_no_hint_asks_for_what_a_command_does(advice: str) -> None:
    assert [
        path.name
        for path in sorted(PACKAGE.rglob("*.py"))
        if any(re.search(advice, text, re.IGNORECASE) for text in texts_of(path))
    ] == []


def test_the_advice_to_mirror_a_topic_again_says_what_is_lost() -> None:
    assert "are lost" in AFRESH


def test_what_a_lane_met_is_mended_and_resumed() -> None:
    answers = [each.hint for each in APPEND_ANSWERS.values() if isinstance(each, Stop)]
    for hint in [*answers, *NEVER_READ.values()]:
        assert hint_for(P3, hint).endswith(", then: heliograph topics resume sf-to-nyc orders:3")
