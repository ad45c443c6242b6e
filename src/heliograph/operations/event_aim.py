"""Which events an operator means: since when, and of which links, topics and codes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches

from heliograph.model.errors import UsageError
from heliograph.model.events import Event
from heliograph.model.link import Link
from heliograph.model.start import start_time
from heliograph.model.states import StopReason
from heliograph.operations.aim import NamedTopic, parse_topics
from heliograph.operations.recorded_event import RecordedEvent

NEAR_CODES = 5
_CODES = sorted([*map(str, StopReason), *map(str, Event)])
_AGE = re.compile(r"[0-9]{1,6}[smhdw]")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventAim:
    """`links`: whose target clusters are read. What is empty of `names`, `topics` and `codes` keeps all; `names` are
    those of links."""

    links: tuple[Link, ...]
    since: datetime
    names: frozenset[str] = frozenset()
    topics: tuple[NamedTopic, ...] = ()
    codes: frozenset[str] = frozenset()

    def means(self, event: RecordedEvent) -> bool:
        """Whenever it happened: what comes late is left out by its place in the log only (event_cursor.py)."""
        return (
            (not self.names or event.link in self.names)
            and (not self.codes or event.code in self.codes)
            and (not self.topics or any(_is_about(event, each) for each in self.topics))
        )

    @property
    def unmirrored(self) -> tuple[str, ...]:
        """Topics that none of the links mirrors now: there may be events of a time when one did, or a mistake in the
        name."""
        return tuple(
            each.name for each in self.topics if not any(link.matches(each.name) for link in self.links)
        )


def _is_about(event: RecordedEvent, topic: NamedTopic) -> bool:
    """What is about a topic as a whole is about each of its partitions."""
    if event.source_topic != topic.name:
        return False
    return topic.partitions is None or event.partition is None or event.partition in topic.partitions


def take_event_aim(
    links: Sequence[Link],
    names: Sequence[str],
    *,
    since: str,
    now: datetime,
    topics: Sequence[str] = (),
    codes: Iterable[str] = (),
) -> EventAim:
    """`names`: of links; none: all of them."""
    by_name = {link.name: link for link in links}
    for name in names:
        if name not in by_name:
            raise UsageError(f"the config has no link {name!r}", hint=_hint_for_link(name, by_name))
    return EventAim(
        links=tuple(by_name[name] for name in dict.fromkeys(names)) or tuple(links),
        since=since_time(since, now),
        names=frozenset(names),
        topics=parse_topics(topics),
        codes=frozenset(map(_known_code, codes)),
    )


def since_time(text: str, now: datetime) -> datetime:
    if _AGE.fullmatch(text):
        return start_time(f"-{text}", now)
    try:
        return start_time(text, now)
    except ValueError:
        raise UsageError(
            f"--since {text!r} is neither an age nor a time",
            hint="an age such as 90s, 15m, 1h, 7d or 2w, or a time such as 2026-01-31T12:00:00Z (UTC without a zone)",
        ) from None


def _hint_for_link(name: str, there: Iterable[str]) -> str:
    known = f"it has {', '.join(there)}"
    return f"{known}; a config file is named by -f {name}" if name.endswith((".yaml", ".yml")) else known


def _known_code(code: str) -> str:
    if code in _CODES:
        return code
    near = get_close_matches(code.lower(), _CODES, n=NEAR_CODES)
    beginning = f"near it: {', '.join(near)}; " if near else ""
    raise UsageError(f"there is no code {code!r}", hint=f"{beginning}docs/EVENTS.md lists all codes")
