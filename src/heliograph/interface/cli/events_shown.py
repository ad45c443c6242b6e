"""What `heliograph events` prints: what was there first, then what comes; each form makes text of events, and no more.

    form    without --follow                      with --follow
    table   the newest rows, or all of them       the same, then a row for each event
    json    a document                            a line for each event
    yaml    a document                            a document for each event

Rows have no borders: they are printed while the next ones are not known yet, and each stays on its line in a pipe.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

import yaml

from heliograph.interface.cli.output import Format
from heliograph.interface.cli.row_table import ROWS_SHOWN
from heliograph.operations.event_order import Newest
from heliograph.operations.recorded_event import RecordedEvent

SCHEMA = "heliograph.events/1"

_HEADINGS = ("at", "severity", "code", "link", "topic", "offsets", "told by", "message")
_LEAST_WIDTHS = (24, 8, 14, 9, 9, 7, 7, 0)  # of a time and of usual words: rows that come later seldom move


class Shown(Protocol):
    """Each gives the text that is printed next."""

    def past(self, events: Sequence[RecordedEvent]) -> str: ...

    def past_is_over(self) -> str: ...

    def live(self, events: Sequence[RecordedEvent]) -> str: ...


def shown_as(form: Format, *, follow: bool, all_rows: bool, since: datetime) -> Shown:
    match form, follow:
        case Format.json, False:
            return JsonDocument()
        case Format.json, True:
            return JsonLines()
        case Format.yaml, False:
            return YamlDocument()
        case Format.yaml, True:
            return YamlDocuments()
    return Rows(most=None if all_rows else ROWS_SHOWN, since=since)


class Rows:
    """`most` None: all of what was there."""

    def __init__(self, *, most: int | None, since: datetime) -> None:
        self._newest = Newest(most) if most is not None else None
        self._since = since
        self._widths = list(_LEAST_WIDTHS)
        self._has_heading = False

    def past(self, events: Sequence[RecordedEvent]) -> str:
        if self._newest is None:
            return self.live(events)
        self._newest.put(events)
        return ""

    def past_is_over(self) -> str:
        text = self.live(self._newest.events) if self._newest is not None else ""
        if self._newest is not None and self._newest.left_out:
            text += f"{self._newest.left_out:,} more before these: --all, or --since, --topic and --code for some\n"
        if not self._has_heading:
            text += f"no events since {self._since.isoformat(timespec='seconds')}\n"
        return text

    def live(self, events: Sequence[RecordedEvent]) -> str:
        rows = [_cells(event) for event in events]
        if rows and not self._has_heading:
            self._has_heading = True
            rows.insert(0, _HEADINGS)
        for row in rows:
            self._widths = [max(width, len(cell)) for width, cell in zip(self._widths, row, strict=True)]
        return "".join(self._line(row) for row in rows)

    def _line(self, row: Sequence[str]) -> str:
        *cells, message = (cell.ljust(width) for cell, width in zip(row, self._widths, strict=True))
        return "  ".join((*cells, message.rstrip())) + "\n"


def _cells(event: RecordedEvent) -> tuple[str, ...]:
    topic = event.source_topic or event.target_topic or "-"
    cells = (
        _instant(event.at),
        event.severity or "-",
        event.code,
        event.link or "-",
        topic if event.partition is None else f"{topic}:{event.partition}",
        _offsets(event),
        "-" if event.host is None else event.host if event.pid is None else f"{event.host}/{event.pid}",
        f"{event.message} (hint: {event.hint})" if event.hint else event.message,
    )
    return tuple(map(_on_one_line, cells))


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _offsets(event: RecordedEvent) -> str:
    first, following = event.first_offset, event.next_offset
    if first is not None and following is not None and following > first:
        return str(first) if following == first + 1 else f"{first} to {following - 1}"
    if first is not None:
        return str(first)
    return "-" if following is None else f"to {following - 1}"


def _on_one_line(text: str) -> str:
    """Also without what a terminal would obey: whoever may write the topic could send it."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _spelt(each) for each in text)


def _spelt(character: str) -> str:
    return " " if character.isspace() else character.encode("unicode_escape").decode()


# -- for machines: complete, and never held as a whole


class JsonDocument:
    def __init__(self) -> None:
        self._begun = False

    def past(self, events: Sequence[RecordedEvent]) -> str:
        lines = ",\n".join(_json(event) for event in events)
        text = f",\n{lines}" if self._begun else f"{self._head}\n{lines}"
        self._begun = True
        return text

    def past_is_over(self) -> str:
        return "\n]}\n" if self._begun else f"{self._head}]}}\n"

    def live(self, events: Sequence[RecordedEvent]) -> str:
        raise AssertionError(f"{len(events)} events after the end of a document")

    @property
    def _head(self) -> str:
        return f'{{"schema": {json.dumps(SCHEMA)}, "events": ['


class JsonLines:
    def past(self, events: Sequence[RecordedEvent]) -> str:
        return self.live(events)

    def past_is_over(self) -> str:
        return ""

    def live(self, events: Sequence[RecordedEvent]) -> str:
        return "".join(f"{_json(event)}\n" for event in events)


def _json(event: RecordedEvent) -> str:
    return json.dumps(event.document, ensure_ascii=False)


class YamlDocument:
    def __init__(self) -> None:
        self._begun = False

    def past(self, events: Sequence[RecordedEvent]) -> str:
        head = "" if self._begun else f"schema: {SCHEMA}\nevents:\n"
        self._begun = True
        return head + _yaml([event.document for event in events])

    def past_is_over(self) -> str:
        return "" if self._begun else f"schema: {SCHEMA}\nevents: []\n"

    def live(self, events: Sequence[RecordedEvent]) -> str:
        raise AssertionError(f"{len(events)} events after the end of a document")


class YamlDocuments:
    def past(self, events: Sequence[RecordedEvent]) -> str:
        return self.live(events)

    def past_is_over(self) -> str:
        return ""

    def live(self, events: Sequence[RecordedEvent]) -> str:
        return "".join(f"---\n{_yaml(event.document)}" for event in events)


def _yaml(value: object) -> str:
    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))
