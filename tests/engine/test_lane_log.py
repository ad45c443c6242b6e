"""What a lane warns of is in the driver's log, with the lane's number."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from heliograph.engine.control_line import ControlLine
from heliograph.engine.control_server import ControlServer
from heliograph.engine.lane_log import WORDS_LIMIT, repeat, tell_driver
from heliograph.engine.orders import Heartbeat, LogLine, Report
from heliograph.model.occurrence_log import logged

SECRET = b"s" * 32
SOON_S = 5.0


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = list(logging.getLogger().handlers)
    yield
    assert logging.getLogger().handlers == before, "a handler was left behind"


def told(*calls: tuple[int, str]) -> list[LogLine]:
    sent: list[LogLine] = []
    with tell_driver(sent.append):
        for level, words in calls:
            logging.getLogger("heliograph.copier").log(level, words)
    return sent


def test_warnings_and_worse_are_told_and_nothing_less(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    sent = told(
        (logging.DEBUG, "d"),
        (logging.INFO, "i"),
        (logging.WARNING, "w"),
        (logging.ERROR, "e"),
        (logging.CRITICAL, "c"),
    )
    assert [(line.level, line.words) for line in sent] == [
        ("WARNING", "w"),
        ("ERROR", "e"),
        ("CRITICAL", "c"),
    ]
    assert {line.logger for line in sent} == {"heliograph.copier"}


def test_nothing_is_told_before_or_after() -> None:
    assert told() == []
    sent = told((logging.WARNING, "meanwhile"))
    logging.getLogger("heliograph.copier").warning("afterwards")
    assert len(sent) == 1


def test_the_handler_is_gone_even_when_the_lane_failed() -> None:
    with pytest.raises(ZeroDivisionError), tell_driver(lambda _: None):
        raise ZeroDivisionError


def test_words_without_end_are_cut() -> None:
    (line,) = told((logging.WARNING, "x" * 10 * WORDS_LIMIT))
    assert len(line.words) == WORDS_LIMIT


def test_a_record_that_cannot_be_formatted_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    sent: list[LogLine] = []
    logger = logging.Logger("apart")
    with tell_driver(sent.append):
        (teller,) = [h for h in logging.getLogger().handlers if type(h).__name__ == "_Teller"]
        logger.addHandler(teller)
        logger.warning("%d", "no number")
        logger.warning("fine")
    assert [line.words for line in sent] == ["fine"]


def test_a_driver_in_the_same_process_that_repeats_a_lanes_words_is_not_told_of_them_again() -> None:
    sent: list[LogLine] = []

    def send(line: LogLine) -> None:
        sent.append(line)
        assert len(sent) < 10
        repeat(0, line)

    with tell_driver(send):
        logging.getLogger("asyncio").error("a task was destroyed")
    assert [line.words for line in sent] == ["a task was destroyed"]


@pytest.mark.parametrize(
    ("level", "repeated"),
    [
        ("WARNING", logging.WARNING),
        ("ERROR", logging.ERROR),
        ("CRITICAL", logging.CRITICAL),
        ("Odd", logging.WARNING),
    ],
)
def test_the_driver_repeats_what_a_lane_told_with_its_number(
    level: str, repeated: int, caplog: pytest.LogCaptureFixture
) -> None:
    repeat(7, LogLine(level=level, logger="heliograph.copier", words="100 % lost"))
    (record,) = caplog.records
    assert record.getMessage() == "lane 7: heliograph.copier: 100 % lost"
    assert (record.levelno, record.name) == (repeated, "heliograph.lane")


def test_a_lanes_warning_goes_over_the_line_into_the_drivers_log(caplog: pytest.LogCaptureFixture) -> None:
    heard = threading.Event()

    def receive(lane: int, report: Report) -> None:
        if isinstance(report, LogLine):
            repeat(lane, report)
            heard.set()

    server = ControlServer(SECRET, receive, lambda _: None, outbox=logged())
    line = ControlLine(
        server.start("127.0.0.1"),
        SECRET,
        4,
        fingerprint=server.fingerprint,
        beat=lambda: Heartbeat(at=0.0, pulse=0),
        on_order=lambda _: None,
        on_end=lambda _: None,
    )
    line.start()
    with tell_driver(line.send):
        logging.getLogger("asyncio").error("a task was destroyed")
    assert heard.wait(SOON_S)
    line.close()
    server.stop()
    assert "lane 4: asyncio: a task was destroyed" in caplog.text
