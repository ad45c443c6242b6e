"""What a group's coordinator keeps beside its members: offsets that were committed, with their metadata.

A commit is answered when it is written down: it outlives the member that made it, and the coordinator. It is for a
partition that is there, and goes with its topic. Owns the shape of the messages: an answer has what every version has,
as kafka-python's classes name it. Who may commit is group_model.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, NamedTuple

from heliograph.wire.error_codes import ErrorCode

METADATA_CHARACTERS = 4096  # offset.metadata.max.bytes
NO_OFFSET = -1


class Commit(NamedTuple):
    offset: int
    metadata: str


NOTHING = Commit(NO_OFFSET, "")


class Commits:
    """`exists`: whether there is such a partition."""

    def __init__(self, exists: Callable[[str, int], bool] = lambda _topic, _number: True) -> None:
        self._exists = exists
        self._commits: dict[tuple[str, int], Commit] = {}

    def refused(self, message: Any, code: int) -> Any:
        """Which partitions there are is looked at first."""
        return self._committed(message, lambda _text: code)

    def commit(self, message: Any) -> Any:
        answer = self._committed(message, _refusal)
        for topic in message.topics:
            for each in topic.partitions:
                text = each.committed_metadata or ""
                if self._exists(topic.name, each.partition_index) and not _refusal(text):
                    self._commits[topic.name, each.partition_index] = Commit(each.committed_offset, text)
        return answer

    def _committed(self, message: Any, refusal: Callable[[str], int]) -> Any:
        return _committed(
            {
                (topic.name, each.partition_index): refusal(each.committed_metadata or "")
                if self._exists(topic.name, each.partition_index)
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                for topic in message.topics
                for each in topic.partitions
            }
        )

    def forget(self, topic: str) -> None:
        """It was deleted."""
        self._commits = {where: each for where, each in self._commits.items() if where[0] != topic}

    def fetch(self, message: Any) -> Any:
        """What was asked for; everything, if nothing is named."""
        topics = _asked(message).topics
        if topics is None:
            return _fetched(group_of(message), self._commits)
        asked = [(topic.name, number) for topic in topics for number in topic.partition_indexes]
        return _fetched(group_of(message), {where: self._commits.get(where, NOTHING) for where in asked})


def group_of(message: Any) -> str:
    """Whose coordinator is asked: newer versions of OffsetFetch name several groups, of which we ask for one."""
    return str(_asked(message).group_id)


def _asked(message: Any) -> Any:
    groups = getattr(message, "groups", None)
    return groups[0] if groups else message


def refused(message: Any, code: int) -> Any:
    """The answer of a coordinator that does nothing of it."""
    if message.name == "OffsetCommitRequest":
        return _committed(
            {(topic.name, p.partition_index): code for topic in message.topics for p in topic.partitions}
        )
    if message.name == "OffsetFetchRequest":
        return _fetched(group_of(message), {}, code)
    return SimpleNamespace(error_code=code, assignment=b"", member_id=getattr(message, "member_id", ""))


def _refusal(text: str) -> int:
    return ErrorCode.NONE if len(text) <= METADATA_CHARACTERS else ErrorCode.OFFSET_METADATA_TOO_LARGE


def _committed(codes: dict[tuple[str, int], int]) -> Any:
    rows = {
        where: SimpleNamespace(partition_index=where[1], error_code=int(code))
        for where, code in codes.items()
    }
    return SimpleNamespace(topics=_by_topic(rows))


def _fetched(group: str, commits: dict[tuple[str, int], Commit], code: int = 0) -> Any:
    rows = {
        where: SimpleNamespace(
            partition_index=where[1], committed_offset=each.offset, metadata=each.metadata, error_code=0
        )
        for where, each in commits.items()
    }
    topics = _by_topic(rows)
    answer = SimpleNamespace(group_id=group, topics=topics, error_code=int(code))
    return SimpleNamespace(groups=[answer], topics=topics, error_code=int(code))


def _by_topic(rows: dict[tuple[str, int], Any]) -> list[Any]:
    names: Iterable[str] = dict.fromkeys(name for name, _ in rows)
    return [
        SimpleNamespace(name=name, partitions=[row for (topic, _), row in rows.items() if topic == name])
        for name in names
    ]
