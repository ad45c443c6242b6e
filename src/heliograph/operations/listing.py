"""The document of `topics list` (heliograph.topics/1). Pure: what to show of views, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from heliograph.controller.ledger_word import LedgerWord, Wished
from heliograph.model.link_status import LinkStatus
from heliograph.model.partition_status import Document
from heliograph.model.states import PartitionState
from heliograph.operations.aim import NamedTopic
from heliograph.operations.views import PartitionView

SCHEMA = "heliograph.topics/1"
_FIRST = (PartitionState.STOPPED, PartitionState.PAUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What is empty keeps all."""

    states: Collection[PartitionState] = field(default_factory=frozenset)
    codes: Collection[str] = field(default_factory=frozenset)
    topics: Sequence[NamedTopic] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.states or self.codes or self.topics)

    def keeps(self, view: PartitionView) -> bool:
        return (
            (not self.states or view.status.state in self.states)
            and (not self.codes or view.code in self.codes)
            and (not self.topics or any(_names(each, view) for each in self.topics))
        )


def _names(topic: NamedTopic, view: PartitionView) -> bool:
    numbers = topic.partitions
    return topic.name == view.where.source_topic and (numbers is None or view.where.partition in numbers)


def list_document(
    links: Iterable[tuple[LinkStatus, Sequence[PartitionView]]], filters: Filter, now: datetime
) -> Document:
    """Complete; what a table leaves out is the command line's."""
    return {
        "schema": SCHEMA,
        "at": now.astimezone(UTC).isoformat(timespec="milliseconds"),
        "links": [_link(status, [view for view in views if filters.keeps(view)]) for status, views in links],
    }


def _link(status: LinkStatus, views: list[PartitionView]) -> Document:
    views.sort(key=_urgency)
    states = Counter(str(view.status.state) for view in views)
    return {
        "link": status.link,
        "error": status.error,
        "hint": status.hint,
        "states": dict(sorted(states.items())),
        "partitions": [_row(view) for view in views],
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
