"""Waiting for what becomes of commands: what was heard, and for how long more to wait. No I/O; the time is an argument.

    asked ──▶ applied | refused                 over
      └─────▶ under_way ──▶ applied | refused   as long as it says something new now and then

A mirror reads commands as they come and answers within a second; who has not begun to answer after 10 s hangs, or
drives other topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from heliograph.controller.ledger_word import Answer
from heliograph.model.command import Outcome

FIRST_ANSWER_S = 10.0
NEWS_S = 60.0  # a topic is deleted, made again and given leaders in this time, on any cluster that is well
ALL_S = 300.0


class Waiting:
    """`ids`: of the commands."""

    def __init__(self, ids: Iterable[str], now: float) -> None:
        self._ids = list(ids)
        self._began = self._news_at = now
        self.answers: dict[str, Answer] = {}

    def hear(self, answers: Mapping[str, Answer], now: float) -> list[Answer]:
        """All that is answered by now; those that are new."""
        new = [each for each in answers.values() if self.answers.get(each.id) != each]
        self.answers.update({each.id: each for each in new})
        if new:
            self._news_at = now
        return new

    def is_over(self, now: float) -> bool:
        """All is said, or it is no use to wait on."""
        if all(each in self.answers and self._is_final(each) for each in self._ids):
            return True
        silent = any(each not in self.answers for each in self._ids)
        patience_s = FIRST_ANSWER_S if silent else NEWS_S
        return now - self._news_at >= patience_s or now - self._began >= ALL_S

    def _is_final(self, command_id: str) -> bool:
        return self.answers[command_id].outcome is not Outcome.UNDER_WAY
