"""Which line is a lane's, and which lane is silent: without sockets and clocks."""

from __future__ import annotations

from heliograph.engine.lane_lines import SILENT_TICKS, LaneLines
from heliograph.engine.orders import Heartbeat, Progress


class Told:
    def __init__(self) -> None:
        self.all: list[tuple[object, ...]] = []
        self.lines: LaneLines[str] = LaneLines(
            lambda lane, report: self.all.append((lane, report.kind)),
            lambda lane: self.all.append((lane, "gone")),
            lambda lane: self.all.append((lane, "silent")),
        )


def _beat(pulse: int) -> Heartbeat:
    return Heartbeat(at=0.0, pulse=pulse)


def test_a_newer_line_replaces_the_older_whose_words_and_end_count_no_more() -> None:
    told = Told()
    older = told.lines.opened(3, "older")
    newer = told.lines.opened(3, "newer")
    assert told.lines.of(3) == "newer"
    told.lines.heard(older, _beat(1))
    told.lines.ended(older)
    assert told.all == []
    told.lines.heard(newer, _beat(1))
    told.lines.ended(newer)
    assert told.all == [(3, "heartbeat"), (3, "gone")]
    assert told.lines.of(3) is None
    assert list(told.lines) == []


def test_a_lane_is_silent_after_ten_ticks_without_a_word_or_with_a_pulse_that_stands_still() -> None:
    told = Told()
    line = told.lines.opened(0, "line")
    for pulse in (1, 2, 2, 2):
        told.lines.heard(line, _beat(pulse))
    assert [line.tick() for _ in range(SILENT_TICKS)] == [*[False] * (SILENT_TICKS - 1), True]
    told.lines.heard(line, _beat(2))
    assert line.silent
    told.lines.heard(line, Progress(rows=()))
    assert not line.silent
    assert not line.tick()


def test_a_line_that_was_cut_ends_as_silent() -> None:
    told = Told()
    line = told.lines.opened(0, "line")
    line.cut()
    told.lines.ended(line)
    assert told.all == [(0, "silent"), (0, "gone")]
