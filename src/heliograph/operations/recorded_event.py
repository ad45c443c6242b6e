"""An event as `__heliograph_events` of a target cluster holds it (docs/LEDGER.md), and as a command shows it. Pure.

Owns what is read of a record that another version of Heliograph may have written: fields that are missing are None,
codes are text, what is not known is left out. controller/event_writer.py writes them; what they mean is
model/occurrence.py's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from heliograph.model.ledger import Unreadable, is_number, unpack_fields
from heliograph.model.partition_status import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedEvent:
    """`target`: the cluster that holds it, by its name in the config. `first_offset`, `next_offset`: as in Occurrence.
    `host`, `pid`: the run that told it."""

    at: datetime
    code: str
    message: str
    target: str
    severity: str | None = None
    hint: str | None = None
    link: str | None = None
    source_topic: str | None = None
    target_topic: str | None = None
    partition: int | None = None
    first_offset: int | None = None
    next_offset: int | None = None
    host: str | None = None
    pid: int | None = None

    @property
    def document(self) -> Document:
        return {
            "at": self.at.isoformat(timespec="milliseconds"),
            "severity": self.severity,
            "code": self.code,
            "link": self.link,
            "source_topic": self.source_topic,
            "target_topic": self.target_topic,
            "partition": self.partition,
            "first_offset": self.first_offset,
            "next_offset": self.next_offset,
            "message": self.message,
            "hint": self.hint,
            "target": self.target,
            "host": self.host,
            "pid": self.pid,
        }


def read_event(value: bytes | None, target: str) -> RecordedEvent:
    """`Unreadable` for what no version that we know of has written."""
    fields = unpack_fields(value or b"")
    at, code, message = _time(fields), _text(fields, "code"), _text(fields, "message")
    if at is None or code is None or message is None:
        raise Unreadable(f"is of version {(value or b'?')[0]} and no event")
    return RecordedEvent(
        at=at,
        code=code,
        message=message,
        target=target,
        severity=_text(fields, "severity"),
        hint=_text(fields, "hint"),
        link=_text(fields, "link"),
        source_topic=_text(fields, "source_topic"),
        target_topic=_text(fields, "target_topic"),
        partition=_number(fields, "partition"),
        first_offset=_number(fields, "first_offset"),
        next_offset=_number(fields, "next_offset"),
        host=_text(fields, "host"),
        pid=_number(fields, "pid"),
    )


def _time(fields: Mapping[str, Any]) -> datetime | None:
    """Without a zone it is UTC: all of them must compare."""
    try:
        at = datetime.fromisoformat(fields["at"])
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    """Half of a surrogate pair, which the writer lets pass, could not be printed."""
    value = fields.get(name)
    if not isinstance(value, str):
        return None
    return value if value.isascii() else value.encode(errors="replace").decode()


def _number(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    return value if is_number(value) else None
