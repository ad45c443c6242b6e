"""What it costs to delete a target topic and mirror it anew. Pure.

Operators are shown it (operations/remirroring.py), and the driver compares it with what they were shown before it
deletes anything (remirror.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heliograph.cluster.log_reads import LogSpan
from heliograph.controller.snapshot import LinkSnapshot, SourceTopic, TargetTopic
from heliograph.controller.topic_config import FORCED
from heliograph.controller.verdict import shape_for
from heliograph.model.command import Ranges

Lost = Mapping[int, Sequence[tuple[int, int]]]  # by partition


def lost_of(target: LogSpan | None, source: LogSpan | None) -> list[tuple[int, int]]:
    """What only the target holds, half-open ranges, by where both logs start and end. `source` None: it has no such
    partition, or nobody knows what it holds."""
    if target is None:
        return []
    if source is None:
        ranges = [(target.start, target.end)]
    else:
        below = (target.start, min(target.end, source.start))
        above = (max(target.start, source.end, below[1]), target.end)
        ranges = [below, above]
    return [(first, next_offset) for first, next_offset in ranges if first < next_offset]


def hulls(lost: Lost) -> Ranges:
    """One range for each partition, as a command has it; where two are lost, from the first to the end of the last."""
    return {number: (ranges[0][0], ranges[-1][1]) for number, ranges in lost.items() if ranges}


def set_by_hand(snapshot: LinkSnapshot, source: SourceTopic, target: TargetTopic) -> dict[str, str]:
    """The target topic's own configs that it would not be created with, and is given again. What a mirror needs is not
    among them."""
    made = shape_for(snapshot, source).configs
    return {
        key: value for key, value in target.config.own.items() if made.get(key) != value and key not in FORCED
    }
