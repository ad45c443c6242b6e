"""The document of `topics list` (heliograph.topics/1). Pure: what to show of views, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from heliograph.controller.ledger_word import LedgerWord, Wished
from heliograph.model.link_status import LinkStatus
from heliograph.model.partition_filter import PartitionFilter
from heliograph.model.partition_status import Document
from heliograph.model.state_summary import summarise
from heliograph.model.states import PartitionState
from heliograph.operations.views import PartitionView

SCHEMA = "heliograph.topics/1"
_FIRST = (PartitionState.STOPPED, PartitionState.PAUSED)


def list_document(
    links: Iterable[tuple[LinkStatus, Sequence[PartitionView]]], filters: PartitionFilter, now: datetime
) -> Document:
    """Complete; what a table leaves out is the command line's. What is said of a link is of all partitions that
    `filters` mean, shown or not."""
    return {
        "schema": SCHEMA,
        "at": now.astimezone(UTC).isoformat(timespec="milliseconds"),
        "links": [_link(status, views, filters) for status, views in links],
    }


def _link(status: LinkStatus, views: Sequence[PartitionView], filters: PartitionFilter) -> Document:
    meant = [view for view in views if filters.means(view.where)]
    shown = sorted((view for view in meant if view.is_kept(filters)), key=_urgency)
    states = Counter(str(view.status.state) for view in meant)
    return {
        "link": status.link,
        "error": status.error,
        "hint": status.hint,
        "states": dict(sorted(states.items())),
        "summary": summarise((view.status.state, view.status.lag_records) for view in meant),
        "partitions": [_row(view) for view in shown],
    }


def _urgency(view: PartitionView) -> tuple[int, int, str, int]:
    """Stopped ones first, then paused ones, then by lag."""
    state, where = view.status.state, view.where
    place = _FIRST.index(state) if state in _FIRST else len(_FIRST)
    return place, -(view.status.lag_records or 0), where.source_topic, where.partition


def _row(view: PartitionView) -> Document:
    status, stop = view.status, view.word.stop
    return {
        "source_topic": view.where.source_topic,
        "target_topic": view.where.target_topic,
        "partition": view.where.partition,
        "state": str(status.state),
        "code": view.code,
        "since": _since(view.word),
        "source_start": status.source_start,
        "source_end": status.source_end,
        "next_offset": status.next_offset,
        "lag_records": status.lag_records,
        "lag_ms": status.lag_ms,
        "stopped_at": [stop.first_offset, stop.next_offset]
        if stop and stop.first_offset is not None
        else None,
        "message": view.word.unread or status.problem,
        "hint": status.hint,
        "command": _wished(view.word.copying),
        "remirror": _wished(view.word.remirror),
    }


def _since(word: LedgerWord) -> str | None:
    if word.stop is not None:
        return word.stop.at or None
    return word.pause.at.isoformat(timespec="milliseconds") if word.pause is not None else None


def _wished(wished: Wished | None) -> dict[str, Any] | None:
    """What was wanted last, and what became of it; `outcome` null: no mirror has read it yet."""
    if wished is None:
        return None
    command, answer = wished.command, wished.answer
    return {
        "wish": str(command.wish),
        "author": command.author,
        "at": command.at.isoformat(timespec="milliseconds"),
        "outcome": str(answer.outcome) if answer else None,
        "message": answer.message if answer else None,
        "hint": answer.hint if answer else None,
    }
