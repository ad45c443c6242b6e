"""What `heliograph plan` shows: JSON complete, the table short."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from heliograph.cluster.grants import Right
from heliograph.controller.gap_filling import GapFilling, GapWay
from heliograph.controller.plan import DeleteTopic, plan
from heliograph.controller.plan_document import plan_document
from heliograph.interface.cli.plan_table import table_of
from heliograph.model.events import Event
from heliograph.model.fill_rate import FillRate
from heliograph.model.fill_way import FillWay
from heliograph.model.link import Link
from heliograph.model.policy import DEFAULT_POLICY, OnLoss, TopicPolicy
from heliograph.model.settings import Caution
from tests.controller.observed import LINK, snapshot, source_sight, source_topic, target_topic

SKIPPING = replace(DEFAULT_POLICY, on_loss=OnLoss.CONTINUE)
ENTRIES = (TopicPolicy(match="orders", policy=SKIPPING), TopicPolicy(match=".*", policy=DEFAULT_POLICY))

MEASURED = FillRate(FillWay.MARKERS, 12_300.4, "2026-11-18T01:02:03.000+00:00")
BY_MARKERS = GapFilling(way=GapWay.MARKERS, granted=Right.ALTER)


def table_text(document: dict[str, Any]) -> str:
    console = Console(width=200, record=True)
    console.print(table_of(document))
    return console.export_text()


def shown(link: Link) -> tuple[dict[str, dict[str, str]], str]:
    """By topic the policy in JSON, and the table. Topic `refused` has 3 partitions on the target."""
    topics = [source_topic(name) for name in ("orders", "payments", "refused")]
    seen = snapshot(*topics, link=link, targets=[target_topic("refused", partitions=3)])
    document = plan_document(plan([seen]), [link], {link.name: BY_MARKERS})
    return {row["source_topic"]: row["policy"] for row in document["partitions"]}, table_text(document)


def test_json_has_the_whole_policy_of_every_partition_also_of_refused_ones() -> None:
    policies, _ = shown(replace(LINK, policies=ENTRIES))
    assert policies["orders"] == SKIPPING.texts()
    assert policies["payments"] == policies["refused"] == DEFAULT_POLICY.texts()


def test_a_refused_topic_is_shown_with_the_command_that_mirrors_it_again() -> None:
    seen = snapshot(source_topic("more"), targets=[target_topic("more", partitions=3)])
    document = plan_document(plan([seen]), [LINK], {LINK.name: BY_MARKERS})
    assert {row["hint"].rpartition(": ")[2] for row in document["partitions"]} == {
        "heliograph topics remirror sf-to-nyc more"
    }


def test_a_topic_that_an_operator_is_to_create_is_shown_with_the_line_that_does_it() -> None:
    link = replace(LINK, create_topics=False)
    document = plan_document(plan([snapshot(source_topic(), link=link)]), [link], {link.name: BY_MARKERS})
    (row,) = document["partitions"]
    assert document["create"] == []
    assert (row["refused"], row["next_offset"], row["backlog"]) == (None, 0, 100)
    assert "create_topics: false" in row["pending"]
    assert row["hint"].startswith("kafka-topics.sh --bootstrap-server nyc:9092 --create --topic orders ")
    console = Console(width=2000, record=True)
    console.print(table_of(document))
    assert f"wait: {row['pending']}. {row['hint']}" in console.export_text()


def test_the_table_has_a_column_of_policies_only_where_one_is_not_the_default() -> None:
    assert "policy" not in shown(LINK)[1]
    table = shown(replace(LINK, policies=ENTRIES))[1]
    (orders,) = [line for line in table.splitlines() if "orders" in line]
    assert "policy" in table
    assert "on_loss: continue" in orders
    assert table.count("on_loss") == 1


@pytest.mark.parametrize(
    ("filling", "text"),
    [
        (BY_MARKERS, "markers (ALTER granted), some 15,000 offsets/s"),
        (
            GapFilling(way=GapWay.MARKERS, granted=Right.CLUSTER_ACTION),
            "markers (CLUSTER_ACTION granted), some 15,000 offsets/s",
        ),
        (GapFilling(way=GapWay.MARKERS), "markers, some 15,000 offsets/s"),
        (
            GapFilling(way=GapWay.MARKERS, granted=Right.ALTER).with_measured(MEASURED),
            "markers (ALTER granted), 12,300 offsets/s measured on 2026-11-18",
        ),
        (
            GapFilling(way=GapWay.TRANSACTIONS, prefix="heliograph.sf.").with_measured(MEASURED),
            "empty transactions (WRITE granted on transactional ids heliograph.sf.*),"
            " some 180 offsets/s a partition",  # what was measured is another way
        ),
        (
            GapFilling(way=GapWay.TRANSACTIONS, prefix="heliograph.sf."),
            "empty transactions (WRITE granted on transactional ids heliograph.sf.*), some 180 offsets/s a partition",
        ),
        (
            GapFilling(way=GapWay.TRANSACTIONS, prefix="heliograph.sf.", barred=frozenset({"orders"})),
            "empty transactions (WRITE granted on transactional ids heliograph.sf.*), some 180 offsets/s a partition;"
            " cannot be filled of topic orders",
        ),
        (
            GapFilling(way=GapWay.NONE, problem="ALTER or CLUSTER_ACTION on cluster 'nyc' is missing"),
            "cannot be filled: ALTER or CLUSTER_ACTION on cluster 'nyc' is missing",
        ),
        (GapFilling(way=GapWay.UNKNOWN, problem="broker 1 is gone"), "not known: broker 1 is gone"),
    ],
)
def test_every_link_says_how_its_gaps_will_be_filled(filling: GapFilling, text: str) -> None:
    document = plan_document(plan([snapshot(source_topic())]), [LINK], {LINK.name: filling})
    (link,) = document["links"]
    assert (link["link"], link["source"], link["target"]) == ("sf-to-nyc", "sf", "nyc")
    granted = filling.granted.name if filling.granted else None
    measured = {
        "offsets_per_s": filling.measured.offsets_per_s if filling.measured else None,
        "measured_at": filling.measured.at if filling.measured else None,
    }
    assert link["gaps"] == {"way": filling.way, "granted": granted, "text": text, **measured}
    assert f"link sf-to-nyc: gaps: {text}" in table_text(document)


def test_a_partition_that_is_aligned_says_to_where_and_counts_no_fillers() -> None:
    topic = source_topic(sights=[source_sight(12_345, 12_400), source_sight(0, 7)])
    document = plan_document(plan([snapshot(topic)]), [LINK], {LINK.name: BY_MARKERS})
    first, second = document["partitions"]
    assert (first["align_to"], first["next_offset"], first["backlog"]) == (12_345, 0, 55)
    assert (second["align_to"], second["backlog"]) == (None, 7)
    text = table_text(document)
    (aligned,) = [line for line in text.splitlines() if "align to 12,345" in line]
    assert "create, align to 12,345, copy" in aligned
    assert " 55 " in aligned


def test_what_the_config_protects_too_little_comes_first_among_the_warnings() -> None:
    caution = Caution(code=Event.INSECURE, message="hosts are not checked", hint="check them")
    planned = replace(plan([snapshot(source_topic())]), warnings=("another",))
    document = plan_document(planned, [LINK], {LINK.name: BY_MARKERS}, [caution])
    assert document["warnings"] == ["hosts are not checked (hint: check them)", "another"]


def test_the_table_has_a_line_for_every_topic_that_is_to_be_deleted_or_held() -> None:
    gone = DeleteTopic(link=LINK.name, topic="a", topic_id="i", source_topic="a", why="it is gone")
    held = replace(gone, topic="b", source_topic="b", why="too many are gone", held=True)
    planned = replace(plan([snapshot()]), deletions=(gone, held))
    text = table_text(plan_document(planned, [LINK], {LINK.name: BY_MARKERS}))
    assert "link sf-to-nyc: target topic a is to be deleted: it is gone" in text
    assert "link sf-to-nyc: target topic b stays for now: too many are gone" in text
    assert "nothing to create" not in text
