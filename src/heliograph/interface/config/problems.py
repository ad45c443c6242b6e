"""A problem of a config file: where, and what is wrong.

Owns how a place is written (`links.sf-to-nyc.topics[1]`). Must not know the checks that find problems.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    place: Place
    what: str

    def __str__(self) -> str:
        return f"{written(self.place)}: {self.what}" if self.place else self.what


def written(place: Place) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return text.removeprefix(".")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""
