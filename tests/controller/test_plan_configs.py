"""A plan says what becomes of target topics' configs, and what a target would not take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from heliograph.cluster.client import ClusterClient
from heliograph.cluster.properties import parse_properties
from heliograph.controller import config_refusals
from heliograph.controller.build_settings import with_build
from heliograph.controller.config_refusals import (
    RefusedConfigs,
    not_known,
    refused_by,
    tellings,
    warn_of_refusals,
)
from heliograph.controller.config_verdict import Drift
from heliograph.controller.gap_filling import UNREAD
from heliograph.controller.plan import ChangeConfigs, KeepConfigs, Plan, plan
from heliograph.controller.plan_document import plan_document
from heliograph.controller.recorded import NOTHING_RECORDED, Recorded
from heliograph.interface.cli.plan_table import table_of
from heliograph.model.command import CommandState
from heliograph.model.config_rules import ConfigRules
from heliograph.model.errors import BrokerRefused, Disconnected
from heliograph.model.ledger import WHOLE_TOPIC, LedgerState, Row, RowKind, RowName
from heliograph.model.link import Link
from heliograph.wire.error_codes import ErrorCode

from .observed import LINK, SF_ID, config, mirrored_sight, snapshot, source_topic, target_topic

DAY, HOUR = "86400000", "3600000"
KNOWN: Mapping[str, Any] = {"segment_ms": "1", "retention_ms": "2"}  # the target's brokers know these
OURS = mirrored_sight(source_end=9, target_end=9)
PROPERTIES = parse_properties({"bootstrap.servers": "nyc:9092"})


def recorded(**fields: Any) -> Recorded:
    state = LedgerState()
    name = RowName(source_cluster_id=SF_ID, target_topic="orders", partition=WHOLE_TOPIC, kind=RowKind.TOPIC)
    ids = {"source_topic_id": "", "target_topic_id": ""}
    state.put(Row(name=name, term=1, fields={"source_topic": "orders", **ids, **fields}))
    return Recorded(state, CommandState(), SF_ID)


def planned(
    source: Mapping[str, str],
    target: Mapping[str, str],
    *,
    link: Link = LINK,
    known: Recorded = NOTHING_RECORDED,
) -> Plan:
    topic = source_topic(sights=[OURS], config=config(source, **KNOWN))
    there = replace(target_topic(own=target, **KNOWN), replication_factor=1)
    seen = snapshot(topic, targets=[there], link=link, target_defaults={"retention.ms": "2"})
    return plan([seen], recorded_of=lambda _: known)


def test_configs_that_follow_are_to_be_changed_and_an_operators_are_kept() -> None:
    source = {"segment.ms": DAY, "retention.ms": DAY, "x.y": "1"}
    made = planned(
        source, {"segment.ms": HOUR, "retention.ms": HOUR}, known=recorded(followed={"segment.ms": HOUR})
    )
    change, kept = made.config_changes[0], made.kept_configs[0]
    assert change == ChangeConfigs(
        link="sf-to-nyc", topic="orders", changes={"segment.ms": DAY}, before={"segment.ms": HOUR}
    )
    assert kept == KeepConfigs(
        link="sf-to-nyc",
        topic="orders",
        drift={"retention.ms": Drift(source=DAY, target=HOUR)},
        unknown={"x.y": "1"},
    )
    assert made.actions[:2] == (change, kept)
    assert made.warnings == ()


def test_nothing_is_said_of_configs_that_are_in_step_or_that_nobody_wants_to_follow() -> None:
    same = {"segment.ms": DAY}
    rules = replace(LINK, topic_configs=ConfigRules(sync=False))
    for made in (planned(same, same), planned(same, {}, link=rules)):
        assert (made.config_changes, made.kept_configs) == ((), ())


@pytest.mark.parametrize(
    "target", [target_topic(own=with_build({}), **KNOWN), target_topic(partitions=3, **KNOWN)]
)
def test_configs_of_a_topic_that_is_built_or_refused_are_left_alone(target: Any) -> None:
    topic = source_topic(sights=[OURS], config=config({"segment.ms": DAY}, cleanup_policy="compact"))
    made = plan([snapshot(topic, targets=[target])])
    assert (made.config_changes, made.kept_configs) == ((), ())


def test_configs_of_a_topic_that_nobody_shows_to_be_a_mirror_are_left_alone() -> None:
    empty = mirrored_sight(source_end=9, target_end=0)
    topic = source_topic(sights=[empty], config=config({"segment.ms": DAY}))
    seen = snapshot(topic, targets=[target_topic(**KNOWN)])
    assert plan([seen]).config_changes == ()
    assert len(plan([seen], recorded_of=lambda _: recorded()).config_changes) == 1


def test_the_table_has_a_line_for_each_topic_and_json_all_of_it() -> None:
    made = planned(
        {"segment.ms": DAY, "retention.ms": DAY, "x.y": "1"},
        {"retention.ms": HOUR},
    )
    document = plan_document(made, [LINK], {LINK.name: UNREAD})
    console = Console(width=200, record=True)
    console.print(table_of(document))
    text = console.export_text()
    assert f"link sf-to-nyc: target topic orders: configs to change: segment.ms not set -> {DAY}" in text
    assert (
        f"link sf-to-nyc: target topic orders: retention.ms={HOUR}, kept (source: {DAY});"
        " x.y=1 of the source is not known to its brokers" in text
    )
    assert [each["action"] for each in document["actions"]][:2] == ["change_configs", "keep_configs"]
    assert document["to_do"]
    kept = plan_document(replace(made, config_changes=()), [LINK], {LINK.name: UNREAD})
    assert not kept["to_do"]


# -- what a target does not take

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def change(topic: str, *names: str) -> ChangeConfigs:
    return ChangeConfigs(
        link="sf-to-nyc", topic=topic, changes=dict.fromkeys(names, "1"), before=dict.fromkeys(names)
    )


def told(*refusals: RefusedConfigs) -> list[tuple[str, str]]:
    return [(each.message, each.hint) for each in tellings(PROPERTIES, refusals)]


def test_a_right_that_is_missing_is_told_once_for_all_topics_with_the_line_that_grants_it() -> None:
    refusals = [
        RefusedConfigs(topic=f"t{number}", names=(f"config.{number}",), code=DENIED, words=str(number))
        for number in range(7)
    ]
    ((message, hint),) = told(*refusals)
    assert "target topics t0, t1, t2, t3, t4 and 2 more" in message
    assert "--operation AlterConfigs --topic t0" in hint


def test_what_the_brokers_refuse_is_told_with_the_line_that_leaves_it_out() -> None:
    invalid = BrokerRefused("topic a: at least 1048576", code=ErrorCode.INVALID_CONFIG)
    other = BrokerRefused("topic b: at least 1048576", code=ErrorCode.INVALID_CONFIG)
    by_policy = BrokerRefused("topic a: no", code=ErrorCode.POLICY_VIOLATION)
    names = ("segment.bytes",)
    assert told(refused_by("a", names, invalid), refused_by("b", names, other)) == [
        (
            "segment.bytes of target topics a, b does not follow the source: at least 1048576",
            'topic_configs: {exclude: ["segment.bytes"]}',
        )
    ]
    ((_, hint),) = told(refused_by("a", names, by_policy))
    assert hint.startswith("let the cluster (alter.config.policy.class.name) accept it")
    ((message, _),) = told(not_known("a", ["x.y"]))
    assert message == "x.y of target topic a does not follow the source: its brokers do not know it"


async def test_a_plan_asks_what_the_target_would_take_and_has_one_line_for_each_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def answer(
        _client: object, changes: Mapping[str, Mapping[str, str | None]]
    ) -> dict[str, tuple[int, str]]:
        asked.update(changes)
        return {"a": (DENIED, ""), "b": (DENIED, "no"), "c": (0, ""), "d": (ErrorCode.INVALID_CONFIG, "bad")}

    async def hang(*_: object) -> dict[str, tuple[int, str]]:
        raise Disconnected("gone")

    asked: dict[str, Mapping[str, str | None]] = {}
    client = cast(ClusterClient, SimpleNamespace(properties=PROPERTIES))
    monkeypatch.setattr(config_refusals, "try_changing_configs", answer)
    warnings = await warn_of_refusals(client, [change(topic, "segment.ms") for topic in "abcd"])
    assert asked["a"] == {"segment.ms": "1"}
    denied, bad = warnings
    assert denied.startswith("link sf-to-nyc: configs of target topics a, b do not follow the source")
    assert "(hint: kafka-acls.sh --bootstrap-server nyc:9092 --add" in denied
    assert "segment.ms of target topic d does not follow the source: INVALID_CONFIG (bad)" in bad
    assert await warn_of_refusals(client, []) == []
    monkeypatch.setattr(config_refusals, "try_changing_configs", hang)
    (unknown,) = await warn_of_refusals(client, [change("a", "segment.ms")])
    assert "is not known: gone" in unknown
