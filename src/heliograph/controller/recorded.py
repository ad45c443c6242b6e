"""What the ledger of a target says of the mirrors of one source cluster: the only reader of rows and commands. No I/O.

The driver asks it, and so does whoever shows or decides something without driving (`status`, `topics`). Rows and
commands bear the id of the target topic that they are about: of a topic that was deleted and made again they mean
nothing. A row may have been written by another version: what it leaves out is read as empty.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from heliograph.controller.followed_configs import Followed, read_followed
from heliograph.controller.ledger_word import Answer, LedgerWord, RecordedStop, Wished
from heliograph.model.command import Command, CommandState, Outcome, Wish
from heliograph.model.fill_rate import FillRate
from heliograph.model.fill_way import FillWay
from heliograph.model.ledger import (
    OF_LINKS,
    WHOLE_TOPIC,
    Fields,
    LedgerState,
    RowKind,
    RowName,
    UnknownVersion,
)
from heliograph.model.partition import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Remirroring:
    """A topic that is being deleted and made again. `target_topic_id`: of the one to delete; `configs`: what was set on
    it by hand."""

    command_id: str
    target_topic_id: str
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredTopic:
    """Which source topic of which link is mirrored to which target topic, as it is written down; ids are empty where
    they are not known. `created`: the mirror has created that target topic. `kept`: the source topic was gone, and by
    its link's config of then the target topic stays."""

    link: str
    source_topic: str
    target_topic: str
    source_topic_id: str
    target_topic_id: str
    created: bool
    kept: bool


_OUTCOMES = frozenset(Outcome)


