"""Where new partitions begin that are not to hold all of their source (`start: latest`, a time, an age).

It is resolved once, for topics that were there when the link first ran, and written down before the first lane hears of
it: two drivers that resolve it differently would delete each other's records. Later topics and partitions, also topics
that were deleted and created again since, begin at their first record.

A time is resolved to the first record that is not older, and from there back to the first of its batch: batches are
copied whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from heliograph.cluster.batches_at import batches_at
from heliograph.cluster.by_leader import Problem, answered, look_twice, unanswered
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.list_offsets import CONSUMER, DatedRecord, list_offsets
from heliograph.cluster.log_reads import read_spans, read_stable_ends
from heliograph.controller.at_first import AtFirst
from heliograph.controller.plan import CopyPartition, Plan, RefusePartition
from heliograph.model.admission import Refused
from heliograph.model.hints import THEN_START
from heliograph.model.partition import MirrorPartition, TopicPartition
from heliograph.model.policy import EARLIEST, Isolation, LinkPolicy
from heliograph.model.start import LATEST, start_time
from heliograph.model.states import StopReason


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
    policies: dict[str, dict[MirrorPartition, LinkPolicy]] = {}
    for spec in (copy.spec for copy in wanted):
        policies.setdefault(spec.partition.link, {})[spec.partition] = spec.policy
    found: dict[MirrorPartition, int | Refused] = {}
    for link, of_link in policies.items():
        found |= await _resolve(source_of(link), of_link, now)
    goals = {key: goal for key, goal in found.items() if isinstance(goal, int)}
    failed = {key: why for key, why in found.items() if isinstance(why, Refused)}
    todo = _without(with_goals(todo, goals), failed)
    later = _warnings_of_later(todo, kept, ids)
    return Beginnings(todo=replace(todo, warnings=(*todo.warnings, *later)), goals=goals)


def _warnings_of_later(
    todo: Plan, kept: Mapping[str, AtFirst | None], ids: Mapping[str, Mapping[str, str]]
) -> list[str]:
    """Who reads `start: latest` in the config believes that it counts."""
    topics = {
        (copy.spec.partition.link, copy.spec.partition.source_topic): copy.spec.policy.start
        for copy in todo.copies
        if _is_new_and_says_start(copy) and not _chooses(copy, kept, ids)
    }
    return [
        f"link {link}: topic {topic} has come, or has grown, since the link first ran: its new partitions begin at"
        f" their first record, whatever it says (start: {start})"
        for (link, topic), start in sorted(topics.items())
    ]


def _is_new_and_says_start(copy: CopyPartition) -> bool:
    """And where it begins is not written down."""
    new = not copy.next_offset or copy.align_to is not None
    return new and copy.spec.policy.start != EARLIEST and copy.spec.begin_at is None


def _chooses(
    copy: CopyPartition, kept: Mapping[str, AtFirst | None], ids: Mapping[str, Mapping[str, str]]
) -> bool:
    """A new partition whose link says where to begin, and of which it is not written down yet."""
    if not _is_new_and_says_start(copy):
        return False
    key = copy.spec.partition
    at_first = kept.get(key.link)
    topic_id = ids[key.link].get(key.source_topic, "")
    return at_first is None or at_first.knew(key.source_topic, key.partition, topic_id)


async def resolve_waiting(
    source: ClusterClient, waiting: Mapping[MirrorPartition, LinkPolicy], now: datetime
) -> dict[MirrorPartition, int]:
    """Where partitions begin that cannot be copied yet, as of now: their topics are not on the target, or are refused.
    One that cannot be asked now is left out, and resolved when it is copied."""
    wanted = {key: policy for key, policy in waiting.items() if policy.start != EARLIEST}
    found = await _resolve(source, wanted, now)
    return {key: goal for key, goal in found.items() if isinstance(goal, int)}


async def _resolve(
    source: ClusterClient, policies: Mapping[MirrorPartition, LinkPolicy], now: datetime
) -> dict[MirrorPartition, int | Refused]:
    by_source = {key.source: policy for key, policy in policies.items()}
    found = await look_twice(source, by_source, partial(_offsets, source, by_source, now))
    return {key: _goal(found[key.source], policy.start) for key, policy in policies.items()}


def _goal(found: int | Problem, start: str) -> int | Refused:
    if isinstance(found, int):
        return found
    return Refused(
        reason=StopReason.LEDGER,
        message=f"where the mirror begins (start: {start}) cannot be resolved: {found.message}",
        hint="see that the source can be read" + THEN_START,
    )


async def _offsets(
    source: ClusterClient,
    policies: Mapping[TopicPartition, LinkPolicy],
    now: datetime,
    wheres: Collection[TopicPartition],
) -> dict[TopicPartition, int | Problem]:
    spans = await read_spans(source, wheres)
    committed = {where for where in wheres if policies[where].isolation is Isolation.READ_COMMITTED}
    stable = await read_stable_ends(source, [where for where in answered(spans) if where in committed])
    problems = unanswered(spans) | unanswered(stable)
    read, stable_ends = answered(spans), answered(stable)
    ends = {
        where: max(stable_ends.get(where, span.high_watermark), span.start)
        for where, span in read.items()
        if where not in problems
    }
    times = {
        where: max(int(start_time(policies[where].start, now).timestamp() * 1000), 0)
        for where in ends
        if policies[where].start != LATEST
    }
    dated: dict[TopicPartition, DatedRecord | Problem] = {}
    for isolated in (True, False):
        asked = {where: time_ms for where, time_ms in times.items() if (where in committed) is isolated}
        dated |= await list_offsets(source, asked, replica=CONSUMER, committed=isolated)
    problems |= unanswered(dated)
    firsts = {where: each.offset for where, each in answered(dated).items()}  # -1: no record is as young
    young = {where: offset for where, offset in firsts.items() if 0 <= offset < ends[where]}
    batches = await batches_at(source, young, lambda header, _view: header.base_offset)
    problems |= unanswered(batches)
    begins = {
        where: max(min(young[where], young[where] if base is None else base), read[where].start)
        for where, base in answered(batches).items()
    }
    return {**ends, **begins, **problems}


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
