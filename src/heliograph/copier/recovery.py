"""What to do about a broker's answer to an append: one table (docs/DESIGN.md, "Recovery").

A code of the tables stops the partition: this batch will never pass as it is, or a right is missing. Any other code
means that another copier was first, or that the outcome is unknown: the target is asked before anything else. Nothing
is ever sent again blindly.
"""

from __future__ import annotations

from heliograph.model.errors import BrokerRefused, PartitionStop
from heliograph.model.states import StopReason
from heliograph.wire.error_codes import ErrorCode

_LARGER = "raise max.message.bytes (and segment.bytes) on the target topic, then start again"
_RIGHTS = "give the target's principal WRITE and DESCRIBE on the topic, then start again"
_LOOK = "see the target broker's log for why it refused, then start again"

NEVER_PASSES: dict[int, tuple[StopReason, str]] = {
    ErrorCode.MESSAGE_TOO_LARGE: (StopReason.TOO_LARGE, _LARGER),
    ErrorCode.RECORD_LIST_TOO_LARGE: (StopReason.TOO_LARGE, _LARGER),
    ErrorCode.INVALID_TIMESTAMP: (
        StopReason.TIMESTAMP,
        "raise message.timestamp.after.max.ms and message.timestamp.before.max.ms on the target topic,"
        " then start again",
    ),
    ErrorCode.CORRUPT_MESSAGE: (StopReason.REFUSED, _LOOK),
    ErrorCode.INVALID_RECORD: (StopReason.REFUSED, _LOOK),
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: (StopReason.REFUSED, _LOOK),
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: (
        StopReason.REFUSED,
        "the target broker is too old for this codec",
    ),
    ErrorCode.POLICY_VIOLATION: (StopReason.REFUSED, _LOOK),
    ErrorCode.INVALID_TOPIC_EXCEPTION: (StopReason.REFUSED, _LOOK),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: (StopReason.REFUSED, _RIGHTS),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (StopReason.REFUSED, _RIGHTS),
}


def stop_for(code: int, message: str, offset: int) -> PartitionStop | None:
    """The stop that this answer demands; None: resynchronise."""
    if code not in NEVER_PASSES:
        return None
    reason, hint = NEVER_PASSES[code]
    words = f" ({message})" if message else ""
    return PartitionStop(
        reason,
        f"the target refused the batch at offset {offset}: {ErrorCode.name_of(code)}{words}",
        hint=hint,
    )


NEVER_READ: dict[int, str] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "give the principal READ and DESCRIBE on the topic, then start again",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "give the principal DESCRIBE on the cluster, then start again",
    ErrorCode.UNSUPPORTED_VERSION: "sources from Kafka 0.11 and targets from Kafka 2.8 are supported",
}


def stop_for_read(refused: BrokerRefused) -> PartitionStop | None:
    """The stop that a refused question or fetch demands; None: it may pass later."""
    if refused.code not in NEVER_READ:
        return None
    return PartitionStop(StopReason.REFUSED, refused.message, hint=refused.hint or NEVER_READ[refused.code])
