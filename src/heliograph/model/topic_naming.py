"""What a mirrored topic is called on the target.

Owns the rule `same`, `prefix` or a template. Must not know patterns, clusters or config files.
"""

from __future__ import annotations

import re
from string import Formatter

SAME = "same"
PREFIX = "prefix"

_FIELDS = frozenset({"source", "topic"})
_ANY = "\0"  # stands for a topic, and is in no name
_LEGAL = re.compile(r"[a-zA-Z0-9._-]*")


def legal_in_topic(text: str) -> bool:
    """Whether Kafka accepts every character of this in a topic's name."""
    return _LEGAL.fullmatch(text) is not None


def naming_problem(naming: str) -> str | None:
    """Why this is no naming rule, or None if it is one."""
    if naming in (SAME, PREFIX):
        return None
    try:
        pieces = list(Formatter().parse(naming))
    except ValueError as error:
        return f"bad template {naming!r}: {error}"
    fields = [field for _, field, _, _ in pieces if field is not None]
    if "topic" not in fields:
        return f"{naming!r} is neither same, prefix nor a template with {{topic}}"
    if not _FIELDS.issuperset(fields) or any(spec or conversion for _, _, spec, conversion in pieces):
        return f"bad template {naming!r}: only {{source}} and {{topic}} are allowed"
    if not all(legal_in_topic(literal) for literal, _, _, _ in pieces):
        return f"bad template {naming!r}: a topic's name holds letters, digits, '.', '_' and '-' only"
    return None


def target_name(naming: str, *, separator: str, source: str, topic: str) -> str:
    if naming == SAME:
        return topic
    if naming == PREFIX:
        return f"{source}{separator}{topic}"
    return naming.format(source=source, topic=topic)


def source_name(naming: str, *, separator: str, source: str, target: str) -> str | None:
    """The one source topic that is called so on the target; None: none is."""
    pattern = re.escape(target_name(naming, separator=separator, source=source, topic=_ANY))
    first, *more = pattern.split(re.escape(_ANY))  # a template may name the topic twice
    found = re.fullmatch("(?P=topic)".join([f"{first}(?P<topic>.+){more[0]}", *more[1:]]), target)
    return found["topic"] if found else None
