"""Which values of a target topic's configs are the mirror's own, as its `topic` row says (docs/LEDGER.md). Pure.

A value that the mirror has set follows the source; any other one is an operator's. A change is written down before it
is made, so that whoever comes next knows its own value again, whether it was made or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FOLLOWED, SETTING = "followed", "setting"  # fields of the row
MOST_ATTEMPTS = 4  # of one config between two looks: more changes than that in a few seconds are nobody's
Attempts = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """`values`: as the mirror has found them to be the source's. `setting`: what it was about to set since then, the
    last one at the end; nobody knows which of them is there. None: to unset."""

    values: Mapping[str, str] = field(default_factory=dict)
    setting: Mapping[str, Attempts] = field(default_factory=dict)

    def is_ours(self, name: str, value: str) -> bool:
        """Whether the target has this value by the mirror."""
        return value == self.values.get(name) or value in self.setting.get(name, ())

    def about_to(self, changes: Mapping[str, str | None]) -> Followed:
        tried = {name: _with(self.setting.get(name, ()), value) for name, value in changes.items()}
        return Followed(values=self.values, setting={**self.setting, **tried})

    def fields(self) -> dict[str, Any]:
        """Of the row; those that say nothing are left out."""
        setting = {name: list(tried) for name, tried in self.setting.items()}
        both = {FOLLOWED: dict(self.values), SETTING: setting}
        return {name: each for name, each in both.items() if each}


NONE_FOLLOWED = Followed()


def read_followed(fields: Mapping[str, Any]) -> Followed:
    """What another version has written differently counts as not written: the values are an operator's then."""
    values = {name: each for name, each in _mapping(fields.get(FOLLOWED)).items() if isinstance(each, str)}
    setting = {
        name: tuple(value for value in tried if value is None or isinstance(value, str))
        for name, tried in _mapping(fields.get(SETTING)).items()
        if isinstance(tried, list)
    }
    return Followed(values=values, setting=setting)


def _with(tried: Attempts, value: str | None) -> Attempts:
    return (*(each for each in tried if each != value), value)[-MOST_ATTEMPTS:]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
