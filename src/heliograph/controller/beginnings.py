"""Where new partitions begin that are not to hold all of their source (`start: latest`, a time, an age).

It is resolved once, for topics that were there when the link first ran, and written down before the first lane hears of
it: two drivers that resolve it differently would delete each other's records. Later topics and partitions, also topics
that were deleted and created again since, begin at their first record.

A time is resolved to the first record that is not older, and from there back to the first of its batch: batches are
copied whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from heliograph.cluster.at_most import at_most
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.list_offsets import CONSUMER
from heliograph.cluster.log_reads import list_offset, read_batch, read_span, read_stable_end
from heliograph.controller.at_first import AtFirst
from heliograph.controller.plan import CopyPartition, Plan, RefusePartition
from heliograph.model.admission import Refused
from heliograph.model.errors import ProtocolError, RequestFailed
from heliograph.model.hints import THEN_START
from heliograph.model.partition import MirrorPartition, TopicPartition
from heliograph.model.policy import EARLIEST, Isolation, LinkPolicy
from heliograph.model.start import LATEST, start_time
from heliograph.model.states import StopReason

READS_AT_ONCE = 64
NO_OFFSET = -1  # a broker's answer: no record is as young


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginnings:
    """`goals`: resolved just now, and not written down yet."""

    todo: Plan
    goals: Mapping[MirrorPartition, int]


async def resolve_beginnings(
    source_of: Callable[[str], ClusterClient],
    todo: Plan,
    kept: Mapping[str, AtFirst | None],
    ids: Mapping[str, Mapping[str, str]],
    now: datetime,
) -> Beginnings:
    """The plan with the goals of new partitions. `source_of`: by link. `kept`: by link that has a ledger; of others no
    goal can be kept; None: it never ran. `ids`: of source topics, by link."""
    chosen = [copy for copy in todo.copies if _chooses(copy, kept, ids)]
    unkept = {copy.spec.partition: _NO_LEDGER for copy in chosen if copy.spec.partition.link not in kept}
    todo = _without(todo, unkept)
    wanted = [copy for copy in chosen if copy.spec.partition not in unkept]
    questions = [
        partial(_resolve, source_of(each.partition.link), each.partition.source, each.policy, now)
        for each in (copy.spec for copy in wanted)
    ]
    answers = await at_most(READS_AT_ONCE, questions)
    found = dict(zip((copy.spec.partition for copy in wanted), answers, strict=True))
    goals = {key: goal for key, goal in found.items() if isinstance(goal, int)}
    failed = {key: why for key, why in found.items() if isinstance(why, Refused)}
    return Beginnings(todo=_without(with_goals(todo, goals), failed), goals=goals)


def _chooses(
    copy: CopyPartition, kept: Mapping[str, AtFirst | None], ids: Mapping[str, Mapping[str, str]]
) -> bool:
    """A new partition whose link says where to begin, and of which it is not written down yet."""
    spec = copy.spec
    new = not copy.next_offset or copy.align_to is not None
    if spec.policy.start == EARLIEST or spec.begin_at is not None or not new:
        return False
    key = spec.partition
    at_first = kept.get(key.link)
    topic_id = ids[key.link].get(key.source_topic, "")
    return at_first is None or at_first.knew(key.source_topic, key.partition, topic_id)


async def resolve_waiting(
    source: ClusterClient, waiting: Mapping[MirrorPartition, LinkPolicy], now: datetime
) -> dict[MirrorPartition, int]:
    """Where partitions begin that cannot be copied yet, as of now: their topics are not on the target, or are refused.
    One that cannot be asked now is left out, and resolved when it is copied."""
    wanted = {key: policy for key, policy in waiting.items() if policy.start != EARLIEST}
    questions = [partial(_resolve, source, key.source, policy, now) for key, policy in wanted.items()]
    answers = await at_most(READS_AT_ONCE, questions)
    return {key: goal for key, goal in zip(wanted, answers, strict=True) if isinstance(goal, int)}


async def _resolve(
    source: ClusterClient, where: TopicPartition, policy: LinkPolicy, now: datetime
) -> int | Refused:
    try:
        return await _offset(source, where, policy.start, policy.isolation, now)
    except (RequestFailed, ProtocolError) as problem:
        return Refused(
            reason=StopReason.LEDGER,
            message=f"where the mirror begins (start: {policy.start}) cannot be resolved: {problem.message}",
            hint="see that the source can be read" + THEN_START,
        )


async def _offset(
    source: ClusterClient, where: TopicPartition, start: str, isolation: Isolation, now: datetime
) -> int:
    span = await read_span(source, where)
    committed = isolation is Isolation.READ_COMMITTED
    end = await read_stable_end(source, where) if committed else span.high_watermark
    if start == LATEST:
        return max(end, span.start)
    time_ms = int(start_time(start, now).timestamp() * 1000)
    found = await list_offset(source, where, max(time_ms, 0), replica=CONSUMER, committed=committed)
    if found == NO_OFFSET or found >= end:
        return max(end, span.start)
    batch = await read_batch(source, where, found)
    return max(found if batch is None else min(batch[0].base_offset, found), span.start)


def with_goals(todo: Plan, goals: Mapping[MirrorPartition, int]) -> Plan:
    return replace(
        todo, copies=tuple(_with_goal(copy, goals.get(copy.spec.partition)) for copy in todo.copies)
    )


def _with_goal(copy: CopyPartition, goal: int | None) -> CopyPartition:
    if goal is None:
        return copy
    align_to = max(goal, copy.align_to or 0)
    return replace(copy, spec=replace(copy.spec, begin_at=goal), align_to=align_to or None)


def _without(todo: Plan, failed: Mapping[MirrorPartition, Refused]) -> Plan:
    if not failed:
        return todo
    return replace(
        todo,
        copies=tuple(copy for copy in todo.copies if copy.spec.partition not in failed),
        refusals=(*todo.refusals, *(RefusePartition(partition=key, why=why) for key, why in failed.items())),
    )


_NO_LEDGER = Refused(
    reason=StopReason.LEDGER,
    message="the topic has a start other than earliest, which is written to the ledger, and the target lets the mirror"
    " keep no ledger",
    hint="set start: earliest, or grant CREATE, READ and WRITE on topics of the target that begin with __heliograph_;"
    " then start the mirror again",
)
