"""Plan: what to do about what was observed. Pure functions of immutable snapshots; somebody else acts.

A refused topic or partition stops alone (P7). What is wrong with the links as such (two into one topic, a circle) is
wrong use and stops the whole run before it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from heliograph.controller import deletion_guards
from heliograph.controller.build_settings import phase_of
from heliograph.controller.config_verdict import ConfigFacts, Drift, judge_configs
from heliograph.controller.deletion_guards import Guard, Held, decide
from heliograph.controller.finding import Finding
from heliograph.controller.gone_topics import facts_of, gone_topics, is_wanted
from heliograph.controller.growth import Lacking, is_mirror, lacking
from heliograph.controller.link_conflicts import check_links
from heliograph.controller.recorded import NOTHING_RECORDED, Recorded
from heliograph.controller.recorded_plan import gone_since, paused_by, refuse_by_ledger
from heliograph.controller.replicas import few_replicas
from heliograph.controller.snapshot import LinkSnapshot, PartitionSight, SourceTopic, TargetTopic
from heliograph.controller.topic_config import TargetShape, creation_line
from heliograph.controller.verdict import (
    build_phase,
    can_align,
    creation_shape,
    judge,
    refuse_build,
    target_configs,
)
from heliograph.copier.spec import STATE_LASTS_MS, CopySpec, is_guarded, margin_for, merged_limit
from heliograph.copier.target_takes import time_limits
from heliograph.model.admission import Admitted, Refused, TopicFacts, admit_topic
from heliograph.model.claims import Holder
from heliograph.model.events import Severity
from heliograph.model.hints import START_AFTER_LINE, THEN_START
from heliograph.model.ledger import OWN_PREFIX, is_own_name
from heliograph.model.link import Link
from heliograph.model.partition import MirrorPartition
from heliograph.model.producer_id import producer_id
from heliograph.model.states import BuildPhase, StopReason

DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
TOPIC_NAME_LIMIT = 249


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    link: str
    topic: str
    shape: TargetShape

    @property
    def builds(self) -> bool:
        """With the settings of a compacted topic that is built first."""
        return phase_of(self.shape.configs) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """The source topic has more partitions than its mirror, which has those that are `there`: the target topic gets as
    many, `to` in all."""

    link: str
    topic: str
    there: int
    to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeConfigs:
    """The source topic's configs have changed, or the link's rules: those of the target topic follow, to these values
    (None: unset). `before`: what they are now."""

    link: str
    topic: str
    changes: Mapping[str, str | None]
    before: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepConfigs:
    """What of a target topic's configs differs from what it should be, and stays so: an operator has set it (`drift`),
    or the target's brokers do not know it (`unknown`)."""

    link: str
    topic: str
    drift: Mapping[str, Drift]
    unknown: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """Its source topic is gone, and its link says that it goes, too (`on_source_delete`): `why`, and what it waits for.
    `held`: there are too many of them, and none is deleted."""

    link: str
    topic: str
    topic_id: str
    source_topic: str
    why: str
    held: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPartition:
    """`next_offset`: the target's end, `goal`: the source's; None where they could not be read. `align_to`: where the
    mirror begins, if the target is brought to there first. `lost_to`: up to there offsets are gone from the source, and
    that is accepted."""

    spec: CopySpec
    next_offset: int | None
    goal: int | None
    align_to: int | None = None
    lost_to: int | None = None

    @property
    def source_end(self) -> int:
        return self.goal or 0

    @property
    def backlog(self) -> int:
        """How many records are to be copied as of now."""
        return max(self.source_end - max(self.next_offset or 0, self.align_to or 0, self.lost_to or 0), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusePartition:
    partition: MirrorPartition
    why: Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavePartition:
    """Another run holds its topic. Offsets as in `CopyPartition`."""

    partition: MirrorPartition
    next_offset: int | None
    goal: int | None
    holder: Holder


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitPartition:
    """The target has no such topic, or no such partition, and it is not to be made, or not now: `why`. An operator may
    do that by `command`. It is no refusal: the partition is copied as soon as it is there. Offsets as in
    `CopyPartition`."""

    partition: MirrorPartition
    goal: int | None
    why: str
    command: str | None = None
    align_to: int | None = None

    @property
    def backlog(self) -> int:
        return max((self.goal or 0) - (self.align_to or 0), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PausePartition:
    """An operator wants that it is not copied, or it waits for its topic to be made anew. Offsets as in
    `CopyPartition`; `words` say by whose wish. `anew`: its topic is to be deleted and mirrored anew."""

    partition: MirrorPartition
    next_offset: int | None
    goal: int | None
    words: str
    anew: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanPartition:
    """All its offsets are filled, and brokers remove the fillers: no lane has it. Offsets as in `CopyPartition`."""

    partition: MirrorPartition
    next_offset: int | None
    goal: int | None


# One thing that a run does, or leaves. Whoever handles all kinds does so in a match that ends with `assert_never`: mypy
# then finds every place that a new kind has to be added to.
TopicAction = CreateTopic | AddPartitions | ChangeConfigs | KeepConfigs | DeleteTopic
PartitionAction = (
    CopyPartition | AwaitPartition | PausePartition | CleanPartition | LeavePartition | RefusePartition
)
Action = TopicAction | PartitionAction

HeldBy = Callable[[Link, str], Holder | None]
RecordedOf = Callable[[LinkSnapshot], Recorded]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    creations: tuple[CreateTopic, ...]
    copies: tuple[CopyPartition, ...]
    refusals: tuple[RefusePartition, ...]
    warnings: tuple[str, ...]
    left: tuple[LeavePartition, ...] = ()
    awaited: tuple[AwaitPartition, ...] = ()
    paused: tuple[PausePartition, ...] = ()
    cleaning: tuple[CleanPartition, ...] = ()
    growths: tuple[AddPartitions, ...] = ()
    config_changes: tuple[ChangeConfigs, ...] = ()
    kept_configs: tuple[KeepConfigs, ...] = ()
    deletions: tuple[DeleteTopic, ...] = ()

    @property
    def actions(self) -> tuple[Action, ...]:
        """All of it: first what is done to topics, then each partition, those that are copied first."""
        return (
            *self.creations,
            *self.growths,
            *self.config_changes,
            *self.kept_configs,
            *self.deletions,
            *self.copies,
            *self.awaited,
            *self.paused,
            *self.cleaning,
            *self.left,
            *self.refusals,
        )

    @property
    def partitions(self) -> int:
        """How many are this run's."""
        return sum(1 for _ in self.keys) - len(self.left)

    @property
    def keys(self) -> Iterator[MirrorPartition]:
        """Of all partitions that it says something of."""
        yield from (copy.spec.partition for copy in self.copies)
        for others in (self.refusals, self.left, self.awaited, self.paused, self.cleaning):
            yield from (each.partition for each in others)


def plan(
    snapshots: Sequence[LinkSnapshot],
    findings: Sequence[Finding] = (),
    held_by: HeldBy = lambda _link, _topic: None,
    recorded_of: RecordedOf = lambda _snapshot: NOTHING_RECORDED,
) -> Plan:
    """Raises ConfigError for links that cannot go together. `findings`: what a preflight found to be missing.
    `held_by`: which other run holds a source topic's target; such a topic is neither judged nor created.
    `recorded_of`: what the ledger says of a link's target topics."""
    check_links([each.topics for each in snapshots])
    left = [each for snapshot in snapshots for each in _held_elsewhere(snapshot, held_by)]
    held = {(each.partition.link, each.partition.source_topic) for each in left}
    made = _Making()
    for snapshot in snapshots:
        recorded = recorded_of(snapshot)
        for topic in snapshot.sources:
            if (snapshot.link.name, topic.name) in held:
                continue
            missing = _missing(snapshot.link, topic.name, findings)
            _plan_topic(snapshot, topic, missing, recorded, made)
    warnings = [str(f) for f in findings if f.severity is Severity.WARNING]
    warnings += [w for creation in made.creations for w in creation.shape.warnings]
    warnings += made.warnings
    warnings += [
        f"link {s.link.name}: no topic of cluster {s.link.source!r} matches"
        for s in snapshots
        if not s.sources
    ]
    warnings += [warning for s in snapshots if (warning := few_replicas(s))]
    warnings += [warning for s in snapshots if (warning := _forgetful(s))]
    deletions = [each for s in snapshots for each in _deletions(s, recorded_of(s), held_by)]
    return Plan(
        creations=tuple(made.creations),
        copies=tuple(made.copies),
        refusals=tuple(made.refusals),
        warnings=tuple(warnings),
        left=tuple(left),
        awaited=tuple(made.awaited),
        paused=tuple(made.paused),
        cleaning=tuple(made.cleaning),
        growths=tuple(made.growths),
        config_changes=tuple(made.config_changes),
        kept_configs=tuple(made.kept_configs),
        deletions=tuple(deletions),
    )


@dataclass(slots=True)
class _Making:
    """A plan while it is made."""

    creations: list[CreateTopic] = field(default_factory=list)
    growths: list[AddPartitions] = field(default_factory=list)
    config_changes: list[ChangeConfigs] = field(default_factory=list)
    kept_configs: list[KeepConfigs] = field(default_factory=list)
    copies: list[CopyPartition] = field(default_factory=list)
    refusals: list[RefusePartition] = field(default_factory=list)
    awaited: list[AwaitPartition] = field(default_factory=list)
    paused: list[PausePartition] = field(default_factory=list)
    cleaning: list[CleanPartition] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def _forgetful(snapshot: LinkSnapshot) -> str | None:
    """What to say of a target whose brokers forget a producer before anything that comes late has come."""
    lasts_ms, needed_ms = snapshot.state_lasts_ms or STATE_LASTS_MS, margin_for(snapshot.flight_s)
    if is_guarded(lasts_ms, needed_ms):
        return None
    return (
        f"link {snapshot.link.name}: cluster {snapshot.link.target!r}: its brokers forget a producer after {lasts_ms}"
        " ms, before all that may come late has come: every record is copied like an old one, one batch at a time under"
        f" an exclusive lease (hint: producer.id.expiration.ms={STATE_LASTS_MS} on its brokers; the least that helps is"
        f" {2 * needed_ms + 2})"
    )


def _deletions(snapshot: LinkSnapshot, recorded: Recorded, held_by: HeldBy) -> Iterator[DeleteTopic]:
    """As far as what is written down tells; what only brokers can say is asked by who carries them out."""
    if not snapshot.link.deletes:
        return
    link, there = snapshot.link, {*snapshot.source_topics, *(topic.name for topic in snapshot.sources)}
    gone = [
        topic
        for topic in gone_topics(link, recorded, there)
        if is_wanted(link, topic) and held_by(link, topic.source_topic) is None
    ]
    others = sum(map(link.matches, there))
    ids = snapshot.target_topic_ids
    for each in facts_of(link, recorded, gone, ids, others=others, holds=lambda _topic: True):
        topic, verdict = each.topic, decide(each)
        held = verdict.why if isinstance(verdict, Held) else None
        if not each.target_topic_id or (isinstance(verdict, Held) and verdict.guard is not Guard.FEW):
            continue  # it is gone, or kept
        waits = f"deleted when two brokers have not known it for {deletion_guards.UNKNOWN_FOR_S:.0f} s"
        yield DeleteTopic(
            link=link.name,
            topic=topic.target_topic,
            topic_id=topic.target_topic_id,
            source_topic=topic.source_topic,
            why=f"cluster {link.source!r} has no topic {topic.source_topic} any more: {held or waits}",
            held=held is not None,
        )


def _held_elsewhere(snapshot: LinkSnapshot, held_by: HeldBy) -> list[LeavePartition]:
    link = snapshot.link
    return [
        LeavePartition(
            partition=MirrorPartition(link.name, topic.name, link.target_topic(topic.name), number),
            next_offset=_seen_offset(sight),
            goal=sight.source_end,
            holder=holder,
        )
        for topic in snapshot.sources
        if (holder := held_by(link, topic.name)) is not None
        for number, sight in topic.partitions.items()
    ]


def _missing(link: Link, topic: str, findings: Iterable[Finding]) -> Refused | None:
    """The first finding of a preflight that stands in the way of this topic."""
    for found in findings:
        name = topic if found.cluster == link.source else link.target_topic(topic)
        concerned = found.link == link.name and (not found.topics or name in found.topics)
        if concerned and found.severity is Severity.ERROR:
            message = f"cluster {found.cluster!r}: {found.message}"
            return Refused(reason=found.reason, message=message, hint=found.hint + START_AFTER_LINE)
    return None


def _plan_topic(
    snapshot: LinkSnapshot, topic: SourceTopic, missing: Refused | None, recorded: Recorded, made: _Making
) -> None:
    link = snapshot.link
    target_name = link.target_topic(topic.name)
    target = snapshot.targets.get(target_name)
    target_id = target.topic_id if target else ""
    lacks = lacking(snapshot, topic, recorded)
    refused = (
        _refuse_topic(snapshot, topic, target_name, target, lacks)
        or missing
        or refuse_by_ledger(recorded, topic, target_name, target)
    )
    if target is not None and refused is None:
        _plan_configs(snapshot, topic, target, recorded, made)
    configs = target_configs(snapshot, topic)
    policy = link.policy_of(topic.name)
    max_batch_bytes = int(configs.get("max.message.bytes", DEFAULT_MAX_MESSAGE_BYTES))
    after_max_ms, before_max_ms = time_limits(configs)
    shape, building = creation_shape(snapshot, topic), build_phase(snapshot, topic)
    wanted = grows = False
    for number, sight in topic.partitions.items():
        partition = MirrorPartition(link.name, topic.name, target_name, number)
        spec = CopySpec(
            partition=partition,
            source=link.source,
            target=link.target,
            target_cluster_id=snapshot.target_cluster_id,
            producer_id=producer_id(snapshot.source_cluster_id, topic.name),
            max_batch_bytes=max_batch_bytes,
            max_merged_bytes=merged_limit(configs, max_batch_bytes),
            after_max_ms=after_max_ms,
            before_max_ms=before_max_ms,
            source_compacts="compact" in topic.config.effective.get("cleanup.policy", ""),
            state_lasts_ms=snapshot.state_lasts_ms or STATE_LASTS_MS,
            margin_ms=margin_for(snapshot.flight_s),
            policy=policy,
            aligns=can_align(configs),
            builds=building is BuildPhase.FILLING,
            gaps_filled=recorded.gaps_filled(partition.target, target_id),
            begin_at=recorded.begin(partition.target, topic.topic_id, policy.start),
            accepted_loss=recorded.accepted_loss(partition.target, target_id),
            fill_way=snapshot.gaps.fill_way(target_name),
            source_cluster_id=snapshot.source_cluster_id,
        )
        why_paused = paused_by(recorded, partition.target, target_id)
        stop = recorded.stop(partition.target, target_id)
        verdict = (
            (stop.why if stop else None)
            or refused
            or judge(
                sight,
                spec.producer_id,
                aligns=spec.aligns,
                begin_at=spec.begin_at,
                accepted_loss=spec.accepted_loss,
                on_loss=policy.on_loss,
            )
        )
        if why_paused is not None and (stop is None or recorded.to_remirror(target_name)):
            made.paused.append(_pause(partition, sight, why_paused, anew=recorded.to_remirror(target_name)))
        elif isinstance(verdict, Refused):
            made.refusals.append(RefusePartition(partition=partition, why=verdict))
        elif building is BuildPhase.CLEANING:
            made.cleaning.append(
                CleanPartition(partition=partition, next_offset=_seen_offset(sight), goal=sight.source_end)
            )
        elif target is None and not link.create_topics:
            command = creation_line(snapshot.target_servers, target_name, shape)
            why = f"the target has no topic {target_name}, and this link creates none (create_topics: false)"
            made.awaited.append(_await(partition, sight, verdict, why, command))
        elif lacks is not None and lacks.why is not None and number >= lacks.there:
            made.awaited.append(_await(partition, sight, verdict, lacks.why, lacks.command))
        else:
            made.copies.append(_copy(spec, sight, verdict))
            wanted, grows = True, grows or (lacks is not None and number >= lacks.there)
    if grows and lacks is not None:
        made.growths.append(
            AddPartitions(link=link.name, topic=target_name, there=lacks.there, to=len(topic.partitions))
        )
    if wanted and target is None:
        made.creations.append(CreateTopic(link=link.name, topic=target_name, shape=shape))
        gone = gone_since(recorded, target_name)
        made.warnings += [f"link {link.name}: {gone}"] if gone else []


def _plan_configs(
    snapshot: LinkSnapshot, topic: SourceTopic, target: TargetTopic, recorded: Recorded, made: _Making
) -> None:
    """Of a topic that is this link's mirror already; nobody else's is touched."""
    if not is_mirror(snapshot, topic, target, recorded):
        return
    facts = ConfigFacts(
        source=topic.config,
        target=target.config,
        replicas=target.replication_factor,
        target_defaults=snapshot.target_defaults,
        followed=recorded.followed(target.name),
    )
    verdict = judge_configs(facts, snapshot.link.topic_configs)
    if verdict is None:
        return
    of = {"link": snapshot.link.name, "topic": target.name}
    if verdict.changes:
        made.config_changes.append(ChangeConfigs(**of, changes=verdict.changes, before=verdict.before))
    if verdict.drift or verdict.unknown:
        made.kept_configs.append(KeepConfigs(**of, drift=verdict.drift, unknown=verdict.unknown))


def _pause(partition: MirrorPartition, sight: PartitionSight, words: str, *, anew: bool) -> PausePartition:
    return PausePartition(
        partition=partition, next_offset=_seen_offset(sight), goal=sight.source_end, words=words, anew=anew
    )


def _copy(spec: CopySpec, sight: PartitionSight, verdict: Admitted | None) -> CopyPartition:
    return CopyPartition(
        spec=spec,
        next_offset=verdict.position.source if verdict else _seen_offset(sight),
        goal=sight.source_end,
        align_to=verdict.align_to if verdict else None,
        lost_to=verdict.lost_to if verdict else None,
    )


def _await(
    partition: MirrorPartition,
    sight: PartitionSight,
    verdict: Admitted | None,
    why: str,
    command: str | None,
) -> AwaitPartition:
    align_to = verdict.align_to if verdict else None
    return AwaitPartition(
        partition=partition, goal=sight.source_end, align_to=align_to, why=why, command=command
    )


def _refuse_topic(
    snapshot: LinkSnapshot,
    topic: SourceTopic,
    target_name: str,
    target: TargetTopic | None,
    lacks: Lacking | None,
) -> Refused | None:
    if len(target_name) > TOPIC_NAME_LIMIT:
        return Refused(
            reason=StopReason.UNSUPPORTED,
            message=f"the target topic's name would have {len(target_name)} characters, Kafka allows"
            f" {TOPIC_NAME_LIMIT}",
            hint="choose a shorter naming, or exclude the topic",
        )
    if is_own_name(target_name):
        return Refused(
            reason=StopReason.UNSUPPORTED,
            message=f"the target topic would be {target_name}: names that begin with {OWN_PREFIX} are Heliograph's"
            " own (docs/LEDGER.md)",
            hint=f"choose another naming for link {snapshot.link.name}, or exclude topic {topic.name}",
        )
    unread = _unread_config(snapshot, topic, target)
    if unread is not None:
        return unread
    return refuse_build(snapshot, topic) or admit_topic(
        TopicFacts(
            source_cluster_id=snapshot.source_cluster_id,
            target_cluster_id=snapshot.target_cluster_id,
            source_partitions=len(topic.partitions),
            target_partitions=target.partitions if target and lacks is None else len(topic.partitions),
            target_config=target.config.effective if target else {},
        )
    )


def _unread_config(snapshot: LinkSnapshot, topic: SourceTopic, target: TargetTopic | None) -> Refused | None:
    """Without its configs nobody can say whether a target would rewrite batches, or how to create one."""
    for cluster, name, problem in (
        (snapshot.link.source, topic.name, topic.config.problem),
        (snapshot.link.target, target.name if target else "", target.config.problem if target else None),
    ):
        if problem is not None:
            return Refused(
                reason=StopReason.TOPIC_CONFIG,
                message=f"topic {name} of cluster {cluster!r}: {problem}",
                hint=f"exclude the topic, or grant the mirror DESCRIBE_CONFIGS on topic {name} of {cluster!r}"
                + THEN_START,
            )
    return None


def _seen_offset(sight: PartitionSight) -> int | None:
    """Where the target stands that could not be judged, because it is being written, say."""
    return sight.target.high_watermark if sight.target else None
