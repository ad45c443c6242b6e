"""Small values that only a member of an election's group can write: the group's committed offsets.

Owns what is asked of the coordinator and what its answers mean; no I/O, and no meaning of a cell. A coordinator takes a
commit from a member of the current generation only, replicates it as it does offsets, and shows it to everybody. So a
cell, an offset and its metadata, is durable and fenced: who was voted out changes none. It is a partition's that the
cluster has (else UNKNOWN_TOPIC_OR_PARTITION), and goes when its topic is deleted. The cells of a group without members
stay for `offsets.retention.minutes`, 7 days by default.

Fenced is not ordered: a commit whose outcome is unknown (`Disconnected`, `RequestTimedOut`) may be executed yet, also
after a later one of the same member on another connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

from heliograph.cluster.group_requests import Ask
from heliograph.cluster.messages import unpacking
from heliograph.model.errors import BrokerRefused, ProtocolError
from heliograph.model.partition import TopicPartition
from heliograph.wire.error_codes import ErrorCode

MOST_TEXT_BYTES = 4096  # offset.metadata.max.bytes of a broker, by default
COMMITTED_AT_ONCE = 1000
_DEFAULT_RETENTION = -1

# Asks the coordinator: the answer to one message.
Asking = Callable[[Ask], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """`number` is committed as an offset: 0 at least. `text` is its metadata: 4096 bytes at most."""

    number: int
    text: str


async def commit_cells(
    asking: Asking,
    group: str,
    member: str,
    generation: int,
    cells: Mapping[TopicPartition, Cell],
    *,
    timeout_s: float,
) -> None:
    """`BrokerRefused` with the coordinator's code, of the first partition that was refused: of others in the same call
    some may be committed."""
    for where, cell in cells.items():
        size = len(cell.text.encode())
        assert size <= MOST_TEXT_BYTES, (
            f"the cell of {where} has {size} bytes of text, a broker takes {MOST_TEXT_BYTES}"
        )
        assert cell.number >= 0, f"the cell of {where} has the number {cell.number}, below 0"
    wheres = list(cells)
    for first in range(0, len(wheres), COMMITTED_AT_ONCE):
        portion = {where: cells[where] for where in wheres[first : first + COMMITTED_AT_ONCE]}
        message = _commit(group, member, generation, portion)
        ask = Ask(message=message, response_class=OffsetCommitResponse, timeout_s=timeout_s)
        _check(await asking(ask), group, portion)


async def read_cells(asking: Asking, group: str, *, timeout_s: float) -> dict[TopicPartition, Cell]:
    """All of the group; those of topics that we may not DESCRIBE are left out by the broker."""
    message = OffsetFetchRequest(group_id=group, topics=None, require_stable=False)
    response = await asking(Ask(message=message, response_class=OffsetFetchResponse, timeout_s=timeout_s))
    found = {}
    with unpacking(f"cells of group {group}"):
        _refuse(int(response.error_code), f"the cells of group {group} cannot be read", group)
        for topic in response.topics:
            for answered in topic.partitions:
                where = TopicPartition(topic.name, answered.partition_index)
                _refuse(
                    int(answered.error_code), f"the cell of {where} in group {group} cannot be read", group
                )
                cell = Cell(number=int(answered.committed_offset), text=answered.metadata or "")
                found[where] = cell
    return found


def _commit(group: str, member: str, generation: int, cells: Mapping[TopicPartition, Cell]) -> Any:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    by_topic: dict[str, list[Any]] = {}
    for where, cell in cells.items():
        committed = topic.OffsetCommitRequestPartition(
            partition_index=where.partition, committed_offset=cell.number, committed_metadata=cell.text
        )
        by_topic.setdefault(where.topic, []).append(committed)
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=None,
        retention_time_ms=_DEFAULT_RETENTION,
        topics=[topic(name=name, partitions=partitions) for name, partitions in by_topic.items()],
    )


def _check(response: Any, group: str, asked: Collection[TopicPartition]) -> None:
    with unpacking(f"a commit to group {group}"):
        codes = {
            TopicPartition(topic.name, answered.partition_index): int(answered.error_code)
            for topic in response.topics
            for answered in topic.partitions
        }
    for where in asked:
        if where not in codes:
            raise ProtocolError(f"a commit to group {group}: nothing is said of {where}")
        _refuse(codes[where], f"the cell of {where} in group {group} was not committed", group)


def _refuse(code: int, what: str, group: str) -> None:
    """Unless the code is 0."""
    hints: dict[int, str] = {
        ErrorCode.GROUP_AUTHORIZATION_FAILED: f"grant READ on the group {group} of the target cluster",
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: "grant READ on the topic of the target cluster",
    }
    if code:
        raise BrokerRefused(f"{what}: {ErrorCode.name_of(code)}", code=code, hint=hints.get(code, ""))
