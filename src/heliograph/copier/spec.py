"""What a copier must know of one partition, fixed for as long as it is assigned."""

from __future__ import annotations

from dataclasses import dataclass

from heliograph.model.admission import SEQUENCES
from heliograph.model.partition import MirrorPartition

PRODUCER_EPOCH = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySpec:
    """`source` and `target` name the cluster clients to use; `producer_id` is the partition's fixed id (P2)."""

    partition: MirrorPartition
    source: str
    target: str
    target_cluster_id: str
    producer_id: int
    max_batch_bytes: int

    def sequence_of(self, offset: int) -> int:
        """With identical offsets and no fillers, a record's sequence is its offset."""
        return offset % SEQUENCES
