"""Whether a target may be written, decided from facts alone: once at plan time, again at every resynchronisation.

The rows of docs/DESIGN.md, "Which targets may be written", are the branches below, in the same order; each has
a test. With identical offsets the target's log end is the position (P3), so every doubt is a refusal (P6):

- writing behind somebody else's records would shift ours;
- an end that the source does not reach means that the source was truncated or recreated, or is another one;
- an end below the source's start means that records are gone, or were never there to align to. What is gone may be
  left out only where somebody has accepted that: an operator for a range, or the policy for whatever retention takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from heliograph.model.errors import PartitionStop
from heliograph.model.hints import (
    ACCEPT_LOSS,
    AFRESH,
    TARGET_TOPIC,
    THEN_RESUME_TOPIC,
    THEN_START,
)
from heliograph.model.policy import OnLoss
from heliograph.model.position import SEQUENCES, Position, next_sequence
from heliograph.model.states import StopReason

# Lost offsets that are filled with markers, at most. Each costs 78 bytes on the target and 50 us of its broker's time:
# these take 780 MB and 8 minutes.
MOST_LOST_OFFSETS = 10_000_000

KEEP = "to keep the target topic as it is, exclude the topic, or choose another naming for the link (naming: prefix)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """`align_to`: up to this offset the target holds, or will hold, fillers: a mirror that begins above 0 has the
    source's own offsets. None: what is there are records, or nothing.
    `lost_to`: the source's offsets from the position up to here are gone, somebody has accepted that, and markers take
    their place. None: nothing is lost."""

    position: Position
    align_to: int | None = None
    lost_to: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """`first_offset`, `next_offset`: the offsets that it is about, as a half-open range, where it is about any.
    `hint` may hold placeholders of model/hints.py: whoever shows it knows the names."""

    reason: StopReason
    message: str
    hint: str
    first_offset: int | None = None
    next_offset: int | None = None

    def as_stop(self) -> PartitionStop:
        """The same, met by a lane."""
        return PartitionStop(
            self.reason,
            self.message,
            hint=self.hint,
            first_offset=self.first_offset,
            next_offset=self.next_offset,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    source_cluster_id: str
    target_cluster_id: str
    source_partitions: int
    target_partitions: int
    target_config: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBatch:
    """The target's last data batch, as its header says."""

    producer_id: int
    last_sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """`last_batch`: None where the target's log holds no data.

    `last_sequence`: what the target's leader remembers of our producer id, None where it has no state.
    `gaps_filled`: something shows that offsets of this partition were filled with markers, which have no sequence
    numbers: sequences may then lag behind offsets. `ends_in_markers`: markers of ours are its last batches.
    `last_is_filler`: the target's last batch holds nothing but offsets: an alignment is under way.
    `aligns`: the target topic may be aligned: its records can be deleted.
    `begin_at`: the source offset that a new target begins at, None: where the source's log starts. Once records are
    there it only says who wrote an emptied target.
    `accepted_loss`: source offsets, as a half-open range, that an operator has accepted to lose. `on_loss`: what to do
    about others.
    """

    source_start: int
    source_end: int
    target_start: int
    target_end: int
    producer_id: int
    last_batch: LastBatch | None
    last_sequence: int | None
    gaps_filled: bool = False
    ends_in_markers: bool = False
    last_is_filler: bool = False
    aligns: bool = True
    begin_at: int | None = None
    accepted_loss: tuple[int, int] | None = None
    on_loss: OnLoss = OnLoss.STOP

    @property
    def goal(self) -> int:
        """Where the first record of a new target is."""
        return goal_of(self.begin_at, self.source_start)

    @property
    def emptied(self) -> bool:
        """Something was there, and is deleted."""
        return self.target_end > 0 and self.last_batch is None and not self.ends_in_markers

    @property
    def is_new(self) -> bool:
        """No record was copied yet: nothing is there, or fillers; or they are deleted, and the leader remembers that
        we wrote them: records would be above the goal."""
        fillers_only = (
            self.emptied and self.last_sequence is not None and self.target_end < (self.begin_at or 0)
        )
        return self.target_end == 0 or self.last_is_filler or fillers_only

    @property
    def next_source_offset(self) -> int:
        return self.target_end

    @property
    def next_sequence(self) -> int:
        """What the broker compares with, where it remembers us; else what our last batch says; else the log's end.
        Never 0: rivals that begin differently would take each other's batches for duplicates."""
        if self.last_sequence is not None:
            return next_sequence(self.last_sequence)
        if self.last_batch is not None:
            return next_sequence(self.last_batch.last_sequence)
        return self.target_end % SEQUENCES


