"""What an operator is told: one value, the same at the driver, and an outbox that counts every one."""

from __future__ import annotations

import json
import threading
from dataclasses import fields
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.errors import PartitionStop
from heliograph.model.events import Event, Severity, Trouble
from heliograph.model.occurrence import (
    Occurrence,
    decode_occurrence,
    encode_occurrence,
    of_stop,
    of_trouble,
)
from heliograph.model.outbox import LAST, Outbox
from heliograph.model.partition import MirrorPartition
from heliograph.model.states import StopReason

AT = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
P0 = MirrorPartition("sf-to-nyc", "orders", "sf.orders", 3)

words = st.none() | st.text(max_size=20)
numbers = st.none() | st.integers(0, (1 << 63) - 1)
occurrences = st.builds(
    Occurrence,
    at=st.just(AT),
    code=st.sampled_from([*Event, *StopReason]),
    message=st.text(max_size=20),
    hint=words,
    link=words,
    source_topic=words,
    target_topic=words,
    partition=numbers,
    first_offset=numbers,
    next_offset=numbers,
)


@given(occurrences)
def test_what_a_lane_tells_is_the_same_at_the_driver(occurrence: Occurrence) -> None:
    document = json.loads(json.dumps(encode_occurrence(occurrence)))
    decoded = decode_occurrence(document)
    assert decoded == occurrence
    assert type(decoded.code) is type(occurrence.code)
    assert document["severity"] == occurrence.severity
    assert set(document) == {field.name for field in fields(Occurrence)} | {"severity"}


@given(occurrences)
def test_where_it_is_holds_the_fields_that_apply_and_no_others(occurrence: Occurrence) -> None:
    names = ("link", "source_topic", "target_topic", "partition", "first_offset", "next_offset")
    assert occurrence.where == {
        name: getattr(occurrence, name) for name in names if getattr(occurrence, name) is not None
    }


@pytest.mark.parametrize(
    ("code", "severity"),
    [
        (StopReason.LOST, Severity.ERROR),
        (Event.LANE_UNFIT, Severity.ERROR),
        (Event.RACED, Severity.WARNING),
        (Event.LANE_UP, Severity.INFO),
    ],
)
def test_how_severe_it_is_follows_from_its_code(code: Event | StopReason, severity: Severity) -> None:
    assert Occurrence(at=AT, code=code, message="").severity is severity


def test_a_stop_is_at_the_offsets_that_it_names_or_else_where_the_copy_stands() -> None:
    lost = PartitionStop(StopReason.LOST, "they are gone", hint="raise it", first_offset=5, next_offset=9)
    assert of_stop(P0, lost, AT, position=7).where == {**P0._asdict(), "first_offset": 5, "next_offset": 9}
    corrupt = PartitionStop(StopReason.CORRUPT, "a wrong checksum", hint="look at the disk")
    told = of_stop(P0, corrupt, AT, position=7)
    assert told.where == {**P0._asdict(), "first_offset": 7}
    assert told.words == "sf-to-nyc/orders:3 is stopped: a wrong checksum (hint: look at the disk)"


def test_a_trouble_is_told_with_what_the_copy_does_about_it() -> None:
    told = of_trouble(P0, Trouble(Event.RACED, "another was first", 5, 9), AT, "; recovering")
    assert told.words == "sf-to-nyc/orders:3: another was first; recovering"
    assert (told.code, told.hint) == (Event.RACED, None)
    assert told.where == {**P0._asdict(), "first_offset": 5, "next_offset": 9}


def test_a_trouble_that_an_operator_can_end_is_told_with_its_hint() -> None:
    told = of_trouble(P0, Trouble(Event.TRANSACTION_OPEN, "it hangs", hint="end it"), AT)
    assert told.words == "sf-to-nyc/orders:3: it hangs (hint: end it)"
    assert decode_occurrence(encode_occurrence(told)).hint == "end it"


# -- the outbox


class Heard:
    def __init__(self) -> None:
        self.all: list[Occurrence] = []
        self.flushes: list[bool] = []

    def hear(self, occurrence: Occurrence) -> None:
        self.all.append(occurrence)

    def flush(self, *, over: bool) -> None:
        self.flushes.append(over)


def test_every_one_is_counted_and_heard_and_the_last_hundred_are_kept() -> None:
    heard = Heard()
    outbox = Outbox(heard)
    for number in range(LAST + 7):
        outbox.tell(Event.RACED, f"race {number}", link="sf-to-nyc")
    outbox.tell(Event.LANE_GONE, "lane 0 is gone", hint="look")
    assert outbox.counts == {Event.RACED: LAST + 7, Event.LANE_GONE: 1}
    assert len(heard.all) == LAST + 8
    assert outbox.last == heard.all[-LAST:]
    last = outbox.last[-1]
    assert (last.code, last.message, last.hint, last.link) == (
        Event.LANE_GONE,
        "lane 0 is gone",
        "look",
        None,
    )


def test_none_is_lost_that_several_threads_tell() -> None:
    heard = Heard()
    outbox = Outbox(heard)

    def tell() -> None:
        for _ in range(2_000):
            outbox.tell(Event.CONTROL_LINE, "a peer")

    threads = [threading.Thread(target=tell) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outbox.counts == {Event.CONTROL_LINE: 8_000}
    assert len(heard.all) == 8_000


def test_listeners_are_told_when_time_has_passed_and_when_the_run_is_over() -> None:
    heard = Heard()
    outbox = Outbox(heard)
    outbox.flush()
    outbox.flush(over=True)
    assert heard.flushes == [False, True]
