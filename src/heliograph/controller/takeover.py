"""A link is taken over: read what is written down, observe and plan, create its topics, and take a new term for them.

    open ledger ─▶ observe, plan, create ─▶ cells: a new term, marks erased ─▶ rows carried on ─▶ goals written ─▶ ready

The order matters. The term is fenced by the election's group before a row is written under it; a goal is durable before
a lane hears of it; and no mark of a clean stop is left before anything is appended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from heliograph.controller.at_first import AtFirst
from heliograph.controller.beginnings import resolve_beginnings, resolve_waiting, with_goals
from heliograph.controller.cells import Begun, Cells, Mark
from heliograph.controller.clusters import Clusters
from heliograph.controller.first_records import first_records
from heliograph.controller.followed_configs import NONE_FOLLOWED
from heliograph.controller.link_ledger import LinkLedger
from heliograph.controller.link_ledgers import LinkLedgers
from heliograph.controller.plan import HeldBy, Plan
from heliograph.controller.preparation import prepare
from heliograph.controller.recorded import NOTHING_RECORDED
from heliograph.controller.snapshot import LinkSnapshot
from heliograph.controller.verdict import followed_from
from heliograph.model.clock import time_of_day
from heliograph.model.errors import BrokerRefused, ClusterUnreachable, ProtocolError, RequestFailed
from heliograph.model.events import Event
from heliograph.model.ledger import LEDGER_TOPIC, Row
from heliograph.model.outbox import Outbox
from heliograph.model.partition import MirrorPartition, TopicPartition
from heliograph.model.policy import LinkPolicy
from heliograph.model.states import StopReason
from heliograph.wire.error_codes import ErrorCode

BARRIER = TopicPartition(LEDGER_TOPIC, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """`marks`: of partitions that their last holder has drained."""

    todo: Plan
    marks: Mapping[MirrorPartition, Mark] = field(default_factory=dict)


class Takeover:
    def __init__(
        self, clusters: Clusters, ledgers: LinkLedgers, outbox: Outbox, cells_of: Callable[[str], Cells]
    ) -> None:
        self._clusters = clusters
        self._ledgers = ledgers
        self._outbox = outbox
        self._cells_of = cells_of

    async def __call__(
        self,
        link: str,
        member: str,
        mirrored: Collection[str],
        held_by: HeldBy,
        only: Collection[str] | None = None,
    ) -> Ready:
        """`member`: as whom in the election's group the run holds the link. `mirrored`, `held_by`: as in `prepare`.
        `only`: these source topics of the link, the others go on as they are. `ClusterUnreachable`: try again."""
        ledger = await self._ledgers.open(link)
        recorded = ledger.recorded if ledger is not None else NOTHING_RECORDED
        snapshot, todo = await prepare(
            self._clusters, link, self._outbox, mirrored, held_by, recorded=recorded, only=only
        )
        keys = _held(snapshot, todo)
        held = [key.target for key in keys]
        # Also of topics that have no cells, because they were deleted, or a right to them is missing: an operator's
        # commands about them are answered in rows, and these must count.
        topics = _topics(todo)
        begun = await self._begin(link, member, ledger, held, topics)
        if begun is None:
            ledger = None  # without a term its rows would not count
        todo = await self._with_gaps(link, member, todo)
        if (
            ledger is not None
            and begun is not None
            and not await self._written(link, ledger.take_over(topics, begun.term))
        ):
            ledger = None
        if ledger is None:
            self._ledgers.forget(link)
        todo = await self._with_goals(link, ledger, snapshot, todo, whole=only is None)
        if ledger is not None:
            self._ledgers.ready(link)
        marks = begun.marks if begun is not None else {}
        return Ready(todo=todo, marks=_marks_of(snapshot, keys, marks))

    async def _begin(
        self,
        link: str,
        member: str,
        ledger: LinkLedger | None,
        held: Collection[TopicPartition],
        topics: set[str],
    ) -> Begun | None:
        """None: nothing of it can be kept. Without a ledger, too, no mark may be left that could mislead whoever comes
        next."""
        cells = self._cells_of(link)
        above = ledger.recorded.term_above(topics) if ledger is not None else 0
        barrier = BARRIER if ledger is not None else None
        try:
            return await cells.begin(held, member=member, barrier=barrier, above=above)
        except BrokerRefused as refused:
            # Without the right there are neither terms nor attempts: what needs none is copied (preflight says so).
            if not ErrorCode.denies(refused.code):
                raise _away(refused) from refused
            words = f"link {link}: nothing can be kept for who comes next: {refused.message}"
            self._outbox.tell(Event.ELECTION, words, hint=refused.hint or None, link=link)
            return None
        except (RequestFailed, ProtocolError) as problem:
            raise _away(problem) from problem

    async def _with_gaps(self, link: str, member: str, todo: Plan) -> Plan:
        """Which partitions may have had gaps filled; all of them where that cannot be read."""
        if not todo.copies:
            return todo
        try:
            reserved: Mapping[TopicPartition, int] | None = await self._cells_of(link).attempts(member=member)
        except (RequestFailed, ProtocolError) as problem:
            words = f"link {link}: what was reserved of it before cannot be read: {problem.message}"
            self._outbox.tell(Event.ELECTION, words, link=link)
            reserved = None
        copies = tuple(
            replace(copy, spec=replace(copy.spec, gaps_filled=True))
            if reserved is None or copy.spec.partition.target in reserved
            else copy
            for copy in todo.copies
        )
        return replace(todo, copies=copies)

    async def _with_goals(
        self, link: str, ledger: LinkLedger | None, snapshot: LinkSnapshot, todo: Plan, *, whole: bool
    ) -> Plan:
        """Rows that are durable before lanes hear of the plan; the link's own is the last, so that a run which ends in
        between begins again."""
        ids = snapshot.source_topic_ids
        at_first = ledger.at_first() if ledger is not None else None
        kept = {link: at_first} if ledger is not None else {}
        found = await resolve_beginnings(self._clusters.source, todo, kept, {link: ids}, time_of_day())
        todo_then = found.todo
        for warning in found.todo.warnings[len(todo.warnings) :]:
            self._outbox.tell(Event.PLAN_WARNING, warning, link=link)
        if ledger is not None:
            source, target = self._clusters.source(link), self._clusters.target(link)
            built = await first_records(source, target, snapshot, todo_then)
            todo_then = with_goals(todo_then, built)
            goals = {**found.goals, **built}
            first = whole and at_first is None
            if first:  # also of what cannot be copied yet: nothing that comes until then is to be left out
                waiting = _waiting(snapshot, todo_then)
                goals |= await resolve_waiting(source, waiting, time_of_day())
            rows = [
                ledger.of_begin(
                    key.target,
                    goal,
                    snapshot.link.policy_of(key.source_topic).start,
                    ids[key.source_topic],
                )
                for key, goal in goals.items()
            ]
            rows += _topic_rows(ledger, snapshot, todo_then)
            if first:
                rows += ledger.of_link(AtFirst(partitions=snapshot.source_topics, ids=ids))
            if not await self._written(link, ledger.write(rows)):  # no goal may be used that is not durable
                return await self._with_goals(link, None, snapshot, todo, whole=whole)
        return todo_then

    async def _written(self, link: str, writing: Awaitable[None]) -> bool:
        """False: it is not, and the link goes on without a ledger. `ClusterUnreachable` while it is waited for."""
        try:
            await writing
        except (RequestFailed, ProtocolError) as problem:
            if not self._ledgers.gives_up(link, problem):
                raise _away(problem) from problem
            return False
        return True


def _waiting(snapshot: LinkSnapshot, todo: Plan) -> dict[MirrorPartition, LinkPolicy]:
    """New partitions that are not copied by this plan: their target is missing or holds nothing."""
    idle = [each.partition for each in todo.awaited]
    idle += [each.partition for each in todo.refusals]
    idle += [each.partition for each in todo.paused]
    sights = {
        (topic.name, number): sight
        for topic in snapshot.sources
        for number, sight in topic.partitions.items()
    }
    found = {key: sights.get((key.source_topic, key.partition)) for key in idle}
    return {
        key: snapshot.link.policy_of(key.source_topic)
        for key, sight in found.items()
        if sight is not None and (sight.target is None or sight.target.end == 0)
    }


def _held(snapshot: LinkSnapshot, todo: Plan) -> list[MirrorPartition]:
    """Partitions of ours that exist on the target: the topic of what is copied does, whoever has made it. Those of a
    topic to which a right is missing are left out, so that others have their terms; nothing is appended to them."""
    existing = set(snapshot.targets) | {copy.spec.partition.target_topic for copy in todo.copies}
    keys = [copy.spec.partition for copy in todo.copies]
    keys += [each.partition for each in todo.refusals if each.why.reason is not StopReason.PREFLIGHT]
    keys += [each.partition for each in todo.paused]
    keys += [each.partition for each in todo.cleaning]
    partitions = {name: target.partitions for name, target in snapshot.targets.items()}
    return [
        key
        for key in keys
        if key.target_topic in existing
        and key.partition < partitions.get(key.target_topic, key.partition + 1)
    ]


def _topics(todo: Plan) -> set[str]:
    """All target topics of the plan but those that another run holds."""
    keys = [copy.spec.partition for copy in todo.copies]
    keys += [each.partition for each in todo.refusals]
    keys += [each.partition for each in todo.awaited]
    keys += [each.partition for each in todo.paused]
    keys += [each.partition for each in todo.cleaning]
    return {key.target_topic for key in keys}


def _topic_rows(ledger: LinkLedger, snapshot: LinkSnapshot, todo: Plan) -> list[Row]:
    """Which source topic is copied to which, of those of which it is not written yet. A source topic that was made
    again is refused, and the former one stays written."""
    ids, recorded = snapshot.source_topic_ids, ledger.recorded
    pairs = {copy.spec.partition[1:3] for copy in todo.copies}
    new = {creation.topic for creation in todo.creations}
    topics = {topic.name: topic for topic in snapshot.sources}
    rows = []
    for source_topic, target_topic in sorted(pairs):
        target_id, known = ledger.target_id(target_topic), recorded.mirrored_to(target_topic)
        # One that is kept although its source topic is gone is mirrored again: it was not gone.
        as_written = recorded.is_topic(target_topic, ids[source_topic], target_id)
        if known is None or known.kept or not as_written:
            created = target_topic in new or recorded.created(target_topic, target_id)
            by_hand = recorded.set_by_hand(target_topic) if as_written else None
            followed = recorded.followed(target_topic) if as_written else NONE_FOLLOWED
            if target_topic in new:
                followed = followed_from(snapshot, topics[source_topic])
            rows.append(
                ledger.of_topic(
                    target_topic, source_topic, ids[source_topic], by_hand, followed, created=created
                )
            )
    return rows


def _marks_of(
    snapshot: LinkSnapshot, keys: Collection[MirrorPartition], marks: Mapping[TopicPartition, Mark]
) -> dict[MirrorPartition, Mark]:
    """A mark counts if the log ends where it did then: a run of a version that knows no marks may have been there."""
    ends = {
        (topic.name, number): sight.target.end
        for topic in snapshot.sources
        for number, sight in topic.partitions.items()
        if sight.target is not None
    }
    return {
        key: marks[key.target]
        for key in keys
        if key.target in marks and marks[key.target].end == ends.get((key.source_topic, key.partition))
    }


def _away(problem: RequestFailed | ProtocolError) -> ClusterUnreachable:
    return ClusterUnreachable(
        f"what must be written down first is not: {problem.message}",
        hint=problem.hint or "see the broker's log",
    )
