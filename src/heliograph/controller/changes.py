"""What is to be done about a link's topics since they were planned: which are planned anew, and which are let go. Pure.

    seen at the source, matched   on the board             then
    a topic                       nothing of it            plan it
    more partitions               fewer                    plan it
    a topic                       waits for its target,    plan it
                                  which is there by now
    a topic                       waits, or is refused by  plan it, now and then
                                  what may be mended
    nothing                       rows                     let it go, once that was seen twice
    everything else                                        nothing

Metadata is all that is looked at: what it does not show, a topic that was made again for one, lanes see by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from heliograph.cluster.metadata import ClusterMetadata
from heliograph.model.link import Link
from heliograph.model.partition_status import PartitionStatus
from heliograph.model.states import CONDITIONS, PartitionState

OnBoard = Mapping[str, Sequence[PartitionStatus]]  # by source topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Source topics: those to `plan`, and those that are `gone`, as far as this look shows."""

    plan: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()


def changes(
    link: Link, source: ClusterMetadata, target: ClusterMetadata, board: OnBoard, *, again: bool
) -> Changes:
    """`again`: it is time to look once more at what waits for something that metadata does not show."""
    there = {
        topic.name: topic.partitions
        for topic in source.topics.values()
        if topic.leaders and link.matches(topic.name, internal=topic.internal)
    }
    wanted = (
        name
        for name, partitions in there.items()
        if _is_to_be_planned(
            board.get(name, ()), partitions, _partitions(target, link.target_topic(name)), again=again
        )
    )
    return Changes(plan=frozenset(wanted), gone=frozenset(board.keys() - there.keys()))


def _partitions(metadata: ClusterMetadata, topic: str) -> int:
    found = metadata.topics.get(topic)
    return found.partitions if found is not None else 0


def _is_to_be_planned(
    rows: Sequence[PartitionStatus], source_partitions: int, target_partitions: int, *, again: bool
) -> bool:
    if len(rows) < source_partitions:
        return True
    awaiting = [row for row in rows if row.awaits_topic]
    if any(row.partition.partition < target_partitions for row in awaiting):
        return True
    return again and (bool(awaiting) or any(map(is_refused_for_now, rows)))


def is_refused_for_now(row: PartitionStatus) -> bool:
    """By a plan, for what every plan finds again as long as it is so."""
    return row.state is PartitionState.STOPPED and row.refused and row.reason in CONDITIONS


def begins_anew(row: PartitionStatus | None) -> bool:
    """Whether a new plan decides about this partition: nobody has it, and no operator has to speak first."""
    return row is None or row.awaits_topic or is_refused_for_now(row)


def is_copied(row: PartitionStatus) -> bool:
    """A lane has it, or is to have it."""
    idle = row.state in (PartitionState.STOPPED, PartitionState.PAUSED) or row.awaits_topic
    return not idle and row.held_by is None and (row.lane is not None or row.state is PartitionState.PENDING)


class Absences:
    """Topics that were seen to be gone in one look, and are gone if the next one shows it, too: a broker that has just
    started may know of no topic."""

    def __init__(self) -> None:
        self._seen: frozenset[str] = frozenset()

    @property
    def pending(self) -> bool:
        """Something is to be looked at once more."""
        return bool(self._seen)

    def confirmed(self, gone: Iterable[str]) -> frozenset[str]:
        gone = frozenset(gone)
        confirmed, self._seen = gone & self._seen, gone - self._seen
        return confirmed
