"""Which topics a source had when a link first ran: what came later begins at its first record (`start`).

Owns the fields of `link` rows (docs/LEDGER.md). A source may have more topics than fit one record: the row of the link
as a whole holds the first of them and says how many parts there are beside it, which are written before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from heliograph.model.ledger import WHOLE_TOPIC, Fields, LedgerState, RowKind, RowName, is_number

PART_BYTES = 256 << 10  # of names and ids; far below the 1 MB that brokers take


@dataclass(frozen=True, slots=True, kw_only=True)
class AtFirst:
    """By name: how many partitions, and the topic's id where it was known."""

    partitions: Mapping[str, int]
    ids: Mapping[str, str]

    def knew(self, topic: str, partition: int, topic_id: str) -> bool:
        """Whether it was there: this very topic, as far as ids are known, with this partition."""
        known = self.ids.get(topic, "")
        same = not known or not topic_id or known == topic_id
        return same and partition < self.partitions.get(topic, 0)


def parts_of(at_first: AtFirst) -> list[Fields]:
    """At least one."""
    parts: list[dict[str, Any]] = [{"topics": {}, "ids": {}}]
    size = 0
    for name, partitions in at_first.partitions.items():
        topic_id = at_first.ids.get(name, "")
        own = 2 * len(name.encode()) + len(topic_id) + 24
        if size + own > PART_BYTES and size:
            parts.append({"topics": {}, "ids": {}})
            size = 0
        size += own
        parts[-1]["topics"][name] = partitions
        if topic_id:
            parts[-1]["ids"][name] = topic_id
    return list(parts)


def read_parts(parts: Iterable[Fields]) -> AtFirst:
    """What has another form is left out: such topics count as later ones, and are copied from their first record."""
    partitions: dict[str, int] = {}
    ids: dict[str, str] = {}
    for part in parts:
        partitions |= {name: count for name, count in _object(part, "topics").items() if is_number(count)}
        ids |= {name: each for name, each in _object(part, "ids").items() if isinstance(each, str)}
    return AtFirst(partitions=partitions, ids=ids)


def part_name(source_cluster_id: str, link: str, number: int) -> RowName:
    return RowName(
        source_cluster_id=source_cluster_id, target_topic=link, partition=number, kind=RowKind.LINK
    )


def read_at_first(state: LedgerState, source_cluster_id: str, link: str) -> AtFirst | None:
    """None: the link never ran. Where that cannot be read it did, and all its topics are later ones."""
    whole = part_name(source_cluster_id, link, WHOLE_TOPIC)
    fields = state.fields(whole)
    if fields is None:
        return read_parts([]) if state.is_unread(whole) else None
    count = fields.get("parts", 0)
    numbers = range(count if is_number(count) else 0)
    others = (state.fields(part_name(source_cluster_id, link, number)) for number in numbers)
    return read_parts([fields, *(each for each in others if each is not None)])


def _object(fields: Fields, name: str) -> dict[str, Any]:
    found = fields.get(name)
    return found if isinstance(found, dict) else {}
