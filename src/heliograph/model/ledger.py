"""What Heliograph writes down on a target cluster: rows, their keys, and what a log of them amounts to.

Owns the form of keys and values, and the rule which of several rows counts. Must not know topics, brokers or what a row
leads to. A row is about one target partition, of one kind, under one *term* of the driver that wrote it:

    key     version byte | ["<source cluster id>", "<target topic>", partition, "<kind>", term]      as JSON
    value   version byte | {"field": value, ...}                          as JSON; no value: the row is removed

Of the rows that differ in nothing but their terms the one of the highest term counts. A driver that takes a topic over
carries every row on under a higher term, the topic's own (`RowKind.TOPIC`) last; from then on rows of that topic under
a lower term mean nothing. So a driver that was replaced, and does not know it yet, neither hides nor brings back
anything by what it writes late. Fields that this version does not know are carried on, too; rows of a kind that it does
not know mean nothing here. A version that it does not know, and what cannot be read, is refused for its topic: what a
newer Heliograph meant cannot be guessed. docs/LEDGER.md has all kinds and fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from heliograph.model.errors import HeliographError

LEDGER_TOPIC = "__heliograph_ledger"
COMMANDS_TOPIC = "__heliograph_commands"
EVENTS_TOPIC = "__heliograph_events"
OWN_PREFIX = "__heliograph_"
OWN_TOPICS = frozenset({LEDGER_TOPIC, COMMANDS_TOPIC, EVENTS_TOPIC})

VERSION = 1
WHOLE_TOPIC = -1  # the partition of a row that is about all of them

Fields = Mapping[str, Any]


class RowKind(StrEnum):
    LINK = (
        "link"  # which topics there were when a link first ran; its name stands in the target topic's place
    )
    RATE = "rate"  # how fast gaps of a link were filled; its name stands in the target topic's place, too
    TOPIC = "topic"  # which topic is mirrored to which, by their ids
    BEGIN = "begin"  # where a new partition begins
    GAPS = "gaps"  # offsets of it were filled with markers
    STOP = "stop"  # it needs an operator
    LOSS = "loss"  # what an operator has agreed to lose
    ANSWER = "answer"  # what became of an operator's last command
    REMIRROR = "remirror"  # the topic is being deleted and made again


OF_LINKS = frozenset({RowKind.LINK, RowKind.RATE})  # a topic may have a link's name


class UnknownVersion(HeliographError):
    """A newer Heliograph wrote this, or it is damaged. What it is about, as far as that can be read; None: anything."""

    exit_code = 1

    def __init__(
        self,
        what: str,
        why: str,
        *,
        source_cluster_id: str | None = None,
        target_topic: str | None = None,
    ) -> None:
        about = f" about topic {target_topic}" if target_topic else ""
        super().__init__(
            f"the ledger holds a row{about} whose {what} {why}",
            hint="run the version of Heliograph that wrote it, or a later one; if none did, write a record with the"
            f" same key and without a value to {LEDGER_TOPIC}",
        )
        self.source_cluster_id = source_cluster_id
        self.target_topic = target_topic


class Unreadable(ValueError):
    """Bytes that are no document of this version; says why, as the end of a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class RowName:
    """What a row is about."""

    source_cluster_id: str
    target_topic: str
    partition: int
    kind: RowKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`fields` None: the row is removed."""

    name: RowName
    term: int
    fields: Fields | None


def is_own_name(topic: str) -> bool:
    """Whether the name is kept for Heliograph. Kafka refuses to create a topic whose name differs from another's only
    by `.` in place of `_`: a mirrored topic of such a name would keep ours from being made."""
    return topic.replace(".", "_").startswith(OWN_PREFIX)


def pack(version: int, document: Any) -> bytes:
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return bytes([version]) + text.encode(
        errors="surrogatepass"
    )  # as they are read: half of a pair harms nobody


def unpack(data: bytes) -> Any:
    """`Unreadable` for anything but a document of this version."""
    if not data:
        raise Unreadable("is empty, without a version")
    if data[0] != VERSION:
        raise Unreadable(f"is of version {data[0]}; this Heliograph reads version {VERSION}")
    return _json(data)


def _json(data: bytes) -> Any:
    try:
        return json.loads(data[1:])
    except (ValueError, RecursionError) as problem:
        raise Unreadable(f"is of version {data[0]} and no JSON") from problem


def unpack_fields(data: bytes) -> dict[str, Any]:
    fields = unpack(data)
    if not isinstance(fields, dict):
        raise Unreadable(f"is of version {data[0]} and no object")
    return fields


def is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def encode_row(row: Row) -> tuple[bytes, bytes | None]:
    """Key and value of the record."""
    name = row.name
    key = [name.source_cluster_id, name.target_topic, name.partition, name.kind, row.term]
    return pack(VERSION, key), None if row.fields is None else pack(VERSION, dict(row.fields))


def decode_row(key: bytes, value: bytes | None) -> Row | None:
    """None: of a kind that this version does not know. `UnknownVersion` for what it cannot read."""
    try:
        parts = unpack(key)
        if not _is_key(parts):
            raise Unreadable(f"is of version {key[0]} and has another form")
    except Unreadable as problem:
        source_cluster_id, target_topic = _about(key)
        raise UnknownVersion(
            "key", str(problem), source_cluster_id=source_cluster_id, target_topic=target_topic
        ) from problem
    source_cluster_id, target_topic, partition, kind, term = parts
    if kind not in _KINDS:
        return None
    name = RowName(
        source_cluster_id=source_cluster_id,
        target_topic=target_topic,
        partition=partition,
        kind=RowKind(kind),
    )
    try:
        return Row(name=name, term=term, fields=None if value is None else unpack_fields(value))
    except Unreadable as problem:
        # A link's own row refuses no topic: see LinkLedger.at_first.
        about = "" if name.kind in OF_LINKS else target_topic
        raise UnknownVersion(
            "value", str(problem), source_cluster_id=source_cluster_id, target_topic=about
        ) from problem


_KINDS = frozenset(RowKind)


def _is_key(parts: Any) -> bool:
    return (
        isinstance(parts, list)
        and len(parts) == 5
        and all(isinstance(parts[at], str) for at in (0, 1, 3))
        and all(is_number(parts[at]) for at in (2, 4))
    )


def _about(key: bytes) -> tuple[str | None, str | None]:
    """Source cluster and target topic, of a key of whichever version: as far as it begins like ours."""
    try:
        parts = _json(key) if key else []
    except Unreadable:
        return None, None
    source, topic, *_ = [*parts, None, None] if isinstance(parts, list) else (None, None)
    if not isinstance(source, str):
        return None, None
    return source, topic if isinstance(topic, str) else None


def _is_about(key: bytes, name: RowName) -> bool:
    try:
        row = decode_row(key, None)
    except UnknownVersion:
        return False
    return row is not None and row.name == name


class LedgerState:
    """What all rows of a ledger amount to, in the order in which they were written. `unread`: by key; what is written
    about the same row later, or its removal, lifts it."""

    def __init__(self) -> None:
        self._rows: dict[RowName, dict[int, Fields]] = {}
        self.unread: dict[bytes, UnknownVersion] = {}

    def take(self, key: bytes | None, value: bytes | None) -> RowName | None:
        """The next record; what it is about, if it can be read and means something here."""
        key = key or b""
        self.unread.pop(key, None)
        try:
            row = decode_row(key, value)
        except UnknownVersion as problem:
            self._forget(key)
            if value is not None:
                self.unread[key] = problem
            return None
        if row is None:
            return None
        self.put(row)
        return row.name

    def _forget(self, key: bytes) -> None:
        """What it said before does not count any more; nobody carries it on, or removes what stands there now."""
        try:
            before = decode_row(key, None)
        except UnknownVersion:
            return
        if before is not None:
            self.put(before)

    def put(self, row: Row) -> None:
        terms = self._rows.setdefault(row.name, {})
        if row.fields is None:
            terms.pop(row.term, None)
        else:
            terms[row.term] = row.fields

    def fields(self, name: RowName) -> Fields | None:
        """Of the row that counts."""
        terms = self._counting(name)
        return terms[max(terms)] if terms else None

    def _counting(self, name: RowName) -> Mapping[int, Fields]:
        # A link may have the name of a topic, whose terms are not the link's.
        topic = replace(name, partition=WHOLE_TOPIC, kind=RowKind.TOPIC)
        since = 0 if name.kind in OF_LINKS else self.term(topic)
        return {term: fields for term, fields in self._rows.get(name, {}).items() if term >= since}

    def term(self, name: RowName) -> int:
        """The highest term of its rows; 0: there is none."""
        return max(self._rows.get(name) or (0,))

    def names(self, source_cluster_id: str) -> Iterator[RowName]:
        """Of all rows about this source cluster, those that mean nothing any more among them."""
        return (
            name
            for name, terms in self._rows.items()
            if terms and name.source_cluster_id == source_cluster_id
        )

    def unreadable(self, target_topic: str, source_cluster_id: str | None = None) -> UnknownVersion | None:
        """Why nothing is to be done with this topic: of this source cluster, or of whichever."""
        for problem in self.unread.values():
            if problem.target_topic in (None, target_topic) and (
                None in (problem.source_cluster_id, source_cluster_id)
                or problem.source_cluster_id == source_cluster_id
            ):
                return problem
        return None

    def is_unread(self, name: RowName) -> bool:
        """Whether there is a row of this name that cannot be read, under whichever term."""
        return any(_is_about(key, name) for key in self.unread)

    def removed(self, names: Iterable[RowName]) -> list[Row]:
        """What removes these rows, under whatever terms, a topic's own last: without it those of lower terms count."""
        return [
            Row(name=name, term=term, fields=None)
            for name in sorted(names, key=lambda name: name.kind is RowKind.TOPIC)
            for term in sorted(self._rows.get(name, {}))
        ]

    def carried_on(self, names: Iterable[RowName], term: int) -> list[Row]:
        """What a driver writes that begins under this term: the rows that count, as its own, a topic's own last, and
        then the others' removal, in this order: one that ends in between has lost none."""
        kept, removed = [], []
        for name in sorted(names, key=lambda name: name.kind is RowKind.TOPIC):
            counting = self._counting(name)
            if counting and max(counting) < term:
                kept.append(Row(name=name, term=term, fields=counting[max(counting)]))
            lower = (each for each in self._rows.get(name, {}) if each < term)
            removed += [Row(name=name, term=each, fields=None) for each in lower]
        return kept + removed
