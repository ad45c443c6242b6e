"""A link is made ready: its topics are created, and one that cannot be stops alone (P7)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from heliograph.cluster.admin import TopicConfig
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.properties import parse_properties
from heliograph.controller import build_changes, making
from heliograph.controller.act import Made
from heliograph.controller.build_settings import KEEP_OFF, with_build
from heliograph.controller.plan import CreateTopic, Plan
from heliograph.controller.preparation import prepare
from heliograph.model.errors import BrokerRefused, ClusterUnreachable, Disconnected, ProtocolError
from heliograph.model.hints import REMIRROR
from heliograph.model.occurrence_log import logged
from heliograph.model.states import StopReason
from heliograph.wire.error_codes import ErrorCode

from .observed import (
    LINK,
    config,
    mirrored_sight,
    partition,
    snapshot,
    source_sight,
    source_topic,
    target_topic,
)
from .played import FakeClusters, observed

TARGET = cast(ClusterClient, SimpleNamespace(properties=parse_properties({"bootstrap.servers": "nyc:9092"})))
TOPICS = [source_topic(name, [source_sight(0, 10)] * 2) for name in ("orders", "payments")]


class Creations:
    """What was created, and where; `problems` by topic. `there`: what somebody else has created meanwhile."""

    def __init__(self, **problems: Exception) -> None:
        self.problems = problems
        self.problems_left: float = math.inf
        self.made: list[str] = []
        self.there: set[str] = set()
        self.warnings: tuple[str, ...] = ()

    async def create(self, target: ClusterClient, creation: CreateTopic) -> Made:
        assert target is TARGET
        self.made.append(creation.topic)
        if creation.topic in self.problems and self.problems_left:
            self.problems_left -= 1
            raise self.problems[creation.topic]
        return Made(new=creation.topic not in self.there, warnings=self.warnings)


def prepared(
    clusters: FakeClusters,
    creations: Creations | None = None,
    *,
    monkeypatch: pytest.MonkeyPatch,
    mirrored: tuple[str, ...] = (),
) -> Plan:
    monkeypatch.setattr(making, "create", (creations or Creations()).create)
    clusters.targets = {LINK.name: TARGET}
    _, todo = asyncio.run(prepare(clusters.made, LINK.name, logged(), mirrored))
    return todo


def test_topics_that_are_missing_are_created_and_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    creations = Creations()
    creations.warnings = ("the target does not know x.y",)
    todo = prepared(FakeClusters(snapshot(*TOPICS)), creations, monkeypatch=monkeypatch)
    assert creations.made == ["orders", "payments"]
    assert [c.topic for c in todo.creations] == ["orders", "payments"]
    assert (len(todo.copies), todo.refusals) == (4, ())
    codes = [getattr(r, "event", None) for r in caplog.records]
    assert codes.count("topic_created") == 2
    assert "the target does not know x.y" in caplog.text


def test_a_topic_that_was_deleted_while_it_was_mirrored_is_not_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    creations = Creations()
    clusters = FakeClusters(snapshot(*TOPICS))
    todo = prepared(clusters, creations, monkeypatch=monkeypatch, mirrored=("orders",))
    assert creations.made == ["payments"]
    assert {c.spec.partition.target_topic for c in todo.copies} == {"payments"}
    assert [(r.partition.target_topic, r.why.reason) for r in todo.refusals] == [
        ("orders", StopReason.RECREATED)
    ] * 2


def test_a_topic_that_an_operator_is_to_create_is_left_to_it_but_not_after_it_was_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    creations = Creations()
    clusters = FakeClusters(snapshot(*TOPICS, link=replace(LINK, create_topics=False)))
    todo = prepared(clusters, creations, monkeypatch=monkeypatch, mirrored=("orders",))
    assert (creations.made, todo.creations, todo.copies) == ([], (), ())
    assert {each.partition.target_topic for each in todo.awaited} == {"payments"}
    assert [(r.partition.target_topic, r.why.reason) for r in todo.refusals] == [
        ("orders", StopReason.RECREATED)
    ] * 2


def test_nothing_is_created_where_all_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    creations = Creations()
    todo = prepared(FakeClusters(observed(2)), creations, monkeypatch=monkeypatch)
    assert creations.made == []
    assert len(todo.copies) == 2


@pytest.mark.parametrize(
    "problem",
    [
        BrokerRefused("not allowed", code=29),
        ProtocolError("not what Kafka says"),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_a_topic_that_cannot_be_created_stops_alone(
    problem: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    creations = Creations(orders=problem)
    todo = prepared(FakeClusters(snapshot(*TOPICS)), creations, monkeypatch=monkeypatch)
    assert {c.spec.partition.source_topic for c in todo.copies} == {"payments"}
    refused = {r.partition: r.why for r in todo.refusals}
    assert set(refused) == {partition(0), partition(1)}
    assert {why.reason for why in refused.values()} == {StopReason.REFUSED}
    assert {why.message for why in refused.values()} == {problem.message}
    assert all("create topic orders" in why.hint for why in refused.values())
    assert [c.topic for c in todo.creations] == ["payments"]
    assert "created topic orders" not in caplog.text


@pytest.mark.parametrize(
    "problem",
    [Disconnected("broker 1 is gone"), BrokerRefused("no time", code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)],
    ids=lambda problem: type(problem).__name__,
)
def test_a_topic_that_cannot_be_created_for_now_waits_alone_and_is_no_refusal(
    problem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "TRIED_FOR_S", 0.0)
    todo = prepared(FakeClusters(snapshot(*TOPICS)), Creations(orders=problem), monkeypatch=monkeypatch)
    assert {c.spec.partition.source_topic for c in todo.copies} == {"payments"}
    assert todo.refusals == ()
    assert [each.partition for each in todo.awaited] == [partition(0), partition(1)]
    assert all(each.why == f"{problem.message}; it is tried again" for each in todo.awaited)


def test_a_creation_that_fails_for_a_moment_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "TRY_AGAIN_S", 0.0)
    creations = Creations(orders=Disconnected("broker 1 is gone"))
    creations.problems_left = 2
    todo = prepared(FakeClusters(snapshot(*TOPICS)), creations, monkeypatch=monkeypatch)
    assert sorted(creations.made) == ["orders"] * 3 + ["payments"]
    assert (len(todo.copies), todo.refusals, todo.awaited) == (4, (), ())


def test_a_cluster_that_is_away_is_told_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterUnreachable):
        prepared(FakeClusters(ClusterUnreachable("sf is away")), monkeypatch=monkeypatch)


def test_a_topic_that_somebody_else_has_created_meanwhile_is_mirrored_and_no_creation_of_ours(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A driver before us may have: what its lanes have sent must be waited for, as in any other topic."""
    caplog.set_level("INFO")
    creations = Creations()
    creations.there = {"orders"}
    todo = prepared(FakeClusters(snapshot(*TOPICS)), creations, monkeypatch=monkeypatch)
    assert [c.topic for c in todo.creations] == ["payments"]
    assert (len(todo.copies), todo.refusals) == (4, ())
    assert "created topic orders" not in caplog.text


