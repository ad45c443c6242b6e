"""What each answer to an append leads to: a stop where it can never pass, else asking the target."""

from __future__ import annotations

import pytest

from heliograph.copier.recovery import NEVER_PASSES, stop_for
from heliograph.model.states import StopReason
from heliograph.wire.error_codes import ErrorCode

UNKNOWN_OUTCOME = [
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
]
NEVER = {
    ErrorCode.INVALID_RECORD: StopReason.REFUSED,
    ErrorCode.INVALID_TIMESTAMP: StopReason.TIMESTAMP,
    ErrorCode.CORRUPT_MESSAGE: StopReason.REFUSED,
    ErrorCode.MESSAGE_TOO_LARGE: StopReason.TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE: StopReason.TOO_LARGE,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: StopReason.REFUSED,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: StopReason.REFUSED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: StopReason.REFUSED,
}


@pytest.mark.parametrize("code", UNKNOWN_OUTCOME)
def test_an_unknown_outcome_asks_the_target(code: int) -> None:
    assert stop_for(code, "", 7) is None


@pytest.mark.parametrize("code", [-2, 130, 32767])
def test_a_code_from_a_newer_broker_is_an_unknown_outcome(code: int) -> None:
    assert stop_for(code, "", 7) is None


@pytest.mark.parametrize(("code", "reason"), NEVER.items())
def test_a_batch_that_never_passes_stops_the_partition(code: int, reason: StopReason) -> None:
    stop = stop_for(code, "", 7)
    assert stop is not None
    assert stop.reason == reason


@pytest.mark.parametrize("code", NEVER_PASSES)
def test_every_stop_says_the_offset_the_code_and_what_to_do(code: int) -> None:
    stop = stop_for(code, "the broker's words", 4711)
    assert stop is not None
    assert "4711" in stop.message
    assert ErrorCode.name_of(code) in stop.message
    assert "the broker's words" in stop.message
    assert stop.hint
