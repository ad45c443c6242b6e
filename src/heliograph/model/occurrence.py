"""Something of which an operator is told, as one frozen value, and its only encoder.

`code` says what it is (docs/EVENTS.md), the fields where; `message` is a whole sentence, for people. Whoever meets it
makes it, a lane or the driver; it is told through the outbox (outbox.py). Must not know how it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from heliograph.model.errors import PartitionStop
from heliograph.model.events import Code, Event, Severity, Trouble, severity_of
from heliograph.model.hints import hint_for
from heliograph.model.partition import MirrorPartition
from heliograph.model.states import StopReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """Fields that do not apply are None. `first_offset`, `next_offset`: a half-open range, as far as it is known; of a
    partition that stops, `first_offset` is the first that is not copied, unless the stop names others."""

    at: datetime
    code: Code
    message: str
    hint: str | None = None
    link: str | None = None
    source_topic: str | None = None
    target_topic: str | None = None
    partition: int | None = None
    first_offset: int | None = None
    next_offset: int | None = None

    @property
    def severity(self) -> Severity:
        return severity_of(self.code)

    @property
    def words(self) -> str:
        """For people: what happened and what to do."""
        return f"{self.message} (hint: {self.hint})" if self.hint else self.message

    @property
    def where(self) -> dict[str, Any]:
        """The fields that apply, of those that tell which link, partition and offsets."""
        return {name: value for name in _WHERE if (value := getattr(self, name)) is not None}


_FIELDS = tuple(field.name for field in fields(Occurrence))
_EVENTS = frozenset(Event)
_WHERE = _FIELDS[_FIELDS.index("link") :]


def of_trouble(where: MirrorPartition, trouble: Trouble, at: datetime, then: str = "") -> Occurrence:
    """`then`: what the copy does about it, in words."""
    return Occurrence(
        at=at,
        code=trouble.event,
        message=f"{where}: {trouble.message}{then}",
        hint=trouble.hint,
        first_offset=trouble.first_offset,
        next_offset=trouble.next_offset,
        **where._asdict(),
    )


def of_stop(
    where: MirrorPartition, stop: PartitionStop, at: datetime, position: int | None = None
) -> Occurrence:
    """`position`: the first offset that is not copied, where it is known."""
    return Occurrence(
        at=at,
        code=StopReason(stop.reason),
        message=f"{where} is stopped: {stop.message}",
        hint=hint_for(where, stop.hint),
        first_offset=position if stop.first_offset is None else stop.first_offset,
        next_offset=stop.next_offset,
        **where._asdict(),
    )


def encode_occurrence(occurrence: Occurrence) -> dict[str, Any]:
    """As JSON takes it. `severity` is for readers: it follows from the code."""
    document = {name: getattr(occurrence, name) for name in _FIELDS}
    at = occurrence.at.isoformat(timespec="milliseconds")
    return {**document, "at": at, "severity": occurrence.severity}


def decode_occurrence(document: Mapping[str, Any]) -> Occurrence:
    values = {name: document[name] for name in _FIELDS}
    at, code = datetime.fromisoformat(values.pop("at")), values.pop("code")
    return Occurrence(at=at, code=Event(code) if code in _EVENTS else StopReason(code), **values)