def goal_of(begin_at: int | None, source_start: int) -> int:
    """Where the first record of a new target is. Fillers are below it, and only there."""
    return max(begin_at or 0, source_start)


def admit_topic(facts: TopicFacts) -> Refused | None:
    """None: nothing about the topic as a whole speaks against writing it."""
    if facts.source_cluster_id == facts.target_cluster_id:
        return Refused(
            reason=StopReason.LOOP,
            message=f"source and target are the same Kafka cluster ({facts.source_cluster_id})",
            hint="correct the bootstrap.servers of one of them in the config, then start the mirror again",
        )
    if facts.source_partitions != facts.target_partitions:
        return Refused(
            reason=StopReason.PARTITIONS,
            message=f"the source topic has {facts.source_partitions} partitions, the target topic"
            f" {facts.target_partitions}",
            hint=_partitions_hint(facts),
        )
    return admit_config(facts.target_config, then=THEN_START)


def _partitions_hint(facts: TopicFacts) -> str:
    if facts.target_partitions < facts.source_partitions:
        return (
            f"add partitions to the target topic (kafka-topics.sh --alter --topic {TARGET_TOPIC} --partitions"
            f" {facts.source_partitions}){THEN_START}"
        )
    return f"{KEEP}; {AFRESH}"


# What a target topic must be set to, so that its broker appends batches as they are.
AS_THEY_ARE = {"compression.type": "producer", "message.timestamp.type": "CreateTime"}


def admit_config(config: Mapping[str, str], *, then: str = THEN_RESUME_TOPIC) -> Refused | None:
    """Of a target topic; a key that is missing has its default. `then`: what to do once it is mended."""
    for key, wanted in AS_THEY_ARE.items():
        if config.get(key, wanted) != wanted:
            return _rewrites(key, config[key], wanted, then)
    return None


def _rewrites(key: str, value: str, wanted: str, then: str) -> Refused:
    return Refused(
        reason=StopReason.TOPIC_CONFIG,
        message=f"the target topic has {key}={value}: its broker would rewrite every batch",
        hint=f"set {key}={wanted} on the target topic{then}",
    )


def admit_partition(facts: PartitionFacts) -> Admitted | Refused:
    at = facts.next_source_offset
    if at > facts.source_end:
        return Refused(
            reason=StopReason.TARGET_AHEAD,
            message=f"the target ends at {facts.target_end}, above the source's end {facts.source_end}",
            hint="the source was truncated or recreated, or somebody else writes to the target: compare both topics;"
            f" {AFRESH}",
            first_offset=facts.source_end,
            next_offset=at,
        )
    if facts.last_batch is not None and facts.last_batch.producer_id != facts.producer_id:
        return Refused(
            reason=StopReason.FOREIGN,
            message=f"the target's last batch before offset {facts.target_end} was not written by this link"
            f" (producer id {facts.last_batch.producer_id})",
            hint=f"only the link may write to a mirrored topic: find the other writer; {KEEP}; {AFRESH}",
        )
    wrong = _wrong_sequence(facts)
    if wrong is not None:
        return wrong
    if facts.is_new:
        return _begin(facts)
    if at < facts.source_start:
        return _behind(facts)
    unsigned = facts.emptied and facts.last_sequence is None and at != facts.begin_at
    if unsigned and facts.source_start < at:
        return Refused(
            reason=StopReason.FOREIGN,
            message=f"the target is empty up to {facts.target_end} and nothing there shows who wrote it, while the"
            f" source still holds offsets [{facts.source_start}, {at})",
            hint=f"compare both topics; {AFRESH}",
        )
    return _admitted(facts)