# -- compacted topics


COMPACT = {"cleanup.policy": "compact"}
COMPACTED = source_topic(sights=[source_sight(0, 10)], config=config(COMPACT))


class Settings:
    """Of topics that are on the target. `refused`: what the next changes are refused with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **own: str) -> None:
        self.own = {name.replace("_", "."): value for name, value in own.items()}
        self.refused: list[BrokerRefused | Disconnected] = []
        self.tried: list[Mapping[str, str | None]] = []
        monkeypatch.setattr(making, "describe_topic_configs", self.describe)
        monkeypatch.setattr(build_changes, "alter_topic_configs", self.alter)

    async def describe(self, _client: ClusterClient, topics: list[str]) -> dict[str, TopicConfig]:
        return dict.fromkeys(topics, config(self.own))

    async def alter(
        self,
        _client: ClusterClient,
        topic: str,
        changes: Mapping[str, str | None],
        *,
        validate_only: bool = False,
    ) -> None:
        assert (topic, validate_only) == ("orders", True)
        self.tried.append(changes)
        if self.refused:
            raise self.refused.pop(0)


def test_fillers_never_go_into_a_topic_that_somebody_else_has_created_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Settings(monkeypatch, cleanup_policy="delete")
    creations = Creations()
    creations.there = {"orders"}
    todo = prepared(FakeClusters(snapshot(COMPACTED)), creations, monkeypatch=monkeypatch)
    assert todo.copies == ()
    (refusal,) = todo.refusals
    assert refusal.why.reason is StopReason.BUILD
    assert REMIRROR in refusal.why.hint


def test_a_topic_that_a_driver_before_us_has_created_to_build_it_is_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings, creations = Settings(monkeypatch), Creations()
    settings.own, creations.there = with_build(COMPACT), {"orders"}
    todo = prepared(FakeClusters(snapshot(COMPACTED)), creations, monkeypatch=monkeypatch)
    assert [copy.spec.builds for copy in todo.copies] == [True]
    assert todo.refusals == ()


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (ErrorCode.POLICY_VIOLATION, "alter.config.policy.class.name"),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "--operation AlterConfigs"),
    ],
)
@pytest.mark.parametrize("there", [True, False])
def test_a_topic_whose_settings_could_not_be_changed_is_not_filled(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode, says: str, there: bool
) -> None:
    settings = Settings(monkeypatch)
    settings.refused = [BrokerRefused("no", code=code)]
    sight = mirrored_sight(source_end=10, target_end=5)
    topic = source_topic(sights=[sight if there else source_sight(0, 10)], config=config(COMPACT))
    targets = [target_topic(own=with_build(COMPACT))] if there else []
    todo = prepared(FakeClusters(snapshot(topic, targets=targets)), monkeypatch=monkeypatch)
    assert todo.copies == ()
    (refusal,) = todo.refusals
    assert refusal.why.reason is StopReason.BUILD
    assert says in refusal.why.hint


def test_who_creates_a_topic_to_build_it_says_that_consumers_must_keep_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    Settings(monkeypatch)
    prepared(FakeClusters(snapshot(COMPACTED, TOPICS[1])), monkeypatch=monkeypatch)
    assert [KEEP_OFF in each.message for each in caplog.records if "created topic" in each.message] == [
        True,
        False,
    ]


def test_both_changes_are_tried_and_a_broker_that_does_not_answer_refuses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = Settings(monkeypatch)
    settings.refused = [Disconnected("away")]
    todo = prepared(FakeClusters(snapshot(COMPACTED)), monkeypatch=monkeypatch)
    assert len(todo.copies) == 1
    first, last = settings.tried
    assert first == COMPACT
    assert last["segment.ms"] is None


def test_other_links_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is away must not hold this one up (P7)."""
    clusters = FakeClusters(observed())
    prepared(clusters, monkeypatch=monkeypatch)
    assert clusters.observed == [LINK.name]
    assert clusters.observations == 1
