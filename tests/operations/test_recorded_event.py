"""What is read of a record of `__heliograph_events`, whichever version has written it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from heliograph.model.errors import PartitionStop
from heliograph.model.ledger import VERSION, Unreadable, pack
from heliograph.model.occurrence import of_stop
from heliograph.model.partition import MirrorPartition
from heliograph.model.states import StopReason
from heliograph.operations.recorded_event import read_event

from .played_events import NOW, RUN, occurrence, recorded

LEAST = {"at": "2026-03-01T12:00:00.000+00:00", "code": "lost", "message": "gone"}


def test_what_a_run_has_written_is_read_field_by_field() -> None:
    stop = PartitionStop(StopReason.LOST, "they are gone", hint="raise it", first_offset=3, next_offset=9)
    written = of_stop(MirrorPartition("sf-to-nyc", "orders", "sf.orders", 4), stop, NOW)
    event = read_event(RUN.encode(written)[1], "nyc")
    assert event.document == {
        "at": "2026-03-01T12:00:00.000+00:00",
        "severity": "error",
        "code": "lost",
        "link": "sf-to-nyc",
        "source_topic": "orders",
        "target_topic": "sf.orders",
        "partition": 4,
        "first_offset": 3,
        "next_offset": 9,
        "message": written.message,
        "hint": written.hint,
        "target": "nyc",
        "host": "mirror-1",
        "pid": 77,
    }
    assert read_event(RUN.encode(occurrence("up", 5))[1], "nyc") == recorded("up", 5)


def test_what_another_version_leaves_out_or_means_otherwise_is_none() -> None:
    odd: dict[str, Any] = {"partition": "four", "hint": 7, "pid": True, "code_of_tomorrow": 1}
    event = read_event(pack(VERSION, {**LEAST, "code": "code_of_tomorrow", **odd}), "nyc")
    assert (event.code, event.message) == ("code_of_tomorrow", "gone")
    assert (event.partition, event.hint, event.pid, event.severity, event.host) == (None,) * 5


@pytest.mark.parametrize(
    ("at", "read"),
    [
        ("2026-03-01T12:00:00", NOW),
        ("2026-03-01T14:00:00+02:00", NOW),
        ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
    ],
)
def test_all_times_are_in_utc_so_that_they_compare(at: str, read: datetime) -> None:
    event = read_event(pack(VERSION, {**LEAST, "at": at}), "nyc")
    assert event.at == read
    assert event.document["at"].endswith("+00:00")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "is empty"),
        (b"", "is empty"),
        (b"\x02{}", "is of version 2"),
        (b"\x01{", "no JSON"),
        (b"\x01[]", "no object"),
        *((pack(VERSION, {**LEAST, name: None}), "no event") for name in LEAST),
        (pack(VERSION, {**LEAST, "at": "yesterday"}), "no event"),
        (pack(VERSION, {**LEAST, "at": "0001-01-01T00:00:00+05:00"}), "no event"),
    ],
)
def test_what_is_no_event_is_unreadable_and_says_why(value: bytes | None, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        read_event(value, "nyc")


def test_every_text_can_be_printed() -> None:
    event = read_event(pack(VERSION, {**LEAST, "message": "half \ud800 of a pair, ä"}), "nyc")
    assert json.dumps(event.document, ensure_ascii=False).encode()
    assert event.message == "half ? of a pair, ä"
