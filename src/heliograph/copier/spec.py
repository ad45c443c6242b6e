"""What a copier must know of one partition, fixed for as long as it is assigned."""

from __future__ import annotations

from dataclasses import dataclass

from heliograph.model.partition import MirrorPartition
from heliograph.model.policy import DEFAULT_POLICY, LinkPolicy

PRODUCER_EPOCH = 0
STATE_LASTS_MS = 86_400_000  # Kafka's default of producer.id.expiration.ms


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySpec:
    """`source` and `target` name the cluster clients to use; `producer_id` is the partition's fixed id (P2).
    `policy`: how the partition is to be copied, as the config says for its topic.

    `state_lasts_ms`: how long the target's brokers remember a producer id, by the time of its last record.
    """

    partition: MirrorPartition
    source: str
    target: str
    target_cluster_id: str
    producer_id: int
    max_batch_bytes: int
    state_lasts_ms: int = STATE_LASTS_MS
    policy: LinkPolicy = DEFAULT_POLICY

    def is_perishable(self, timestamp_ms: int, now_ms: int) -> bool:
        """Whether brokers may forget the producer id soon after a record of this time. By half of what they
        remember: the other half is for clocks that differ and for partitions that idle."""
        return timestamp_ms < now_ms - self.state_lasts_ms // 2
