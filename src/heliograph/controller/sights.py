"""Both ends of many partitions, each broker asked about all that it leads. Reads only.

    every target leader:   producers ─▶ start, high watermark, end ─▶ last batch ─▶ producers again
                                                                                        │ of its partitions
    every source leader:                            start, high watermark, end ─▶ end that can be read

Of each partition the target comes first: what was copied meanwhile is then in the source's log too, and not
`target_ahead`. What cannot be read of a partition, or of a broker, is `unreadable` and holds up nothing else (P7).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from heliograph.cluster.batches_at import batches_at
from heliograph.cluster.by_leader import Problem, answered, led_together, look_twice, unanswered
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.log_reads import LogSpan, read_spans, read_stable_ends
from heliograph.cluster.producer_states import Producers, describe_producers
from heliograph.controller.snapshot import PartitionSight
from heliograph.model.admission import LastBatch
from heliograph.model.errors import ProtocolError, RequestFailed
from heliograph.model.partition import TopicPartition
from heliograph.wire.batch import BatchHeader
from heliograph.wire.filler import is_filler

BEING_WRITTEN = "the target is being written right now"
# A target broker that takes longer is not waited for: a lag is of one moment, and partitions of other brokers would
# show what their source has got since.
FIRST_ANSWERS_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A source partition and where it is mirrored to; `target` None: that is not there. `own_id`: the producer id whose
    state is compared. `committed`: whether the link reads committed records only."""

    source: TopicPartition
    target: TopicPartition | None
    own_id: int
    committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastBatch:
    told: LastBatch
    is_filler: bool
    is_control: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    span: LogSpan
    last: _LastBatch | None
    before: Producers
    after: Producers


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    span: LogSpan
    readable_end: int


async def read_sights(
    source: ClusterClient, target: ClusterClient, wanted: Sequence[Pair]
) -> dict[TopicPartition, PartitionSight]:
    """By source partition. Both clients know the leaders of what is wanted."""
    there = dict.fromkeys(each.target for each in wanted if each.target is not None)
    reading = [
        asyncio.ensure_future(look_twice(target, led, partial(_look_at_targets, target)))
        for led in led_together(target, there)
    ]
    found: dict[TopicPartition | None, _Target | Problem | None] = {None: None}
    sights: dict[TopicPartition, PartitionSight] = {}
    try:
        late = (await asyncio.wait(reading, timeout=FIRST_ANSWERS_S))[1] if reading else set()
        for known in ([each for each in reading if each not in late], late):
            for answers in await asyncio.gather(*known):
                found |= answers
            ready = [each for each in wanted if each.target in found and each.source not in sights]
            sources = await _read_sources(source, {each.source: each.committed for each in ready})
            for each in ready:
                seen = _target_half(found[each.target], each.own_id)
                sights[each.source] = _with_source(seen, sources[each.source])
    finally:
        for task in reading:
            task.cancel()  # does nothing to what is done
    return sights


# -- the target's half


async def _look_at_targets(
    client: ClusterClient, wheres: Collection[TopicPartition]
) -> dict[TopicPartition, _Target | Problem]:
    before = await describe_producers(client, wheres)
    spans = await read_spans(client, answered(before))
    held = {where: span for where, span in answered(spans).items() if span.start < span.high_watermark}
    ends = {where: span.high_watermark - 1 for where, span in held.items()}
    lasts = await batches_at(client, ends, _last_batch)
    unread = unanswered(lasts)
    after = await describe_producers(client, [where for where in answered(spans) if where not in unread])
    problems = unanswered(before) | unanswered(spans) | unread | unanswered(after)
    remembered, read, known, last = answered(before), answered(spans), answered(after), answered(lasts)
    targets = {
        where: _Target(span=read[where], last=last.get(where), before=remembered[where], after=known[where])
        for where in known
    }
    return {**problems, **targets}


def _last_batch(header: BatchHeader, view: memoryview) -> _LastBatch:
    told = LastBatch(producer_id=header.producer_id, last_sequence=header.last_sequence)
    return _LastBatch(told=told, is_filler=is_filler(header, view), is_control=header.is_control)


def _target_half(found: _Target | Problem | None, own_id: int) -> PartitionSight:
    """`unreadable` also while somebody writes: its parts would then not fit together. None: it is not there."""
    if found is None:
        return PartitionSight(source=None, source_end=None)
    if not isinstance(found, _Target):
        return PartitionSight(source=None, source_end=None, unreadable=found.message)
    before, after, last = found.before.get(own_id), found.after.get(own_id), found.last
    settled = before == after and found.span.high_watermark == found.span.end
    return PartitionSight(
        source=None,
        source_end=None,
        target=found.span,
        last_batch=last.told if last is not None else None,
        ends_in_filler=last is not None and last.is_filler,
        ends_in_gap=last is not None and last.is_control,
        producer=after,
        unreadable=None if settled else BEING_WRITTEN,
    )


# -- the source's half


async def _read_sources(
    client: ClusterClient, committed: Mapping[TopicPartition, bool]
) -> dict[TopicPartition, _Source | Problem]:
    looks = (
        look_twice(client, led, partial(_look_at_sources, client, committed))
        for led in led_together(client, committed)
    )
    found: dict[TopicPartition, _Source | Problem] = {}
    for answers in await asyncio.gather(*looks):
        found |= answers
    return found


async def _look_at_sources(
    client: ClusterClient, committed: Mapping[TopicPartition, bool], wheres: Iterable[TopicPartition]
) -> dict[TopicPartition, _Source | Problem]:
    spans = await read_spans(client, wheres)
    read = answered(spans)
    stable_ends = await read_stable_ends(client, [where for where in read if committed[where]])
    problems = unanswered(spans) | unanswered(stable_ends)
    stable = answered(stable_ends)
    sources = {
        where: _Source(span=span, readable_end=stable.get(where, span.high_watermark))
        for where, span in read.items()
        if where not in problems
    }
    return {**problems, **sources}


def _with_source(sight: PartitionSight, found: _Source | Problem) -> PartitionSight:
    if isinstance(found, (RequestFailed, ProtocolError)):
        return replace(sight, unreadable=found.message)
    return replace(sight, source=found.span, source_end=found.readable_end)
