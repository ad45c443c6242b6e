"""Whether a target topic is deleted because its source topic was (`on_source_delete: delete`). Pure.

    what is written down ─▶ the source's word ─▶ the target's ─▶ delete
             └───────────────────┴───────────────────┴── the first guard that is not met: held, and why

Every guard is a row of a table, in the order in which they are asked; `decide` says which one holds the topic, or what
is to be found out next. Nothing is taken for met that is not known. A topic that is gone on the target, too, is
forgotten: there is nothing to delete, and what is written down of it would be taken for the next one of its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto

from heliograph.cluster.topic_witnesses import Witness
from heliograph.controller.recorded import MirroredTopic
from heliograph.controller.topic_absence import Absence
from heliograph.model.producer_id import producer_id
from heliograph.model.states import StopReason
from heliograph.wire.error_codes import ErrorCode

UNKNOWN_FOR_S = 60.0
# Of a link's topics. Who deletes topics one by one is followed; a cluster that has lost its topics, or another one that
# answers in its place, is not.
MOST_AT_ONCE = 10
MOST_OF = 10  # one in so many


class Guard(StrEnum):
    WANTED = "wanted"
    IDS = "ids"
    CREATED = "created"
    NOT_KEPT = "not_kept"
    READABLE = "readable"
    SAME_TARGET = "same_target"
    NOT_STOPPED = "not_stopped"
    NOT_PAUSED = "not_paused"
    NO_COMMAND = "no_command"
    HELD_BY_US = "held_by_us"
    FEW = "few"
    SAME_CLUSTER = "same_cluster"
    SEEN_BY_NOBODY = "seen_by_nobody"
    RIGHTS = "rights"
    NAME_NOT_BACK = "name_not_back"
    UNKNOWN_FOR = "unknown_for"
    STILL_SAME_TARGET = "still_same_target"
    LAST_BATCH = "last_batch"


class Next(Enum):
    """All guards that can be asked by now are met."""

    ASK_SOURCE = auto()
    READ_TARGET = auto()
    DELETE = auto()
    FORGET = auto()  # there is no such target topic any more


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """By this guard."""

    guard: Guard
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceWord:
    """What brokers of the source have said just now, and for how long they have been saying so."""

    witnesses: tuple[Witness, ...]
    absence: Absence


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSight:
    """`topic_id`: of the target topic; empty: there is none. `writers`: by partition, who wrote its last data; None:
    it holds none."""

    topic_id: str
    writers: Mapping[int, int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """About one topic that the source has no more. `wanted`: its link says `delete`. `target_topic_id`: of the topic
    that has its name on the target; empty: there is none. `stops`: by partition, the codes that are written down;
    `paused`: partitions. `holds`: nobody else can hold the topic at this moment. `gone`: how many topics of the link
    would be deleted, of how many. `source`, `target`: None: not asked yet."""

    topic: MirroredTopic
    source_cluster_id: str
    wanted: bool
    target_topic_id: str
    unreadable: bool = False
    stops: Mapping[int, str] = field(default_factory=dict)
    paused: frozenset[int] = frozenset()
    commanded: bool = False
    holds: bool = False
    gone: int = 1
    of: int = 1
    source: SourceWord | None = None
    target: TargetSight | None = None


Guards = Mapping[Guard, Callable[[Facts], str | None]]  # why it is not met; None: it is


def too_many(gone: int, of: int) -> bool:
    """One is never too many: a link of few topics could delete none."""
    return gone > MOST_AT_ONCE or (gone > 1 and gone * MOST_OF > of)


def decide(facts: Facts) -> Held | Next:
    if (held := _first_held(RECORDED, facts)) is not None:
        return held
    if facts.source is None:
        return Next.ASK_SOURCE
    if (held := _first_held(AT_SOURCE, facts)) is not None:
        return held
    if facts.target is None:
        return Next.READ_TARGET
    return _first_held(ON_TARGET, facts) or (Next.DELETE if facts.target.topic_id else Next.FORGET)


def _first_held(guards: Guards, facts: Facts) -> Held | None:
    for guard, why_not in guards.items():
        if (why := why_not(facts)) is not None:
            return Held(guard=guard, why=why)
    return None


# -- what is written down, and what metadata shows


def _wanted(facts: Facts) -> str | None:
    return None if facts.wanted else "its link says on_source_delete: keep"


def _ids(facts: Facts) -> str | None:
    known = facts.topic.source_topic_id and facts.topic.target_topic_id
    return None if known else "the ids of both topics are not known (Kafka before 2.8 has none)"


def _created(facts: Facts) -> str | None:
    return None if facts.topic.created else "that the mirror has created it is not written down"


def _not_kept(facts: Facts) -> str | None:
    return "its link said on_source_delete: keep when the source topic was gone" if facts.topic.kept else None


def _readable(facts: Facts) -> str | None:
    return "the ledger holds a row about it that cannot be read" if facts.unreadable else None


def _same_target(facts: Facts) -> str | None:
    return _other(facts.target_topic_id, facts.topic.target_topic_id)


def _other(topic_id: str, was: str) -> str | None:
    return f"it is another topic by now (id {topic_id}, was {was})" if topic_id not in ("", was) else None


def _not_stopped(facts: Facts) -> str | None:
    """A stop as `recreated` is what a lane says of a source topic that is gone."""
    for number, code in sorted(facts.stops.items()):
        if code != StopReason.RECREATED:
            return f"partition {number} is stopped ({code})"
    return None


def _not_paused(facts: Facts) -> str | None:
    return f"partition {min(facts.paused)} is paused" if facts.paused else None


def _no_command(facts: Facts) -> str | None:
    return "it is to be mirrored anew (heliograph topics remirror)" if facts.commanded else None


def _held_by_us(facts: Facts) -> str | None:
    return None if facts.holds else "this run does not hold it for certain"


def _few(facts: Facts) -> str | None:
    if not facts.target_topic_id or not too_many(facts.gone, facts.of):
        return None
    return (
        f"{facts.gone} of {facts.of} topics of the link are gone at once: more than {MOST_AT_ONCE}, or more than one in"
        f" {MOST_OF}, are not deleted"
    )


RECORDED: Guards = {
    Guard.WANTED: _wanted,
    Guard.IDS: _ids,
    Guard.CREATED: _created,
    Guard.NOT_KEPT: _not_kept,
    Guard.READABLE: _readable,
    Guard.SAME_TARGET: _same_target,
    Guard.NOT_STOPPED: _not_stopped,
    Guard.NOT_PAUSED: _not_paused,
    Guard.NO_COMMAND: _no_command,
    Guard.HELD_BY_US: _held_by_us,
    Guard.FEW: _few,
}

# -- what brokers of the source say


def _same_cluster(facts: Facts) -> str | None:
    for witness in _witnesses(facts):
        if witness.cluster_id != facts.source_cluster_id:
            return (
                f"broker {witness.node} is of cluster {witness.cluster_id}, not of {facts.source_cluster_id}"
            )
    return None


def _seen_by_nobody(facts: Facts) -> str | None:
    for witness in _witnesses(facts):
        code = witness.by_id.get(facts.topic.source_topic_id)
        if code != ErrorCode.UNKNOWN_TOPIC_ID:
            said = f" ({ErrorCode.name_of(code)})" if code else ""
            return f"broker {witness.node} of the source does not say that it is gone{said}"
    return None


def _rights(facts: Facts) -> str | None:
    for witness in _witnesses(facts):
        if ErrorCode.denies(witness.by_name.get(facts.topic.source_topic, 0)):
            name = facts.topic.source_topic
            return f"the mirror may not see topic {name} at the source any more, whether it is there or not"
    return None


def _name_not_back(facts: Facts) -> str | None:
    for witness in _witnesses(facts):
        if witness.by_name.get(facts.topic.source_topic) != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return f"broker {witness.node} of the source has a topic of that name"
    return None


def _unknown_for(facts: Facts) -> str | None:
    lasts_s = facts.source.absence.lasts_s if facts.source is not None else 0.0
    if lasts_s >= UNKNOWN_FOR_S:
        return None
    return f"two brokers of the source have not known it for {lasts_s:.0f} s; {UNKNOWN_FOR_S:.0f} s are waited for"


def _witnesses(facts: Facts) -> tuple[Witness, ...]:
    return facts.source.witnesses if facts.source is not None else ()


AT_SOURCE: Guards = {
    Guard.SAME_CLUSTER: _same_cluster,
    Guard.SEEN_BY_NOBODY: _seen_by_nobody,
    Guard.RIGHTS: _rights,
    Guard.NAME_NOT_BACK: _name_not_back,
    Guard.UNKNOWN_FOR: _unknown_for,
}

# -- what the target holds


def _still_same_target(facts: Facts) -> str | None:
    """As the last look at all topics has shown it: then they were counted. A broker that has just started may show
    none."""
    if facts.target is None or facts.target.topic_id == facts.target_topic_id:
        return None
    return (
        f"the target shows it (id {facts.target.topic_id}) otherwise than before (id {facts.target_topic_id})"
    )


def _last_batch(facts: Facts) -> str | None:
    ours = producer_id(facts.source_cluster_id, facts.topic.source_topic)
    for number, writer in sorted(facts.target.writers.items()) if facts.target is not None else ():
        if writer not in (None, ours):
            return f"the last batch of partition {number} is not the mirror's (producer id {writer})"
    return None


ON_TARGET: Guards = {
    Guard.STILL_SAME_TARGET: _still_same_target,
    Guard.LAST_BATCH: _last_batch,
}
