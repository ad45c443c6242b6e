"""What `heliograph plan` shows: JSON complete, the table short."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console

from heliograph.controller.plan import plan
from heliograph.interface.cli.plan import document_of, table_of
from heliograph.model.link import Link
from heliograph.model.policy import DEFAULT_POLICY, OnLoss, TopicPolicy
from tests.controller.observed import LINK, snapshot, source_topic, target_topic

SKIPPING = replace(DEFAULT_POLICY, on_loss=OnLoss.CONTINUE)
ENTRIES = (TopicPolicy(match="orders", policy=SKIPPING), TopicPolicy(match=".*", policy=DEFAULT_POLICY))


def shown(link: Link) -> tuple[dict[str, dict[str, str]], str]:
    """By topic the policy in JSON, and the table. Topic `refused` has 3 partitions on the target."""
    topics = [source_topic(name) for name in ("orders", "payments", "refused")]
    seen = snapshot(*topics, link=link, targets=[target_topic("refused", partitions=3)])
    document = document_of(plan([seen]), [link])
    console = Console(width=200, record=True)
    console.print(table_of(document))
    return {row["source_topic"]: row["policy"] for row in document["partitions"]}, console.export_text()


def test_json_has_the_whole_policy_of_every_partition_also_of_refused_ones() -> None:
    policies, _ = shown(replace(LINK, policies=ENTRIES))
    assert policies["orders"] == SKIPPING.texts()
    assert policies["payments"] == policies["refused"] == DEFAULT_POLICY.texts()


def test_the_table_has_a_column_of_policies_only_where_one_is_not_the_default() -> None:
    assert "policy" not in shown(LINK)[1]
    table = shown(replace(LINK, policies=ENTRIES))[1]
    (orders,) = [line for line in table.splitlines() if "orders" in line]
    assert "policy" in table
    assert "on_loss: continue" in orders
    assert table.count("on_loss") == 1
