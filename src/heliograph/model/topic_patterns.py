"""Which topics a link copies: regular expressions on the whole name.

Owns the meaning of a list of patterns. Must not know links, clusters or config files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

INTERNAL_PREFIX = "__"

# A comma inside {m,n} belongs to the expression: topic names hold no commas, so nothing else can.
_SEPARATING_COMMA = re.compile(r",(?![^{]*\})")


def split_patterns(text: str) -> list[str]:
    """The patterns of one string with commas between them; empty ones are dropped."""
    return [part.strip() for part in _SEPARATING_COMMA.split(text) if part.strip()]


def pattern_problem(pattern: str) -> str | None:
    """Why this is no regular expression, or None if it is one."""
    if not pattern:
        return "an empty pattern matches no topic"
    try:
        _compiled(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"bad regular expression {pattern!r}: {error}"
    return None


def matches_any(patterns: Iterable[str], topic: str) -> bool:
    return any(_compiled(pattern).fullmatch(topic) for pattern in patterns)


def selects(topics: Iterable[str], exclude: Iterable[str], topic: str) -> bool:
    """Whether these patterns choose the topic; the brokers' own are never chosen."""
    if topic.startswith(INTERNAL_PREFIX):
        return False
    return matches_any(topics, topic) and not matches_any(exclude, topic)


@lru_cache(maxsize=4096)  # the plan asks for every topic of a cluster: 10,000 topics times each pattern
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
