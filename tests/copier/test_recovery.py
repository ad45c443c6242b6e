"""What each answer to an append leads to: a stop where it can never pass, else asking the target."""

from __future__ import annotations

import pytest

from heliograph.copier.recovery import (
    APPEND_ANSWERS,
    NEVER_READ,
    Resynchronise,
    Stop,
    after_append,
    stop_for_markers,
    stop_for_read,
)
from heliograph.model.errors import BrokerRefused, PartitionStop
from heliograph.model.events import Event
from heliograph.model.hints import AFTER_LINE
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
    assert isinstance(after_append(code, "", 7), Resynchronise)


@pytest.mark.parametrize("code", [-2, 130, 32767])
def test_a_code_from_a_newer_broker_is_an_unknown_outcome(code: int) -> None:
    assert after_append(code, "", 7) == Resynchronise(Event.APPEND_REFUSED, refresh=True)


@pytest.mark.parametrize(("code", "reason"), NEVER.items())
def test_a_batch_that_never_passes_stops_the_partition(code: int, reason: StopReason) -> None:
    stop = after_append(code, "", 7)
    assert isinstance(stop, PartitionStop)
    assert stop.reason == reason


@pytest.mark.parametrize(
    "code", [code for code, answer in APPEND_ANSWERS.items() if isinstance(answer, Stop)]
)
def test_every_stop_says_the_offset_the_code_and_what_to_do(code: int) -> None:
    stop = after_append(code, "the broker's words", 4711)
    assert isinstance(stop, PartitionStop)
    assert "4711" in stop.message
    assert ErrorCode.name_of(code) in stop.message
    assert "the broker's words" in stop.message
    assert stop.hint


@pytest.mark.parametrize("code", [45, 46, 47, 59])
def test_who_was_raced_needs_no_new_metadata(code: int) -> None:
    assert after_append(code, "", 7) == Resynchronise(Event.RACED, refresh=False)


@pytest.mark.parametrize("code", [3, 6, 74, 75, 100, 103])
def test_what_speaks_of_another_leader_or_topic_reads_metadata_again(code: int) -> None:
    assert after_append(code, "", 7) == Resynchronise(Event.LEADER_MOVED, refresh=True)


@pytest.mark.parametrize("code", NEVER_READ)
def test_a_read_that_is_never_allowed_stops_with_a_hint(code: int) -> None:
    stop = stop_for_read(BrokerRefused("no", code=code))
    assert stop is not None
    assert stop.hint


def test_a_read_that_is_refused_for_now_does_not_stop() -> None:
    assert stop_for_read(BrokerRefused("not yet", code=ErrorCode.NOT_LEADER_OR_FOLLOWER)) is None


def test_brokers_that_let_nobody_write_markers_stop_the_partition_with_their_hint() -> None:
    for code in (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION):
        stop = stop_for_markers(BrokerRefused("not yours", code=code, hint="grant it"), 7)
        assert stop is not None
        assert (stop.reason, stop.message) == (StopReason.REFUSED, "the gap at 7 cannot be filled: not yours")
        assert stop.hint == f"grant it{AFTER_LINE}"


def test_markers_that_a_broker_refuses_for_now_are_written_later() -> None:
    assert stop_for_markers(BrokerRefused("later", code=ErrorCode.NOT_LEADER_OR_FOLLOWER), 7) is None
