"""Whether a target may be written, decided from facts alone: once at plan time, again at every resynchronisation.

The rows of docs/DESIGN.md, "Which targets may be written", are the branches below, in the same order; each has
a test. With identical offsets the target's log end is the position (P3), so every doubt is a refusal (P6):

- writing behind somebody else's records would shift ours;
- an end that the source does not reach means that the source was truncated or recreated, or is another one;
- an end below the source's start means that records are gone, or were never there to align to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from heliograph.model.states import StopReason

SEQUENCES = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    next_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    reason: StopReason
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    source_cluster_id: str
    target_cluster_id: str
    source_partitions: int
    target_partitions: int
    target_config: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """`last_producer_id`: of the target's last batch, None where the log holds none.

    `last_sequence`: what the target's leader remembers of our producer id, None where it has no state.
    """

    source_start: int
    source_end: int
    target_start: int
    target_end: int
    producer_id: int
    last_producer_id: int | None
    last_sequence: int | None


def admit_topic(facts: TopicFacts) -> Refused | None:
    """None: nothing about the topic as a whole speaks against writing it."""
    if facts.source_cluster_id == facts.target_cluster_id:
        return Refused(
            reason=StopReason.LOOP,
            message=f"source and target are the same Kafka cluster ({facts.source_cluster_id})",
            hint="check the bootstrap.servers of both clusters",
        )
    if facts.source_partitions != facts.target_partitions:
        return Refused(
            reason=StopReason.PARTITIONS,
            message=f"the source topic has {facts.source_partitions} partitions, the target topic"
            f" {facts.target_partitions}",
            hint="delete the target topic and let Heliograph create it, or give both the same number of partitions",
        )
    return _admit_config(facts.target_config)


def _admit_config(config: Mapping[str, str]) -> Refused | None:
    if config.get("compression.type", "producer") != "producer":
        return _rewrites("compression.type", config["compression.type"], "producer")
    if config.get("message.timestamp.type", "CreateTime") != "CreateTime":
        return _rewrites("message.timestamp.type", config["message.timestamp.type"], "CreateTime")
    return None


def _rewrites(key: str, value: str, wanted: str) -> Refused:
    return Refused(
        reason=StopReason.TOPIC_CONFIG,
        message=f"the target topic has {key}={value}: its broker would rewrite every batch",
        hint=f"set {key}={wanted} on the target topic",
    )


def admit_partition(facts: PartitionFacts) -> Admitted | Refused:
    if facts.target_end > facts.source_end:
        return Refused(
            reason=StopReason.TARGET_AHEAD,
            message=f"the target ends at {facts.target_end}, above the source's end {facts.source_end}",
            hint="the source was truncated or recreated, or somebody else writes to the target: compare both topics,"
            " then delete the target topic to mirror it afresh",
        )
    if facts.last_producer_id is not None and facts.last_producer_id != facts.producer_id:
        return Refused(
            reason=StopReason.FOREIGN,
            message=f"the target's last batch before offset {facts.target_end} was not written by this link"
            f" (producer id {facts.last_producer_id})",
            hint="only the link may write to a mirrored topic: stop the other writer, then delete the target topic"
            " to mirror it afresh",
        )
    if (
        facts.last_sequence is not None
        and (facts.last_sequence + 1) % SEQUENCES != facts.target_end % SEQUENCES
    ):
        return Refused(
            reason=StopReason.SEQUENCE,
            message=f"the target ends at {facts.target_end} but this link's last sequence is {facts.last_sequence}",
            hint="somebody else wrote to the target topic: delete it to mirror it afresh",
        )
    if facts.target_end < facts.source_start:
        return _behind(facts)
    emptied = facts.target_end > 0 and facts.last_producer_id is None
    if emptied and facts.last_sequence is None and facts.source_start < facts.target_end:
        return Refused(
            reason=StopReason.FOREIGN,
            message=f"the target is empty up to {facts.target_end} and nothing there shows who wrote it, while the"
            f" source still holds offsets [{facts.source_start}, {facts.target_end})",
            hint="delete the target topic to mirror it afresh",
        )
    return Admitted(next_offset=facts.target_end)


def _behind(facts: PartitionFacts) -> Refused:
    if facts.target_end == 0:
        return Refused(
            reason=StopReason.LOG_START,
            message=f"the source's log starts at {facts.source_start}: a mirror of a log that starts above 0 is"
            " not built yet",
            hint="exclude the topic for now",
        )
    return Refused(
        reason=StopReason.LOST,
        message=f"source offsets [{facts.target_end}, {facts.source_start}) are gone: retention overtook the mirror",
        hint="delete the target topic to mirror what is left afresh, and give the source a longer retention",
    )
