"""What a copier must know of one partition, fixed for as long as it is assigned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from heliograph.copier.lease import ALIVE_S
from heliograph.copier.target_takes import NO_TIME_LIMIT, TargetTakes
from heliograph.model.fill_way import FillWay, transactional_id
from heliograph.model.partition import MirrorPartition
from heliograph.model.policy import DEFAULT_POLICY, LinkPolicy

PRODUCER_EPOCH = 0
STATE_LASTS_MS = 86_400_000  # Kafka's default of producer.id.expiration.ms
SESSION_MOST_S = 30.0  # the longest session that a driver asks the election's group for
CLOCKS_DIFFER_S = 60.0  # the broker's clock decides when it forgets; by so much it may be ahead of ours
NEVER_MS = (1 << 63) - 1  # no record is as young
DEFAULT_FLIGHT_S = 30.0  # Kafka's default of request.timeout.ms


def margin_for(flight_s: float) -> int:
    """How long after a batch was found to be fresh an append of a former holder may still arrive, at most: until then
    the broker must remember, or nobody compares that append.

        flight_s          the fresh batch waits in the lane, behind an append that is not answered,
      + SESSION_MOST_S    meanwhile the driver is replaced, and learns of it only when its session is over,
      + ALIVE_S           its lanes go on for that long after its last word,
      + flight_s          and what they send last is on its way,
      + CLOCKS_DIFFER_S   by our clock; the broker's may be ahead.
    """
    return int((2 * flight_s + SESSION_MOST_S + ALIVE_S + CLOCKS_DIFFER_S) * 1000)


DEFAULT_MARGIN_MS = margin_for(DEFAULT_FLIGHT_S)
LIMITS = ("max.message.bytes", "segment.bytes")  # of a target topic, for one batch


def merged_limit(configs: Mapping[str, str], unsaid_bytes: int) -> int:
    """What a target topic with these configs takes as one batch; `unsaid_bytes`: where they do not say."""
    return min(int(configs.get(key, unsaid_bytes)) for key in LIMITS)


def is_guarded(state_lasts_ms: int, margin_ms: int) -> bool:
    """Whether brokers that remember a producer id for so long can be relied on to compare appends at all."""
    return state_lasts_ms // 2 > margin_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySpec:
    """`source` and `target` name the cluster clients to use; `producer_id` is the partition's fixed id (P2).
    `policy`: how the partition is to be copied, as the config says for its topic. `max_batch_bytes`: what the target
    takes of one batch. `max_merged_bytes`: what several are merged to, at most; 0: they never are. `after_max_ms`,
    `before_max_ms`: how far the time of a record may be ahead of the target broker's, and behind it. `source_compacts`:
    records of the source may go, on each of its replicas at another time.

    `state_lasts_ms`: how long the target's brokers remember a producer id, by the time of its last record.
    `margin_ms`: how long they must remember a batch that counts as fresh (see `margin_for`).
    `gaps_filled`: a driver has reserved the right to fill gaps of this partition before: sequence numbers may lag
    behind offsets, also where no marker can be seen any more. `aligns`: a log that starts above 0 may be aligned
    (copier/alignment.py): the target topic's records can be deleted. `fill_way`: how gaps are filled, by the rights
    that the driver has; `source_cluster_id`: which is in the names of transactions (model/fill_way.py).

    `begin_at`: the source offset that a new target partition begins at, though the source may still hold records before
    it; the first of a batch. None: where the source's log starts. It is resolved once, and is durable before any lane
    gets it: lanes that align one partition to different goals would delete each other's records.
    `builds`: the target topic is being built (copier/building.py): holes that compaction made at the source are filled
    with records that brokers remove again.
    `accepted_loss`: source offsets, as a half-open range, that an operator has accepted to lose; `policy.on_loss` says
    what is to be done about all others.
    """

    partition: MirrorPartition
    source: str
    target: str
    target_cluster_id: str
    producer_id: int
    max_batch_bytes: int
    max_merged_bytes: int = 0
    after_max_ms: int = NO_TIME_LIMIT
    before_max_ms: int = NO_TIME_LIMIT
    source_compacts: bool = False
    state_lasts_ms: int = STATE_LASTS_MS
    margin_ms: int = DEFAULT_MARGIN_MS
    policy: LinkPolicy = DEFAULT_POLICY
    gaps_filled: bool = False
    aligns: bool = True
    builds: bool = False
    begin_at: int | None = None
    accepted_loss: tuple[int, int] | None = None
    fill_way: FillWay = FillWay.MARKERS
    source_cluster_id: str = ""

    @property
    def target_takes(self) -> TargetTakes:
        """As of when the partition was planned; times are not looked at."""
        most_bytes = min(self.max_batch_bytes, self.max_merged_bytes or self.max_batch_bytes)
        return TargetTakes(batch_bytes=most_bytes, most_bytes=most_bytes)

    @property
    def transactional_id(self) -> str:
        return transactional_id(self.source_cluster_id, self.partition.target_topic, self.partition.partition)

    def is_perishable(self, timestamp_ms: int, now_ms: int) -> bool:
        """Whether brokers may forget the producer id soon after a record of this time. By half of what they
        remember: the other half is for appends that come late, clocks that differ, and partitions that idle. Where
        half is less than the margins everything is perishable."""
        return timestamp_ms < self.perishable_before(now_ms)

    def perishable_before(self, now_ms: int) -> int:
        """The time that a batch must have a record of, or it is perishable."""
        if not is_guarded(self.state_lasts_ms, self.margin_ms):
            return NEVER_MS
        return now_ms - self.state_lasts_ms // 2
