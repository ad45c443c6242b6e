"""The log as a listener: a line for each occurrence, and no flood of them."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from logging.handlers import BufferingHandler

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.errors import PartitionStop
from heliograph.model.events import Event, Trouble
from heliograph.model.occurrence import Occurrence, of_stop, of_trouble
from heliograph.model.occurrence_log import LINES, WINDOW_S, OccurrenceLog
from heliograph.model.partition import MirrorPartition
from heliograph.model.states import StopReason

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Story:
    """A log whose clock stands where it is told."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.log = OccurrenceLog(lambda: self.now)

    def races(self, count: int, link: str = "sf-to-nyc") -> None:
        for number in range(count):
            where = MirrorPartition(link, "orders", "orders", number)
            self.log.hear(of_trouble(where, Trouble(Event.RACED, "another was first"), AT, "; recovering"))


@pytest.fixture
def story(caplog: pytest.LogCaptureFixture) -> Story:
    caplog.set_level(logging.INFO, "heliograph")
    return Story()


def test_a_few_are_told_each_in_its_own_words(story: Story, caplog: pytest.LogCaptureFixture) -> None:
    story.races(LINES)
    story.log.flush(over=True)
    assert caplog.messages == [f"sf-to-nyc/orders:{n}: another was first; recovering" for n in range(LINES)]
    assert {(r.name, r.levelname, getattr(r, "event", None)) for r in caplog.records} == {
        ("heliograph", "WARNING", "raced")
    }


def test_many_are_joined_into_a_line_that_says_how_many(
    story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    story.races(5_000)
    assert len(caplog.records) == LINES
    story.now += WINDOW_S / 2
    story.log.flush()
    assert len(caplog.records) == LINES
    story.now += WINDOW_S / 2
    story.log.flush()
    last = caplog.records[-1]
    assert len(caplog.records) == LINES + 1
    assert last.getMessage() == f"link sf-to-nyc: {5_000 - LINES} more like the {LINES} before, in 10 s"
    assert (getattr(last, "event", None), getattr(last, "joined", None)) == ("raced", 5_000 - LINES)
    story.races(1)  # a window of its own
    assert len(caplog.records) == LINES + 2


def test_what_was_put_off_is_told_at_the_end_of_the_run(
    story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    story.races(LINES + 3)
    story.log.flush(over=True)
    assert "3 more like" in caplog.messages[-1]
    story.log.flush(over=True)
    assert len(caplog.records) == LINES + 1


def test_links_and_codes_are_joined_each_for_itself(story: Story, caplog: pytest.LogCaptureFixture) -> None:
    story.races(LINES + 1)
    story.races(LINES + 2, link="sf-to-lax")
    story.log.flush(over=True)
    assert [line for line in caplog.messages if "more like" in line] == [
        f"link sf-to-nyc: 1 more like the {LINES} before, in 0 s",
        f"link sf-to-lax: 2 more like the {LINES} before, in 0 s",
    ]


def test_stops_and_what_is_about_the_run_are_never_joined(
    story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    stop = PartitionStop(StopReason.LOST, "they are gone", hint="raise it")
    for number in range(3 * LINES):
        story.log.hear(of_stop(MirrorPartition("sf-to-nyc", "orders", "orders", number), stop, AT))
        story.log.hear(Occurrence(at=AT, code=Event.LANE_UP, message=f"lane {number} is up"))
    assert len(caplog.records) == 6 * LINES
    assert {r.levelname for r in caplog.records} == {"ERROR", "INFO"}


@given(st.lists(st.tuples(st.integers(1, 30), st.floats(0, 2 * WINDOW_S)), max_size=12))
def test_lines_and_what_is_joined_make_up_all_that_was_told(steps: list[tuple[int, float]]) -> None:
    handler = BufferingHandler(10_000)
    log = logging.getLogger("heliograph")
    log.addHandler(handler)
    try:
        story = Story()
        for count, passed_s in steps:
            story.races(count)
            story.now += passed_s
        story.log.flush(over=True)
    finally:
        log.removeHandler(handler)
    assert sum(getattr(record, "joined", 1) for record in handler.buffer) == sum(count for count, _ in steps)
