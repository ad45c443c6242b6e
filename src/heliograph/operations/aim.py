"""Which partitions an operator means: `[LINK] TOPIC[:0,3] ...`, by the names of the source. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from heliograph.model.errors import UsageError
from heliograph.model.link import Link
from heliograph.model.partition import MirrorPartition
from heliograph.model.partition_filter import TopicFilter
from heliograph.model.topic_patterns import pattern_problem

_NUMBERED = re.compile(r"(.+?)(?::([0-9]+(?:,[0-9]+)*))?", re.S)
_GROUP_COLON = re.compile(r"\(\?[a-zA-Z-]*:")  # a regular expression's own: no topic's name holds a colon
_EXAMPLE = "topics are named as at the source: orders, or orders:0,3 for some of its partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTopic:
    """`partitions` None: all of them."""

    name: str
    partitions: frozenset[int] | None = None

    def __str__(self) -> str:
        numbers = "" if self.partitions is None else ":" + ",".join(map(str, sorted(self.partitions)))
        return self.name + numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """`topics` empty: all of the link."""

    link: Link
    topics: tuple[NamedTopic, ...] = ()

    def means(self, where: MirrorPartition) -> bool:
        return not self.topics or any(
            each.name == where.source_topic
            and (each.partitions is None or where.partition in each.partitions)
            for each in self.topics
        )

    def at(self, names: Iterable[str]) -> Aim:
        """The same link, and these of its topics."""
        return replace(self, topics=tuple(NamedTopic(name=each) for each in names))

    @property
    def narrowed(self) -> Link:
        """The link with these topics only: what else it has need not be read from the clusters."""
        if not self.topics:
            return self.link
        return replace(self.link, topics=tuple(re.escape(each.name) for each in self.topics))


def take_aim(links: Sequence[Link], words: Sequence[str], *, everything: bool = False) -> Aim:
    """`everything`: all topics of the link, so that none is named."""
    link, named = _link(links, words)
    if everything and named:
        raise UsageError(f"both --all and {' '.join(named)}", hint="name topics, or say --all")
    if not everything and not named:
        raise UsageError("no topic is named", hint=_EXAMPLE + "; --all means every topic of the link")
    topics = parse_topics(named)
    check_mirrored([link], topics)
    return Aim(link=link, topics=topics)


def aim_at_list(
    links: Sequence[Link], words: Sequence[str], filters: Sequence[str] = ()
) -> tuple[Sequence[Link], tuple[TopicFilter, ...]]:
    """The links that are meant, and their topics; without words all of both. `filters`: as of `topic_filters`."""
    named = next((each for each in links if words and each.name == words[0]), None)
    chosen = links if named is None else [named]
    meant = parse_topics(words if named is None else words[1:])
    check_mirrored(chosen, meant)
    names = [TopicFilter(pattern=each.name, partitions=each.partitions) for each in meant]
    return chosen, (*names, *topic_filters(chosen, filters))


def topic_filters(links: Sequence[Link], words: Iterable[str]) -> tuple[TopicFilter, ...]:
    """Topics by name, or by a regular expression on the whole name, and partitions of them."""
    filters = tuple(map(_parse_filter, words))
    check_mirrored(links, (NamedTopic(name=each.pattern) for each in filters if each.is_name))
    return filters


def _parse_filter(word: str) -> TopicFilter:
    found = _NUMBERED.fullmatch(word)
    if found is None or ":" in _GROUP_COLON.sub("", found[1]):
        raise UsageError(f"{word!r} is no topic", hint=f"{_EXAMPLE}; or a regular expression: 'orders.*'")
    problem = pattern_problem(found[1])
    if problem is not None:
        raise UsageError(
            f"topic {word!r}: {problem}", hint="it is a name, or a regular expression: 'orders.*'"
        )
    numbers = found[2]
    return TopicFilter(
        pattern=found[1], partitions=frozenset(map(int, numbers.split(","))) if numbers else None
    )


def check_mirrored(links: Sequence[Link], topics: Iterable[NamedTopic]) -> None:
    """One of the links must select each of them."""
    names = ", ".join(link.name for link in links)
    for each in topics:
        if not any(link.matches(each.name) for link in links):
            raise UsageError(
                f"link {names} does not mirror topic {each.name}",
                hint=f"{each.name} is neither a link nor a topic of link {names}: see topics and exclude in the config;"
                f" {_EXAMPLE}",
            )


def _link(links: Sequence[Link], words: Sequence[str]) -> tuple[Link, Sequence[str]]:
    named = next((each for each in links if words and each.name == words[0]), None)
    if named is not None:
        return named, words[1:]
    if len(links) == 1:
        return links[0], words
    names = ", ".join(each.name for each in links)
    raise UsageError(
        f"the config has {len(links)} links: which one?", hint=f"name one of them first: {names}"
    )


def parse_topics(words: Iterable[str]) -> tuple[NamedTopic, ...]:
    """A topic that is named twice is meant with all partitions that were named."""
    found: dict[str, NamedTopic] = {}
    for word in words:
        each = _parse(word)
        before = found.get(each.name, each).partitions
        both = None if before is None or each.partitions is None else before | each.partitions
        found[each.name] = replace(each, partitions=both)
    return tuple(found.values())


def _parse(word: str) -> NamedTopic:
    name, colon, numbers = word.partition(":")
    if not name or (colon and not re.fullmatch(r"[0-9]+(,[0-9]+)*", numbers)):
        raise UsageError(f"{word!r} is no topic", hint=_EXAMPLE)
    partitions = frozenset(map(int, numbers.split(","))) if colon else None
    return NamedTopic(name=name, partitions=partitions)
