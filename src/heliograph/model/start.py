"""What a link's `start` means: everything, nothing that is there already, or what is not older than a time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from heliograph.model.policy import EARLIEST

LATEST = "latest"
_AGE = re.compile(r"-([0-9]{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def start_problem(text: str) -> str | None:
    """Why this is no start, or None if it is one."""
    if text in (EARLIEST, LATEST) or _AGE.fullmatch(text):
        return None
    try:
        _iso(text)
    except ValueError:
        return f"expected earliest, latest, a time such as 2026-01-31T12:00:00Z, or an age such as -7d, not {text!r}"
    return None


def start_time(text: str, now: datetime) -> datetime:
    """Of a start that is a time or an age."""
    age = _AGE.fullmatch(text)
    if age is None:
        return _iso(text)
    try:
        return now - timedelta(**{_UNITS[age[2]]: int(age[1])})
    except OverflowError:  # before the year 1: nothing is older than that
        return datetime.min.replace(tzinfo=UTC)


def _iso(text: str) -> datetime:
    """Without a zone it is UTC."""
    at = datetime.fromisoformat(text)
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
