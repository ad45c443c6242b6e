"""The producer id that marks every batch Heliograph writes.

    0 | 7 bits 0x48 | 24 bits source-cluster code | 32 bits hash of (source cluster id, source topic)

Fixed per source topic (sequences are kept per partition by the broker), so that a sequence number is a
compare-and-swap on the end of the target's log, and every mirrored batch says in its header where it came
from (P2). Brokers never allocate ids this high. The link's name is left out: renaming a link keeps its mirror.
"""

from __future__ import annotations

import hashlib

MARK = 0x48
_MARK_SHIFT = 56
_CODE_SHIFT = 32
_CODE_MASK = 0xFFFFFF
_HASH_MASK = 0xFFFFFFFF


def cluster_code(cluster_id: str) -> int:
    """24 bits that stand for a Kafka cluster in producer ids."""
    return _hash(cluster_id) & _CODE_MASK


def producer_id(source_cluster_id: str, source_topic: str) -> int:
    topic_hash = _hash(f"{source_cluster_id}\0{source_topic}") & _HASH_MASK
    return MARK << _MARK_SHIFT | cluster_code(source_cluster_id) << _CODE_SHIFT | topic_hash


def id_prefix(cluster_id: str) -> int:
    """The upper 32 bits of the producer id of every batch that was mirrored from that cluster."""
    return MARK << (_MARK_SHIFT - _CODE_SHIFT) | cluster_code(cluster_id)


def is_mirrored(candidate: int) -> bool:
    """Whether a batch with this producer id was written by a Heliograph link."""
    return candidate >= 0 and candidate >> _MARK_SHIFT == MARK


def mirrored_from(candidate: int, cluster_id: str) -> bool:
    """Whether a batch with this producer id was mirrored from that cluster."""
    return candidate >> _CODE_SHIFT == id_prefix(cluster_id)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
