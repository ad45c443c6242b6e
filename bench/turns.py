"""Whose turn it is: contenders one after the other, and in each round another one begins. Pure.

A, B, C, then B, C, A ...: what changes on the machine meets everybody alike, and nobody always runs first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.contender import Contender


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """`index` counts all rounds from 0, `number` those that count from 1; those before are 0 and less."""

    contender: Contender
    index: int
    number: int
    rounds: int

    @property
    def counts(self) -> bool:
        return self.number > 0

    @property
    def name(self) -> str:
        return f"round {self.number} of {self.rounds}" if self.counts else "warm-up"

    @property
    def label(self) -> str:
        """Not used by any other turn on the same clusters."""
        return f"{self.contender.code}-{self.index}"


def turns(contenders: Sequence[Contender], *, rounds: int, warm_ups: int) -> Iterator[Turn]:
    for index in range(warm_ups + rounds):
        for contender in rotated(contenders, index):
            yield Turn(contender=contender, index=index, number=index - warm_ups + 1, rounds=rounds)


def rotated(contenders: Sequence[Contender], by: int) -> list[Contender]:
    first = by % len(contenders) if contenders else 0
    return [*contenders[first:], *contenders[:first]]
