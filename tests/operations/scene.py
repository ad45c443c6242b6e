"""Partitions as an operator's commands see them: one link, sf to nyc, and what is said to differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from heliograph.controller.ledger_sight import LedgerSight
from heliograph.controller.recorded import Recorded
from heliograph.controller.snapshot import LinkSnapshot, PartitionSight
from heliograph.model.command import Command, CommandState, Subject, Wish, encode_command
from heliograph.model.ledger import LedgerState, Row, RowKind, RowName
from heliograph.model.link_status import LinkStatus
from heliograph.model.partition_status import PartitionStatus
from heliograph.operations.looking import LinkView
from heliograph.operations.views import TopicTrace, partition_views
from tests.controller.observed import (
    LINK,
    SF_ID,
    config,
    partition,
    snapshot,
    source_topic,
    span,
    target_topic,
)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TOPIC_ID = "id-of-the-target"


def sight(source: tuple[int, int], target: tuple[int, int] | None) -> PartitionSight:
    there = span(*target) if target is not None else None
    return PartitionSight(source=span(*source), source_end=source[1], target=there)


def stop_row(number: int = 0, code: str = "lost", **fields: Any) -> Row:
    name = RowName(source_cluster_id=SF_ID, target_topic="orders", partition=number, kind=RowKind.STOP)
    said = {"code": code, "message": f"why: {code}", "hint": "do", "at": "2026-03-01T11:00:00", **fields}
    return Row(name=name, term=1, fields={"target_topic_id": TOPIC_ID, **said})


def wished(wish: Wish, number: int = 0) -> Command:
    return Command(
        id=f"id of {wish} {number}",
        wish=wish,
        subject=Subject(source_cluster_id=SF_ID, target_topic="orders", partition=number),
        at=NOW,
        author="ann@desk",
        target_topic_id=TOPIC_ID,
    )


def ledger_of(rows: Sequence[Row] = (), commands: Sequence[Command] = ()) -> LedgerSight:
    state, wishes = LedgerState(), CommandState()
    for row in rows:
        state.put(row)
    for command in commands:
        wishes.take(*encode_command(command))
    return LedgerSight(recorded=Recorded(state, wishes, SF_ID))


def look(
    *sights: PartitionSight,
    rows: Sequence[Row] = (),
    commands: Sequence[Command] = (),
    has_target: bool = True,
    source_configs: Mapping[str, str] | None = None,
    target_configs: Mapping[str, str] | None = None,
    told: Mapping[int, Mapping[str, Any]] | None = None,
    traces: Mapping[str, TopicTrace] | None = None,
    snapshot_of: LinkSnapshot | None = None,
) -> LinkView:
    """`told`: by partition, what of its status is not the default."""
    target = target_topic(partitions=len(sights), topic_id=TOPIC_ID, own=target_configs)
    seen = snapshot_of or snapshot(
        source_topic(sights=sights, config=config(source_configs)), targets=[target] if has_target else []
    )
    ledger = ledger_of(rows, commands)
    status = LinkStatus(
        link=LINK.name,
        partitions=tuple(
            PartitionStatus(partition=partition(number))._replace(**(told or {}).get(number, {}))
            for number in range(0 if snapshot_of else len(sights))
        ),
    )
    return LinkView(
        snapshot=seen,
        status=status,
        ledger=ledger,
        partitions=partition_views(seen, status, ledger),
        traces=dict(traces or {}),
    )
