"""What an operator wants of a mirrored partition or topic: one frozen value, and its only encoder (docs/LEDGER.md).

Commands go through a compacted topic of the target cluster, so that they work from any machine and with no mirror
running. The last one about a partition counts. Each has an id of its own: a driver writes down what became of it
(model/ledger.py, `answer`), so that one that is read twice acts once.

    key     version byte | ["<source cluster id>", "<target topic>", partition, "copy" or "remirror"]
    value   version byte | the fields below
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from heliograph.model.ledger import VERSION, WHOLE_TOPIC, Unreadable, is_number, pack, unpack, unpack_fields
from heliograph.model.partition import TopicPartition

Ranges = Mapping[int, tuple[int, int]]  # by partition: half-open ranges of offsets


class Wish(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    REMIRROR = "remirror"


class Outcome(StrEnum):
    APPLIED = "applied"
    REFUSED = "refused"
    UNDER_WAY = "under_way"


_COPY = "copy"  # pause and resume: the later one counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What it is about: a target partition, or a whole topic (`partition` is WHOLE_TOPIC)."""

    source_cluster_id: str
    target_topic: str
    partition: int = WHOLE_TOPIC


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """`target_topic_id`: the topic that was shown to the operator. `stop`: the code of the stop that is to be resolved,
    as it was shown. `loses`: the offsets that the operator was shown as lost, and accepts, by partition; `keeps`: those
    among them that the operator was shown as not lost."""

    id: str
    wish: Wish
    subject: Subject
    at: datetime
    author: str
    target_topic_id: str = ""
    stop: str | None = None
    loses: Ranges = field(default_factory=dict)
    keeps: Ranges = field(default_factory=dict)

    def accepts(self, partition: int, lost: tuple[int, int]) -> bool:
        """Whether the operator was shown all of this range as lost."""
        shown, kept = self.loses.get(partition), self.keeps.get(partition)
        if shown is None or not (shown[0] <= lost[0] and lost[1] <= shown[1]):
            return False
        return kept is None or lost[1] <= kept[0] or kept[1] <= lost[0]


def encode_command(command: Command) -> tuple[bytes, bytes]:
    subject = command.subject
    slot = Wish.REMIRROR if command.wish is Wish.REMIRROR else _COPY
    key = [subject.source_cluster_id, subject.target_topic, subject.partition, slot]
    value = {
        "id": command.id,
        "wish": command.wish,
        "at": command.at.isoformat(timespec="milliseconds"),
        "author": command.author,
        "target_topic_id": command.target_topic_id,
        "stop": command.stop,
        "loses": _encoded(command.loses),
        "keeps": _encoded(command.keeps),
    }
    return pack(VERSION, key), pack(VERSION, value)


def _encoded(ranges: Ranges) -> dict[str, list[int]]:
    return {str(partition): list(each) for partition, each in ranges.items()}


def decode_command(key: bytes, value: bytes) -> Command:
    """`Unreadable` for what this version cannot read."""
    try:
        source_cluster_id, target_topic, partition, _ = unpack(key)
        _check(isinstance(source_cluster_id, str), isinstance(target_topic, str), is_number(partition))
        subject = Subject(source_cluster_id=source_cluster_id, target_topic=target_topic, partition=partition)
        return _decoded(subject, unpack_fields(value))
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as problem:
        raise Unreadable(f"{problem}") from problem


def _decoded(subject: Subject, fields: Mapping[str, Any]) -> Command:
    at = datetime.fromisoformat(fields["at"])
    texts = [fields[name] for name in ("id", "author", "target_topic_id")]
    stop = fields["stop"]
    loses = _ranges(fields["loses"])
    keeps = _ranges(fields.get("keeps", {}))  # commands that were written before it was known
    _check(
        at.utcoffset() is not None,  # times without a zone cannot be compared with others
        all(isinstance(text, str) for text in texts),
        stop is None or isinstance(stop, str),
    )
    return Command(
        id=texts[0],
        wish=Wish(fields["wish"]),
        subject=subject,
        at=at,
        author=texts[1],
        target_topic_id=texts[2],
        stop=stop,
        loses=loses,
        keeps=keeps,
    )


def _ranges(fields: Mapping[str, Any]) -> dict[int, tuple[int, int]]:
    ranges = {int(partition): (each[0], each[1]) for partition, each in fields.items()}
    _check(all(is_number(offset) for each in ranges.values() for offset in each))
    return ranges


def _check(*rules: bool) -> None:
    if not all(rules):
        raise Unreadable("it has another form")


class CommandState:
    """The commands that count, of all that were ever written."""

    def __init__(self) -> None:
        self._commands: dict[bytes, Command] = {}
        self._by_subject: dict[Subject, dict[bytes, Command]] = {}
        self._unread: set[bytes] = set()

    @property
    def unread(self) -> int:
        """How many there are that cannot be read here."""
        return len(self._unread)

    def take(self, key: bytes | None, value: bytes | None) -> Command | None:
        """The next record; the command, if it is one that can be read. One that cannot is counted and left alone."""
        key = key or b""
        self._unread.discard(key)
        if value is None:
            self._remove(key)
            return None
        try:
            command = decode_command(key, value)
        except Unreadable:
            self._unread.add(key)
            return None
        self._remove(key)
        self._commands[key] = command
        self._by_subject.setdefault(command.subject, {})[key] = command
        return command

    def _remove(self, key: bytes) -> None:
        known = self._commands.pop(key, None)
        if known is not None:
            self._by_subject[known.subject].pop(key, None)

    def of(self, source_cluster_id: str, where: TopicPartition) -> Iterator[Command]:
        """About this target partition, or topic."""
        subject = Subject(
            source_cluster_id=source_cluster_id, target_topic=where.topic, partition=where.partition
        )
        return iter(self._by_subject.get(subject, {}).values())

    def about(self, source_cluster_id: str) -> Iterator[Command]:
        """All that concern mirrors of this source cluster."""
        return (
            each for each in self._commands.values() if each.subject.source_cluster_id == source_cluster_id
        )
