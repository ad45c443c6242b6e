"""Whether a target topic is deleted: every guard by itself holds it, and only all of them together let it go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from heliograph.cluster.topic_witnesses import Witness
from heliograph.controller.deletion_guards import (
    AT_SOURCE,
    ON_TARGET,
    RECORDED,
    Facts,
    Guard,
    Held,
    Next,
    SourceWord,
    TargetSight,
    decide,
    too_many,
)
from heliograph.controller.recorded import MirroredTopic
from heliograph.controller.topic_absence import Absence
from heliograph.model.producer_id import producer_id
from heliograph.wire.error_codes import ErrorCode

from .observed import SF_ID

SOURCE_ID, TARGET_ID = "id at the source", "id on the target"
OURS = producer_id(SF_ID, "orders")
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
TOPIC = MirroredTopic(
    link="sf-to-nyc",
    source_topic="orders",
    target_topic="sf.orders",
    source_topic_id=SOURCE_ID,
    target_topic_id=TARGET_ID,
    created=True,
    kept=False,
)
ABSENT = Absence(since={1: 0.0, 2: 1.0}, until={1: 62.0, 2: 61.0}, brokers=2)


def witness(node: int, **changed: Any) -> Witness:
    values: dict[str, Any] = {
        "cluster_id": SF_ID,
        "brokers": 2,
        "by_id": {SOURCE_ID: ErrorCode.UNKNOWN_TOPIC_ID},
        "by_name": {"orders": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
    }
    return Witness(node=node, **{**values, **changed})


def sure(*, absence: Absence = ABSENT, **changed: Any) -> SourceWord:
    """One of two brokers says what is changed."""
    return SourceWord(witnesses=(witness(1), witness(2, **changed)), absence=absence)


ALL_MET = Facts(
    topic=TOPIC,
    source_cluster_id=SF_ID,
    wanted=True,
    target_topic_id=TARGET_ID,
    holds=True,
    gone=1,
    of=10,
    source=sure(),
    target=TargetSight(topic_id=TARGET_ID, writers={0: OURS, 1: None}),
)


def test_a_topic_of_which_every_guard_is_met_is_deleted() -> None:
    assert decide(ALL_MET) is Next.DELETE


BROKEN: Mapping[Guard, list[dict[str, Any]]] = {
    Guard.WANTED: [{"wanted": False}],
    Guard.IDS: [
        {"topic": replace(TOPIC, source_topic_id="")},
        {"topic": replace(TOPIC, target_topic_id=""), "target_topic_id": ""},
    ],
    Guard.CREATED: [{"topic": replace(TOPIC, created=False)}],
    Guard.NOT_KEPT: [{"topic": replace(TOPIC, kept=True)}],
    Guard.READABLE: [{"unreadable": True}],
    Guard.SAME_TARGET: [{"target_topic_id": "id of another"}],
    Guard.NOT_STOPPED: [{"stops": {1: "foreign"}}, {"stops": {0: "recreated", 2: "lost"}}],
    Guard.NOT_PAUSED: [{"paused": frozenset({3})}],
    Guard.NO_COMMAND: [{"commanded": True}],
    Guard.HELD_BY_US: [{"holds": False}],
    Guard.FEW: [{"gone": 11, "of": 1000}, {"gone": 2, "of": 19}, {"gone": 2, "of": 2}],
    Guard.SAME_CLUSTER: [{"source": sure(cluster_id="another")}, {"source": sure(cluster_id="")}],
    Guard.SEEN_BY_NOBODY: [
        {"source": sure(by_id={SOURCE_ID: 0})},
        {"source": sure(by_id={SOURCE_ID: DENIED})},
        {"source": sure(by_id={})},
    ],
    Guard.RIGHTS: [{"source": sure(by_name={"orders": DENIED})}],
    Guard.NAME_NOT_BACK: [
        {"source": sure(by_name={"orders": 0})},
        {"source": sure(by_name={"orders": ErrorCode.LEADER_NOT_AVAILABLE})},
        {"source": sure(by_name={})},
    ],
    Guard.UNKNOWN_FOR: [
        {"source": sure(absence=Absence())},
        {"source": sure(absence=replace(ABSENT, until={1: 62.0, 2: 60.9}))},
        {"source": SourceWord(witnesses=(), absence=Absence())},
    ],
    Guard.STILL_SAME_TARGET: [
        {"target": TargetSight(topic_id="id of another")},
        {"target": TargetSight(topic_id="")},
        {"target_topic_id": ""},  # it was not seen when topics were counted
    ],
    Guard.LAST_BATCH: [
        {"target": TargetSight(topic_id=TARGET_ID, writers={0: OURS, 1: 7})},
        {"target": TargetSight(topic_id=TARGET_ID, writers={0: producer_id(SF_ID, "clicks")})},
        {"target": TargetSight(topic_id=TARGET_ID, writers={0: -1})},
    ],
}


def test_every_guard_is_in_one_table_and_has_a_row_here() -> None:
    assert [*RECORDED, *AT_SOURCE, *ON_TARGET] == list(Guard) == list(BROKEN)


@pytest.mark.parametrize(
    ("guard", "changed"),
    [
        pytest.param(guard, each, id=f"{guard}-{number}")
        for guard, rows in BROKEN.items()
        for number, each in enumerate(rows)
    ],
)
def test_every_guard_by_itself_holds_the_topic(guard: Guard, changed: dict[str, Any]) -> None:
    held = decide(replace(ALL_MET, **changed))
    assert isinstance(held, Held)
    assert held.guard is guard
    assert held.why


@pytest.mark.parametrize(
    "met",
    [
        {"stops": {0: "recreated"}},  # what lanes say of a source topic that is gone
        {"gone": 1, "of": 1},
        {"gone": 2, "of": 20},
        {"gone": 10, "of": 100},
        {"target": TargetSight(topic_id=TARGET_ID, writers={})},
        {"target": TargetSight(topic_id=TARGET_ID, writers={0: None})},
    ],
    ids=lambda met: next(iter(met)),
)
def test_what_is_no_hindrance_holds_nothing(met: dict[str, Any]) -> None:
    assert decide(replace(ALL_MET, **met)) is Next.DELETE


def test_nothing_is_taken_for_met_that_was_not_asked() -> None:
    unasked = replace(ALL_MET, source=None, target=None)
    assert decide(unasked) is Next.ASK_SOURCE
    assert decide(replace(unasked, target=ALL_MET.target)) is Next.ASK_SOURCE
    assert decide(replace(ALL_MET, target=None)) is Next.READ_TARGET
    assert isinstance(decide(replace(unasked, holds=False)), Held)


def test_a_topic_that_is_gone_on_the_target_too_is_forgotten_however_many_there_are() -> None:
    gone = replace(ALL_MET, target_topic_id="", target=TargetSight(topic_id=""))
    assert decide(gone) is Next.FORGET
    assert decide(replace(gone, gone=500, of=500)) is Next.FORGET
    assert isinstance(decide(replace(gone, source=sure(by_id={SOURCE_ID: 0}))), Held)


@pytest.mark.parametrize(
    ("gone", "of", "expected"),
    [
        (0, 0, False),
        (1, 1, False),
        (1, 5, False),
        (2, 5, True),
        (2, 19, True),
        (2, 20, False),
        (10, 100, False),
        (10, 99, True),
        (11, 110, True),
        (11, 100_000, True),
    ],
)
def test_more_than_ten_topics_or_more_than_one_in_ten_are_too_many_but_one_never_is(
    gone: int, of: int, expected: bool
) -> None:
    assert too_many(gone, of) is expected
