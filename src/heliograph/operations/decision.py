"""What comes of an operator's wish, before anything is written: drafts of commands, refusals, and what needs none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from heliograph.model.command import Ranges, Wish
from heliograph.model.hints import topics_line
from heliograph.model.link import Link
from heliograph.model.partition import MirrorPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """Lines that an operator may paste. `config`: the file, as it was named; None: it is found without being named."""

    config: str | None = None

    def topics(self, verb: str, link: str, *topics: str, options: Sequence[str] = ()) -> str:
        return topics_line(verb, link, *topics, options=options, config=self.config)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A command that is to be written. `where.partition` is WHOLE_TOPIC for one about a whole topic. `shown`: what the
    operator reads before; `destroys`: and must agree to. `details`: the same for programs."""

    where: MirrorPartition
    target_topic_id: str
    wish: Wish
    stop: str | None = None
    loses: Ranges = field(default_factory=dict)
    keeps: Ranges = field(default_factory=dict)
    shown: tuple[str, ...] = ()
    destroys: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    subject: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchanged:
    """Nothing is to be done, and why."""

    subject: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    link: Link
    source_cluster_id: str
    wish: Wish
    drafts: tuple[Draft, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    unchanged: tuple[Unchanged, ...] = ()

    @property
    def destroys(self) -> bool:
        return any(each.destroys for each in self.drafts)


Decided = Draft | Refusal | Unchanged


def offsets(first: int, next_offset: int) -> str:
    """A half-open range, as a person reads it."""
    count = next_offset - first
    return f"offset {first:,}" if count == 1 else f"offsets {first:,} to {next_offset - 1:,} ({count:,})"
