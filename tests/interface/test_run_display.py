"""How a run shows itself: figures, one sentence, and not too many lines."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.controller.board import Board
from heliograph.interface.cli import run_display
from heliograph.interface.cli.run_display import LINE_EVERY_S, display_for, facts, sentence
from heliograph.model.events import Event
from heliograph.model.outbox import Outbox
from heliograph.model.states import STANDING_BY
from tests.controller.observed import LINK, copy, partition, progress, refusal


class Clock:
    now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr(run_display, "time", fake)
    return fake


def mirror_of(
    board: Board | None = None,
    *,
    phase: str = "copying",
    lanes: tuple[int | None, ...] = (),
    outbox: Outbox | None = None,
) -> Any:
    return SimpleNamespace(
        board=board or Board([], []),
        phase=phase,
        lanes=[SimpleNamespace(pid=pid) for pid in lanes],
        settings=SimpleNamespace(links=[LINK]),
        ui_address="http://spark.example:4040",
        outbox=outbox or Outbox(),
    )


def half_way() -> Board:
    board = Board([copy(partition(0), next_offset=40, goal=100), copy(partition(1))], [refusal(partition(2))])
    board.sample(0.0)
    board.report(0, progress(partition(0), 90, records=50, size_bytes=4_000_000))
    board.sample(2.0)
    return board


def test_the_facts_are_the_boards_and_the_lanes() -> None:
    assert facts(mirror_of(half_way(), lanes=(7, None, 9))) == {
        "phase": "copying",
        "copied": 50,
        "goal": 160,
        "lag": 110,
        "records_per_s": 25.0,
        "mb_per_s": 2.0,
        "partitions": 3,
        "stopped": 1,
        "lanes": 2,
        "lanes_wanted": 3,
    }


def test_a_run_that_stands_by_tells_no_figures_of_what_another_copies() -> None:
    said = sentence({**facts(mirror_of(half_way(), lanes=(7, None, 9))), "phase": STANDING_BY})
    assert said.startswith("standing by: ")
    assert "2 of 3 lanes" in said
    assert "copied" not in said


def test_the_sentence_tells_all_of_them() -> None:
    assert sentence(facts(mirror_of(half_way(), lanes=(7, None, 9)))) == (
        "copying: 50 records copied, 110 behind (stopped partitions not counted), 25 records/s, 2.0 MB/s;"
        " 3 partitions (1 stopped), 2 of 3 lanes"
    )


def test_before_there_is_a_plan_all_figures_are_zero() -> None:
    words = sentence(facts(mirror_of(phase="connecting")))
    assert words == (
        "connecting: 0 records copied, 0 behind, 0 records/s, 0.0 MB/s; 0 partitions (0 stopped), 0 of 0 lanes"
    )


@given(
    first=st.integers(0, 200),
    goal=st.none() | st.integers(0, 200),
    next_offset=st.none() | st.integers(0, 200),
    source_end=st.integers(0, 200),
)
def test_more_is_never_copied_than_there_is_to_copy(
    first: int, goal: int | None, next_offset: int | None, source_end: int
) -> None:
    board = Board([copy(partition(), next_offset=first, goal=goal)], [])
    board.report(0, progress(partition(), next_offset, source_end=source_end))
    seen = facts(mirror_of(board))
    assert seen["goal"] >= seen["copied"]
    assert seen["lag"] >= 0


# -- plain lines


def test_a_phase_is_told_at_once_and_once(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with display_for() as show:
        for phase in ("connecting", "connecting", "standing by", "copying", "copying"):
            clock.now += 0.1
            show(mirror_of(phase=phase))
    captured = capsys.readouterr()
    phases = [line.split(":")[0] for line in captured.err.splitlines()]
    assert phases == ["connecting", "standing by", "copying"]
    assert captured.out == ""  # results go there


def test_lines_come_every_few_seconds_while_something_moves(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    board = Board([copy(partition(), goal=1_000)], [])
    with display_for() as show:
        for tenth in range(10 * 4 * int(LINE_EVERY_S)):
            board.report(0, progress(partition(), tenth))
            show(mirror_of(board))
            clock.now += 0.1
    lines = capsys.readouterr().err.splitlines()
    assert 3 <= len(lines) <= 4
    assert len(set(lines)) == len(lines)


def test_nothing_more_is_said_while_nothing_moves(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with display_for() as show:
        for _ in range(100):
            show(mirror_of(half_way()))
            clock.now += LINE_EVERY_S
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_change_after_a_long_silence_is_told_at_once(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with display_for() as show:
        show(mirror_of())
        clock.now += 60
        show(mirror_of())
        clock.now += 0.1
        show(mirror_of(half_way()))
    assert len(capsys.readouterr().err.splitlines()) == 2


# -- the panel


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("board", [Board([], []), half_way()], ids=["empty", "half way"])
def test_a_terminal_gets_a_panel_with_the_same_sentence_even_with_nothing_to_copy(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    outbox = Outbox()
    for code in (Event.LANE_UP, Event.RACED, Event.LANE_GONE, Event.RACED):
        outbox.tell(code, "as it was told")
    mirror = mirror_of(board, outbox=outbox)
    with display_for() as show:
        show(mirror)
    shown = terminal.getvalue()
    assert "2 raced, 1 lane_gone" in shown
    assert "lane_up" not in shown  # for information only
    assert sentence(facts(mirror)) in shown
    assert "Spark UI: http://spark.example:4040" in shown
    assert "%" in shown
