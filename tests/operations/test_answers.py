"""For how long an operator waits for a running mirror."""

from __future__ import annotations

from heliograph.controller.ledger_word import Answer
from heliograph.model.command import Outcome
from heliograph.operations.answers import ALL_S, FIRST_ANSWER_S, NEWS_S, Waiting


def answer(command: str, outcome: Outcome, message: str = "") -> dict[str, Answer]:
    return {command: Answer(id=command, outcome=outcome, message=message)}


def test_it_is_over_when_all_is_said() -> None:
    waiting = Waiting(["a", "b"], 0.0)
    assert len(waiting.hear(answer("a", Outcome.APPLIED), 1.0)) == 1
    assert waiting.hear(answer("a", Outcome.APPLIED), 1.1) == []
    assert not waiting.is_over(1.2)
    waiting.hear(answer("b", Outcome.REFUSED), 2.0)
    assert waiting.is_over(2.0)


def test_a_mirror_that_says_nothing_is_waited_for_ten_seconds() -> None:
    waiting = Waiting(["a", "b"], 0.0)
    assert not waiting.is_over(FIRST_ANSWER_S - 0.1)
    assert waiting.is_over(FIRST_ANSWER_S)
    waiting.hear(answer("a", Outcome.APPLIED), 9.0)  # it works, one after the other
    assert not waiting.is_over(18.9)
    assert waiting.is_over(19.0)


def test_what_is_under_way_is_waited_for_as_long_as_it_tells_something_new() -> None:
    waiting = Waiting(["a"], 0.0)
    waiting.hear(answer("a", Outcome.UNDER_WAY, "deleting"), 1.0)
    assert not waiting.is_over(NEWS_S)
    waiting.hear(answer("a", Outcome.UNDER_WAY, "making"), NEWS_S)
    assert not waiting.is_over(2 * NEWS_S - 1)
    assert waiting.is_over(2 * NEWS_S)


def test_nothing_is_waited_for_without_end() -> None:
    waiting, now = Waiting(["a"], 0.0), 0.0
    while now < ALL_S:
        assert not waiting.is_over(now)
        waiting.hear(answer("a", Outcome.UNDER_WAY, f"{now}"), now)
        now += 5.0
    assert waiting.is_over(ALL_S)
