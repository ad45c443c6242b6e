"""Where compacted partitions begin that are new on the target: at their first record, far above the log's start.

Compaction leaves a log's start where it was. What was emptied before the first batch needs no fillers that the target's
brokers would have to remove again: the partition is aligned to there, and these are deleted as it goes on
(copier/alignment.py). Taken once and written down before a lane hears of it, like every other goal (beginnings.py):
compaction goes on at the source. Where that is impossible, or the right to delete is missing, all holes are filled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from functools import partial

from heliograph.cluster.batches_at import batches_at
from heliograph.cluster.by_leader import Problem, answered, look_twice, unanswered
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.log_reads import read_spans
from heliograph.cluster.rights import try_deleting_records
from heliograph.controller.plan import CopyPartition, Plan
from heliograph.controller.snapshot import LinkSnapshot
from heliograph.model.errors import ProtocolError, RequestFailed
from heliograph.model.partition import MirrorPartition, TopicPartition
from heliograph.model.policy import EARLIEST
from heliograph.wire.dense import MOST_OFFSETS
from heliograph.wire.error_codes import ErrorCode


async def first_records(
    source: ClusterClient, target: ClusterClient, snapshot: LinkSnapshot, todo: Plan
) -> dict[MirrorPartition, int]:
    """Goals of partitions that are built, of which nothing is on the target, and whose first record is so far above the
    log's start that it pays. Target topics exist."""
    ends = _target_ends(snapshot)
    new = [copy.spec.partition for copy in todo.copies if _is_new(copy, ends)]
    wheres = [key.source for key in new]
    far = answered(await look_twice(source, wheres, partial(_far_records, source)))
    found = {key: offset for key in new if (offset := far.get(key.source)) is not None}
    denied = await _denied(target, {key.target_topic for key in found})
    return {key: offset for key, offset in found.items() if key.target_topic not in denied}


async def _denied(target: ClusterClient, topics: Set[str]) -> Set[str]:
    """Of which nothing may be deleted, as far as the cluster says."""
    try:
        codes = await try_deleting_records(target, topics)
    except (RequestFailed, ProtocolError):
        return topics
    return {topic for topic, code in codes.items() if ErrorCode.denies(code)}


def _is_new(copy: CopyPartition, ends: Mapping[MirrorPartition, int]) -> bool:
    spec = copy.spec
    unsaid = spec.begin_at is None and spec.policy.start == EARLIEST
    return spec.builds and unsaid and ends.get(spec.partition, 0) == 0


def _target_ends(snapshot: LinkSnapshot) -> dict[MirrorPartition, int]:
    """Of partitions that are on the target."""
    link = snapshot.link
    return {
        MirrorPartition(link.name, topic.name, link.target_topic(topic.name), number): sight.target.end
        for topic in snapshot.sources
        for number, sight in topic.partitions.items()
        if sight.target is not None
    }


async def _far_records(
    source: ClusterClient, wheres: Collection[TopicPartition]
) -> dict[TopicPartition, int | Problem | None]:
    """The first record of each; None: it is near, or there is none."""
    spans = await read_spans(source, wheres)
    starts = {where: span.start for where, span in answered(spans).items()}
    firsts = await batches_at(source, starts, lambda header, _view: header.base_offset)
    offsets = answered(firsts)
    far = {
        where: offset if offset is not None and offset - starts[where] > MOST_OFFSETS else None
        for where, offset in offsets.items()
    }
    return {**unanswered(spans), **unanswered(firsts), **far}