class Recorded:
    def __init__(self, state: LedgerState, commands: CommandState, source_cluster_id: str) -> None:
        self._state = state
        self._commands = commands
        self.source_cluster_id = source_cluster_id

    def name(self, where: TopicPartition, kind: RowKind) -> RowName:
        return RowName(
            source_cluster_id=self.source_cluster_id,
            target_topic=where.topic,
            partition=where.partition,
            kind=kind,
        )

    def topic_name(self, topic: str, kind: RowKind) -> RowName:
        return self.name(TopicPartition(topic, WHOLE_TOPIC), kind)

    def unreadable(self, topic: str) -> UnknownVersion | None:
        return self._state.unreadable(topic, self.source_cluster_id)

    # -- partitions

    def word(self, where: TopicPartition, topic_id: str) -> LedgerWord:
        """All that counts for this partition of the topic that is there now, by its id."""
        problem = self.unreadable(where.topic)
        if problem is not None:
            return LedgerWord(unread=f"{problem.message}; {problem.hint}")
        return LedgerWord(
            stop=self.stop(where, topic_id),
            copying=self._wished(where, topic_id),
            remirror=self._wished(TopicPartition(where.topic, WHOLE_TOPIC), topic_id),
        )

    def stop(self, where: TopicPartition, topic_id: str) -> RecordedStop | None:
        fields = self._about(where, RowKind.STOP, topic_id)
        if fields is None:
            return None
        return RecordedStop(
            code=_text(fields, "code"),
            message=_text(fields, "message"),
            hint=_text(fields, "hint"),
            at=_text(fields, "at"),
            first_offset=_offset(fields.get("first_offset")),
            next_offset=_offset(fields.get("next_offset")),
        )

    def begin(self, where: TopicPartition, source_topic_id: str, start: str) -> int | None:
        """Where a new partition begins, if that was resolved for this source topic, and for what its link says."""
        fields = self._state.fields(self.name(where, RowKind.BEGIN))
        return None if fields is None or fields.get("start") != start else self.began(where, source_topic_id)

    def began(self, where: TopicPartition, source_topic_id: str) -> int | None:
        """Where the partition has begun, whatever its link says by now."""
        fields = self._state.fields(self.name(where, RowKind.BEGIN))
        same = fields is not None and fields.get("source_topic_id") == source_topic_id
        return _offset(fields.get("goal")) if fields is not None and same else None

    def accepted_loss(self, where: TopicPartition, topic_id: str) -> tuple[int, int] | None:
        fields = self._about(where, RowKind.LOSS, topic_id)
        if fields is None:
            return None
        first_offset, next_offset = (_offset(fields.get(name)) for name in ("first_offset", "next_offset"))
        return None if first_offset is None or next_offset is None else (first_offset, next_offset)

    def gaps_filled(self, where: TopicPartition, topic_id: str) -> bool:
        return self._about(where, RowKind.GAPS, topic_id) is not None

    def pause(self, where: TopicPartition, topic_id: str) -> Command | None:
        """The command by which an operator has paused it, if that was the last word."""
        return LedgerWord(copying=self._wished(where, topic_id)).pause

    def _wished(self, where: TopicPartition, topic_id: str) -> Wished | None:
        """The last command about it; there is one slot for each partition, and one for each topic."""
        for command in self.commands_about(where):
            if command.target_topic_id in ("", self._or_last(where.topic, topic_id)):
                return Wished(command=command, answer=self.answer(command))
        return None

    def commands_about(self, where: TopicPartition) -> Iterator[Command]:
        return self._commands.of(self.source_cluster_id, where)

    def answer(self, command: Command) -> Answer | None:
        """To this command, and to no other."""
        where = TopicPartition(command.subject.target_topic, command.subject.partition)
        fields = self._state.fields(self.name(where, RowKind.ANSWER))
        # An outcome that has no name here is none: the command may be carried out once more.
        if fields is None or fields.get("id") != command.id or fields.get("outcome") not in _OUTCOMES:
            return None
        return Answer(
            id=command.id,
            outcome=Outcome(fields["outcome"]),
            message=_text(fields, "message"),
            hint=_text(fields, "hint"),
        )

    def unanswered(self, command: Command) -> bool:
        """Nothing has come of it yet, or not all."""
        answer = self.answer(command)
        return answer is None or answer.outcome is Outcome.UNDER_WAY

    def counts(self, command: Command) -> bool:
        """No later one has taken its place."""
        where = TopicPartition(command.subject.target_topic, command.subject.partition)
        return any(each.id == command.id for each in self.commands_about(where))

    def commands(self) -> list[Command]:
        """The last ones about each partition and topic, the oldest first."""
        return sorted(self._commands.about(self.source_cluster_id), key=lambda each: each.at)

    # -- topics

    def remirroring(self, topic: str) -> Remirroring | None:
        fields = self._state.fields(self.topic_name(topic, RowKind.REMIRROR))
        if fields is None:
            return None
        return Remirroring(
            command_id=_text(fields, "id"),
            target_topic_id=_text(fields, "target_topic_id"),
            configs=dict(fields.get("configs") or {}),
        )

    def to_remirror(self, topic: str) -> bool:
        """It is being deleted and made again, or will be: nothing is copied to it meanwhile."""
        whole = TopicPartition(topic, WHOLE_TOPIC)
        wanted = any(
            each.wish is Wish.REMIRROR and self.unanswered(each) for each in self.commands_about(whole)
        )
        return wanted or self.remirroring(topic) is not None

    def wanted(self) -> set[str]:
        """Target topics of which an operator wants more than that they be paused, and nobody has answered yet."""
        return {
            each.subject.target_topic
            for each in self._commands.about(self.source_cluster_id)
            if each.wish is not Wish.PAUSE and self.unanswered(each)
        }

    def source_topic_id(self, topic: str) -> str:
        """Of the source topic that was mirrored to this one; empty where that is not known."""
        fields = self._state.fields(self.topic_name(topic, RowKind.TOPIC))
        return "" if fields is None else _text(fields, "source_topic_id")

    def target_topic_id(self, topic: str) -> str:
        """The id that this target topic had when it was last mirrored to; empty where that is not known."""
        fields = self._state.fields(self.topic_name(topic, RowKind.TOPIC))
        return "" if fields is None else _text(fields, "target_topic_id")

    def set_by_hand(self, topic: str) -> Mapping[str, str]:
        """Configs of this target topic that somebody has set, and that it gets when it is built."""
        fields = self._state.fields(self.topic_name(topic, RowKind.TOPIC)) or {}
        return dict(fields.get("configs") or {})

    def followed(self, topic: str) -> Followed:
        """Configs of this target topic that the mirror has set, and that follow its source."""
        return read_followed(self._state.fields(self.topic_name(topic, RowKind.TOPIC)) or {})

    def is_topic(self, topic: str, source_topic_id: str, target_topic_id: str) -> bool:
        """Whether it is written down that this source topic is mirrored to this target topic."""
        fields = self._state.fields(self.topic_name(topic, RowKind.TOPIC))
        ids = (source_topic_id, target_topic_id)
        return fields is not None and (fields.get("source_topic_id"), fields.get("target_topic_id")) == ids

    def mirrored(
        self, link: str, meant: Callable[[str], bool] = lambda _target_topic: True
    ) -> list[MirroredTopic]:
        """All topics that were ever mirrored by a link of this name to the target topics that are meant, as far as they
        are not forgotten."""
        names = self._state.names(self.source_cluster_id)
        topics = [
            name.target_topic for name in names if name.kind is RowKind.TOPIC and meant(name.target_topic)
        ]
        return [known for topic in topics if (known := self.mirrored_to(topic)) and known.link == link]

    def mirrored_to(self, topic: str) -> MirroredTopic | None:
        """What is mirrored to this target topic, or was."""
        fields = self._state.fields(self.topic_name(topic, RowKind.TOPIC))
        if fields is None:
            return None
        return MirroredTopic(
            link=_text(fields, "link"),
            source_topic=_text(fields, "source_topic"),
            target_topic=topic,
            source_topic_id=_text(fields, "source_topic_id"),
            target_topic_id=_text(fields, "target_topic_id"),
            created=fields.get("created") is True,
            kept=fields.get("kept") is True,
        )

    def stops(self, topics: Collection[str]) -> dict[TopicPartition, RecordedStop]:
        """Of all partitions of these target topics, as they were when they were last mirrored to."""
        wheres = [
            TopicPartition(name.target_topic, name.partition)
            for name in self._state.names(self.source_cluster_id)
            if name.kind is RowKind.STOP and name.target_topic in topics
        ]
        return {where: stop for where in wheres if (stop := self.stop(where, "")) is not None}

    def pauses(self, topics: Collection[str]) -> dict[TopicPartition, Command]:
        """The same of what operators have paused."""
        wheres = {
            TopicPartition(each.subject.target_topic, each.subject.partition)
            for each in self._commands.about(self.source_cluster_id)
            if each.subject.target_topic in topics
        }
        return {where: pause for where in wheres if (pause := self.pause(where, "")) is not None}

    def created(self, topic: str, target_topic_id: str) -> bool:
        """Whether the target topic that has this id was created by a mirror."""
        known = self.mirrored_to(topic)
        return known is not None and known.created and known.target_topic_id == target_topic_id != ""

    def topics_at_first(self, link: str) -> Mapping[str, int] | None:
        """The source's topics and how many partitions they had when the link first ran; None: it never did."""
        fields = self._state.fields(self.topic_name(link, RowKind.LINK))
        return None if fields is None else dict(fields.get("topics") or {})

    def rate(self, link: str) -> FillRate | None:
        """How fast gaps of the link were filled when that was last measured."""
        fields = self._state.fields(self.topic_name(link, RowKind.RATE))
        if fields is None or fields.get("way") not in frozenset(FillWay):
            return None
        try:
            per_s = float(fields.get("offsets_per_s", ""))
        except (TypeError, ValueError):
            return None
        return FillRate(FillWay(fields["way"]), per_s, _text(fields, "at"))

    def rows_of(self, topic: str) -> list[RowName]:
        """All rows about a target topic."""
        return [
            name
            for name in self._state.names(self.source_cluster_id)
            if name.target_topic == topic and name.kind not in OF_LINKS
        ]

    def term_above(self, topics: set[str]) -> int:
        """The highest term of any row about these topics."""
        names = self._state.names(self.source_cluster_id)
        return max((self._state.term(name) for name in names if name.target_topic in topics), default=0)

    def _about(self, where: TopicPartition, kind: RowKind, topic_id: str) -> Fields | None:
        fields = self._state.fields(self.name(where, kind))
        known = "" if fields is None else fields.get("target_topic_id", "")
        return fields if known in ("", self._or_last(where.topic, topic_id)) else None

    def _or_last(self, topic: str, topic_id: str) -> str:
        """Of a topic that is not there, what is said of the one that was mirrored to last counts."""
        return topic_id or self.target_topic_id(topic)


NOTHING_RECORDED = Recorded(LedgerState(), CommandState(), "")


def time_text(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")


def _text(fields: Fields, name: str) -> str:
    return str(fields.get(name) or "")


def _offset(value: Any) -> int | None:
    return value if isinstance(value, int) else None
