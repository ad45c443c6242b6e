"""What to do about a broker's answer: one table (docs/DESIGN.md, "Recovery").

`Stop`: this batch will never pass as it is, or a right is missing. `Resynchronise`: another copier was first, or the
outcome is unknown: the target is asked before anything else, with fresh metadata where the answer says that ours is
out of date. Nothing is ever sent again blindly; a code that is not in the table counts as an unknown outcome.
"""

from __future__ import annotations

from dataclasses import dataclass

from heliograph.model.errors import BrokerRefused, PartitionStop
from heliograph.model.events import Event, Trouble
from heliograph.model.hints import AFTER_LINE, SUPPORTED_VERSIONS, THEN_RESUME
from heliograph.model.states import StopReason
from heliograph.wire.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class Stop:
    reason: StopReason
    hint: str


@dataclass(frozen=True, slots=True)
class Resynchronise:
    event: Event
    refresh: bool = True  # read metadata again first: the leader, or the topic itself, may be another one


_LARGER = "raise max.message.bytes (and segment.bytes) on the target topic" + THEN_RESUME
_RIGHTS = "grant the mirror WRITE and DESCRIBE on the target topic" + THEN_RESUME
_LOOK = "see the target broker's log for why it refused, and mend that" + THEN_RESUME
_TIMES = (
    "raise message.timestamp.after.max.ms and message.timestamp.before.max.ms on the target topic"
    + THEN_RESUME
)
_RACED = Resynchronise(Event.RACED, refresh=False)
_MOVED = Resynchronise(Event.LEADER_MOVED)
_UNKNOWN = Resynchronise(Event.APPEND_REFUSED)

APPEND_ANSWERS: dict[int, Stop | Resynchronise] = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: _RACED,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: _RACED,
    ErrorCode.INVALID_PRODUCER_EPOCH: _RACED,  # the resynchronisation finds whose epoch it is, and stops
    ErrorCode.UNKNOWN_PRODUCER_ID: _RACED,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: _MOVED,
    ErrorCode.FENCED_LEADER_EPOCH: _MOVED,
    ErrorCode.UNKNOWN_LEADER_EPOCH: _MOVED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: _MOVED,
    ErrorCode.UNKNOWN_TOPIC_ID: _MOVED,
    ErrorCode.INCONSISTENT_TOPIC_ID: _MOVED,
    ErrorCode.REQUEST_TIMED_OUT: _UNKNOWN,
    ErrorCode.NOT_ENOUGH_REPLICAS: _UNKNOWN,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _UNKNOWN,  # appended, and maybe to be truncated
    ErrorCode.KAFKA_STORAGE_ERROR: _UNKNOWN,
    ErrorCode.UNKNOWN_SERVER_ERROR: _UNKNOWN,
    ErrorCode.MESSAGE_TOO_LARGE: Stop(StopReason.TOO_LARGE, _LARGER),
    ErrorCode.RECORD_LIST_TOO_LARGE: Stop(StopReason.TOO_LARGE, _LARGER),
    ErrorCode.INVALID_TIMESTAMP: Stop(StopReason.TIMESTAMP, _TIMES),
    ErrorCode.CORRUPT_MESSAGE: Stop(StopReason.REFUSED, _LOOK),
    ErrorCode.INVALID_RECORD: Stop(StopReason.REFUSED, _LOOK),
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: Stop(StopReason.REFUSED, _LOOK),
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: Stop(
        StopReason.REFUSED,
        "the target broker is too old for this codec: upgrade it, or let producers use another one"
        + THEN_RESUME,
    ),
    ErrorCode.POLICY_VIOLATION: Stop(StopReason.REFUSED, _LOOK),
    ErrorCode.INVALID_TOPIC_EXCEPTION: Stop(StopReason.REFUSED, _LOOK),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Stop(StopReason.REFUSED, _RIGHTS),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Stop(StopReason.REFUSED, _RIGHTS),
}


def after_append(code: int, message: str, offset: int) -> PartitionStop | Resynchronise:
    """What a refused append demands."""
    answer = APPEND_ANSWERS.get(code, _UNKNOWN)
    if isinstance(answer, Resynchronise):
        return answer
    words = f" ({message})" if message else ""
    return PartitionStop(
        answer.reason,
        f"the target refused the batch at offset {offset}: {ErrorCode.name_of(code)}{words}",
        hint=answer.hint,
    )


