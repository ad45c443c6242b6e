"""What a copy says when the logs are not what they were: stops, and what is only told."""

from __future__ import annotations

from heliograph.model.errors import PartitionStop
from heliograph.model.events import Event, Trouble
from heliograph.model.hints import AFRESH, RESUME, RESUME_TOPIC
from heliograph.model.states import StopReason


def truncated(known: int, found: int) -> Trouble:
    return Trouble(
        Event.TARGET_TRUNCATED,
        f"the target lost acknowledged offsets [{found}, {known}): they are copied again",
        found,
        known,
    )


def diverged(diverged_at: int, target_end: int) -> PartitionStop:
    return PartitionStop(
        StopReason.DIVERGED,
        f"the source was truncated at {diverged_at}, the target holds its former offsets [{diverged_at}, {target_end})",
        hint="records that consumers of the target may have read are gone from the source: compare both topics;"
        f" {AFRESH}",
        first_offset=diverged_at,
        next_offset=target_end,
    )


def stamped(offset: int) -> PartitionStop:
    return PartitionStop(
        StopReason.TOPIC_CONFIG,
        f"the target's broker has written its own time into the batch at offset {offset}",
        hint="set message.timestamp.type=CreateTime on the target topic; the timestamps from this offset on are not the"
        f" source's: to keep them as they are, and go on: {RESUME_TOPIC}; {AFRESH}",
        first_offset=offset,
    )


def rival(offset: int) -> PartitionStop:
    return PartitionStop(
        StopReason.RIVAL,
        f"somebody else appended offset {offset}, of old records, while this lane held the exclusive right to",
        hint="two mirrors write to one topic, or a clock is wrong: compare both topics from this offset on; if they"
        f" are equal: {RESUME}; if they differ, {AFRESH}",
        first_offset=offset,
    )


def wrong_place(expected: int, actual: int) -> PartitionStop:
    return PartitionStop(
        StopReason.WRONG_PLACE,
        f"the batch for offset {expected} was appended at {actual}: somebody else writes to the target",
        hint=f"only the link may write to a mirrored topic: find and stop the other writer; {AFRESH}",
        first_offset=expected,
    )
