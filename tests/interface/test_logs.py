"""Log lines: for people or for machines, with the stable code of what is told."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from heliograph.engine.lane_log import repeat
from heliograph.engine.orders import LogLine
from heliograph.interface.cli import logs
from heliograph.interface.cli.logs import Level, LogFormat
from heliograph.model.events import Event, Trouble
from heliograph.model.occurrence import Occurrence, of_trouble
from heliograph.model.occurrence_log import LINES, logged
from heliograph.model.outbox import Outbox
from heliograph.model.partition import MirrorPartition
from heliograph.model.states import StopReason

log = logging.getLogger("heliograph")
BARE = {"at", "level", "logger", "message", "event"}


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    before = (list(root.handlers), root.level, log.level)
    yield
    root.handlers, root.level = before[0], before[1]
    log.setLevel(before[2])


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    captured = capsys.readouterr()
    assert captured.out == ""  # results go there
    return captured.err.splitlines()


def test_progress_has_the_form_of_the_log_lines(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(Level.error)
    logs.show_progress("copying: 5 records", {"copied": 5})
    assert lines(capsys) == ["copying: 5 records"]
    logs.configure(form=LogFormat.json)
    logs.show_progress("copying: 5 records", {"copied": 5})
    (line,) = lines(capsys)
    said = json.loads(line)
    assert datetime.fromisoformat(said.pop("at")).tzinfo is not None
    assert said == {
        "level": "info",
        "logger": logs.PROGRESS,
        "message": "copying: 5 records",
        "copied": 5,
    }


def test_a_line_for_people_has_the_code_before_the_words(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure()
    log.warning("lane %d is gone", 3, extra={"event": Event.LANE_GONE})
    (line,) = lines(capsys)
    at, rest = line.split(" ", 1)
    assert datetime.fromisoformat(at).tzinfo is not None
    assert rest == "WARNING heliograph: [lane_gone] lane 3 is gone"


@pytest.mark.parametrize("extra", [None, {"event": None}, {"event": ""}])
def test_a_line_without_a_code_shows_none(
    extra: dict[str, str | None] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure()
    log.warning("as before", extra=extra)
    (line,) = lines(capsys)
    assert line.endswith("heliograph: as before")
    logs.configure(form=LogFormat.json)
    log.warning("as before", extra=extra)
    (line,) = lines(capsys)
    assert "event" not in json.loads(line)


@pytest.mark.parametrize("code", [*Event, *StopReason])
def test_every_code_reaches_machines_as_it_is_written(
    code: Event | StopReason, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure(form=LogFormat.json)
    log.error("something about Zürich:0", extra={"event": code})
    (line,) = lines(capsys)
    told = json.loads(line)
    assert set(told) == BARE
    assert (told["event"], told["level"]) == (code.value, "error")
    assert told["message"] == "something about Zürich:0"


def told_of(code: Event | StopReason, **fields: Any) -> Outbox:
    outbox = logged()
    outbox.put(Occurrence(at=datetime.now(UTC), code=code, message="it is so", **fields))
    return outbox


def test_machines_get_the_fields_that_apply_and_the_message_stays_for_people(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.configure(form=LogFormat.json)
    where = MirrorPartition("sf-to-nyc", "orders", "sf.orders", 0)
    told_of(StopReason.LOST, hint="raise it", first_offset=5, next_offset=9, **where._asdict())
    told_of(Event.LANE_GONE)
    stop, gone = (json.loads(line) for line in lines(capsys))
    assert (stop["message"], stop["level"], stop["event"]) == ("it is so (hint: raise it)", "error", "lost")
    fields = {"hint": "raise it", "first_offset": 5, "next_offset": 9, **where._asdict()}
    assert {name: stop[name] for name in stop if name not in BARE} == fields
    assert set(gone) == BARE
    assert (gone["message"], gone["level"], gone["event"]) == ("it is so", "warning", "lane_gone")


def test_a_line_that_stands_for_many_says_so_to_machines(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(form=LogFormat.json)
    where = MirrorPartition("sf-to-nyc", "orders", "orders", 0)
    outbox = logged()
    for _ in range(LINES + 3):
        outbox.put(of_trouble(where, Trouble(Event.RACED, "another was first"), datetime.now(UTC)))
    outbox.flush(over=True)
    *each, last = (json.loads(line) for line in lines(capsys))
    assert [line.get("joined") for line in each] == [None] * LINES
    assert (last["joined"], last["event"], last["level"]) == (3, "raced", "warning")


def test_people_get_no_fields_but_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure()
    told_of(StopReason.LOST, hint="raise it", link="sf-to-nyc", first_offset=5)
    (line,) = lines(capsys)
    assert line.endswith("ERROR   heliograph: [lost] it is so (hint: raise it)")


def test_what_spark_tells_is_logged_beside_what_else_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure()
    told_of(Event.SPARK_ERROR)
    assert lines(capsys)[0].endswith("ERROR   heliograph.spark: [spark_error] it is so")


@pytest.mark.parametrize("form", list(LogFormat))
def test_an_exception_is_told_with_its_line(form: LogFormat, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(form=form)
    try:
        raise ZeroDivisionError("a bug")
    except ZeroDivisionError:
        log.exception("it failed", extra={"event": Event.ELECTION})
    told = lines(capsys)
    assert "ZeroDivisionError: a bug" in "\n".join(told)
    assert len(told) == 1 if form is LogFormat.json else "[election] it failed" in told[0]


def test_what_a_lane_told_is_shown_at_the_level_it_was_told(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(Level.error)
    for level in ("WARNING", "ERROR"):
        repeat(2, LogLine(level=level, logger="heliograph.copier", words=level.lower()))
    (line,) = lines(capsys)
    assert line.endswith("ERROR   heliograph.lane: lane 2: heliograph.copier: error")


def test_configuring_again_leaves_one_handler_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        logs.configure()
    log.warning("once")
    assert len(lines(capsys)) == 1
