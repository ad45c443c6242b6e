"""How the gaps of a partition are filled on the target, and the names of the transactions that do it.

    MARKERS       WriteTxnMarkers, some 15,000 offsets/s: needs ALTER or CLUSTER_ACTION on the target cluster
    TRANSACTIONS  empty transactions, some 180 offsets/s a partition: needs WRITE on transactional ids
    NONE          neither right is granted: the partition stops at its first gap

The driver decides by the rights that it has (controller/gap_filling.py), for as long as a partition is assigned.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class FillWay(StrEnum):
    MARKERS = "markers"
    TRANSACTIONS = "transactions"
    NONE = "none"


# Of one partition, as measured (docs/BENCHMARK.md): for what operators are told before a gap is filled.
OFFSETS_PER_S: Mapping[FillWay, int] = {FillWay.MARKERS: 15_000, FillWay.TRANSACTIONS: 180}


def transactional_prefix(source_cluster_id: str) -> str:
    """Of all transactional ids for one source cluster: what a right is granted on."""
    return f"heliograph.{source_cluster_id}."


def transactional_id(source_cluster_id: str, target_topic: str, partition: int) -> str:
    """One for each target partition, the same for whoever copies it: a coordinator fences former holders by it.

    Kafka allows any characters, and 32,767 bytes; a topic's name has 249 at most. The partition comes last, so that a
    name is of one topic only, though topics' names may hold dots. The link is left out: renaming it keeps the fence.
    """
    return f"{topic_prefix(source_cluster_id, target_topic)}{partition}"


def topic_prefix(source_cluster_id: str, target_topic: str) -> str:
    return f"{transactional_prefix(source_cluster_id)}{target_topic}."