def _admitted(facts: PartitionFacts, *, align_to: int | None = None, lost_to: int | None = None) -> Admitted:
    position = Position(
        source=facts.next_source_offset, target=facts.target_end, sequence=facts.next_sequence
    )
    return Admitted(position=position, align_to=align_to, lost_to=lost_to)


def _wrong_sequence(facts: PartitionFacts) -> Refused | None:
    """The broker's memory, our last batch and the log's end must agree, as far as each of them tells. Where gaps were
    filled the log's end tells nothing: how many offsets that were in all is not known."""
    told = {facts.last_batch.last_sequence} if facts.last_batch is not None else set()
    if facts.last_sequence is not None:
        told.add(facts.last_sequence)
    expected = (facts.target_end - 1) % SEQUENCES
    if told <= {expected} or (facts.gaps_filled and len(told) <= 1):
        return None
    said = " and ".join(str(sequence) for sequence in sorted(told))
    would = "would be one number" if facts.gaps_filled else f"would be {expected}"
    return Refused(
        reason=StopReason.SEQUENCE,
        message=f"the target ends at {facts.target_end}, where this link's last sequence {would}, but it is {said}",
        hint=f"somebody else wrote to the target topic: find the writer, and compare both topics; {AFRESH}",
    )


def _begin(facts: PartitionFacts) -> Admitted | Refused:
    """Of a new target."""
    at, goal = facts.target_end, facts.goal
    if goal > facts.source_end:
        return Refused(
            reason=StopReason.LOG_START,
            message=f"the mirror is to begin at offset {goal}, above the source's end {facts.source_end}",
            hint=f"the source was truncated or recreated: compare both topics; {AFRESH}",
        )
    if at > goal:
        return Refused(
            reason=StopReason.LOG_START,
            message=f"the target was aligned up to {at}, where its mirror was to begin, and that is not known any more:"
            f" the source still holds offsets [{goal}, {at})",
            hint=f"compare both topics; {AFRESH}",
        )
    if at < goal and not facts.aligns:
        return Refused(
            reason=StopReason.LOG_START,
            message=f"the mirror is to begin at offset {goal}, and the target topic is compacted: what is before that"
            " cannot be left out in it",
            hint=AFRESH,
        )
    return _admitted(facts, align_to=goal if goal > 0 else None)


def _behind(facts: PartitionFacts) -> Admitted | Refused:
    """Retention took what comes next."""
    at, accepted_to = facts.next_source_offset, _accepted_to(facts)
    if accepted_to is None:
        return _lost(facts, facts.source_start, "")
    if accepted_to - at > MOST_LOST_OFFSETS:
        return _lost(
            facts, accepted_to, f"; more than {MOST_LOST_OFFSETS} are too many to be filled with markers"
        )
    return _admitted(facts, lost_to=accepted_to)


def _accepted_to(facts: PartitionFacts) -> int | None:
    """Up to where offsets are gone and somebody has accepted that; None: nobody has. What the source still holds is
    never given up, whatever was accepted."""
    if facts.on_loss is OnLoss.CONTINUE:
        return facts.source_start
    first_offset, next_offset = facts.accepted_loss or (0, 0)
    covers = first_offset <= facts.next_source_offset < next_offset
    return min(facts.source_start, next_offset) if covers else None


_SKIP = (
    f"to go on without these offsets: {ACCEPT_LOSS}; to go on by itself after each later loss, set on_loss: continue;"
    " "
)


def _lost(facts: PartitionFacts, next_offset: int, besides: str) -> Refused:
    at = facts.next_source_offset
    return Refused(
        reason=StopReason.LOST,
        message=f"source offsets [{at}, {next_offset}) are gone: retention overtook the mirror{besides}",
        hint=f"{'' if besides else _SKIP}{AFRESH}; so that it does not happen again, raise retention.ms or"
        " retention.bytes of source topics that a mirror may fall behind on",
        first_offset=at,
        next_offset=next_offset,
    )