def _hint_of(refused: BrokerRefused, otherwise: str) -> str:
    """What the broker's answer says to do: where it says anything, that ends with a line for a shell."""
    return refused.hint + AFTER_LINE if refused.hint else otherwise


MARKER_RIGHTS = (
    "gaps that transactions leave are filled with markers: grant the mirror ALTER (brokers from 3.8 on) or"
    " CLUSTER_ACTION on the target cluster" + THEN_RESUME
)
MARKER_ANSWERS: dict[int, Stop | Resynchronise] = {
    # A rival fills the same gap, or has used a higher attempt.
    ErrorCode.INVALID_PRODUCER_EPOCH: _RACED,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: _RACED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Stop(StopReason.REFUSED, MARKER_RIGHTS),
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: Stop(StopReason.REFUSED, _LOOK),
    ErrorCode.NOT_LEADER_OR_FOLLOWER: _MOVED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: _MOVED,
}


def after_markers(code: int, offset: int) -> PartitionStop | Trouble:
    """What refused markers of a gap demand."""
    answer = MARKER_ANSWERS.get(code, _UNKNOWN)
    words = f"markers for the gap at {offset}: {ErrorCode.name_of(code)}"
    if isinstance(answer, Resynchronise):
        return Trouble(answer.event, words)
    return PartitionStop(answer.reason, f"the target refused the {words}", hint=answer.hint)


NEVER_MARKED = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION})


def stop_for_markers(refused: BrokerRefused, offset: int) -> PartitionStop | None:
    """The stop that a refused request for markers demands; None: it may pass later."""
    if refused.code not in NEVER_MARKED:
        return None
    message = f"the gap at {offset} cannot be filled: {refused.message}"
    return PartitionStop(StopReason.REFUSED, message, hint=_hint_of(refused, MARKER_RIGHTS))


TRANSACTION_RIGHTS = (
    "gaps that transactions leave are filled by empty transactions: grant the mirror WRITE on its transactional ids and"
    " on the target topic" + THEN_RESUME
)
NEVER_BEGUN = frozenset(
    {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,  # the brokers' transaction.max.timeout.ms is below ours
    }
)


def stop_for_transactions(refused: BrokerRefused, offset: int) -> PartitionStop | None:
    """The stop that a refused empty transaction demands; None: it may pass later."""
    if refused.code not in NEVER_BEGUN:
        return None
    message = f"the gap at {offset} cannot be filled: {refused.message}"
    return PartitionStop(StopReason.REFUSED, message, hint=_hint_of(refused, TRANSACTION_RIGHTS))


_DELETES = (
    "a new mirror of a log that starts above 0 deletes the fillers that it was aligned with: grant the mirror DELETE on"
    " the target topic" + THEN_RESUME
)
DELETION_ANSWERS: dict[int, Stop] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Stop(StopReason.REFUSED, _DELETES),
    ErrorCode.POLICY_VIOLATION: Stop(
        StopReason.REFUSED, "set cleanup.policy=delete on the target topic" + THEN_RESUME
    ),
}


def after_deletion(refused: BrokerRefused) -> PartitionStop | Trouble:
    """What a refused deletion of fillers demands."""
    stop = DELETION_ANSWERS.get(refused.code)
    if stop is None:
        return Trouble(Event.LEADER_MOVED, refused.message)
    return PartitionStop(stop.reason, refused.message, hint=_hint_of(refused, stop.hint))


NEVER_READ: dict[int, str] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "grant the mirror READ and DESCRIBE on the topic" + THEN_RESUME,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "grant the mirror DESCRIBE on the cluster" + THEN_RESUME,
    ErrorCode.UNSUPPORTED_VERSION: f"upgrade the brokers: {SUPPORTED_VERSIONS}{THEN_RESUME}",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: TRANSACTION_RIGHTS,
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "set transaction.max.timeout.ms of the target's brokers to 10000 or more"
    + THEN_RESUME,
}


def stop_for_read(refused: BrokerRefused) -> PartitionStop | None:
    """The stop that a refused question or fetch demands; None: it may pass later."""
    if refused.code not in NEVER_READ:
        return None
    return PartitionStop(
        StopReason.REFUSED, refused.message, hint=_hint_of(refused, NEVER_READ[refused.code])
    )
