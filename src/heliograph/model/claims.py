"""To whom a target topic belongs: what runs claim, in their order.

Owns the rule: of the claims that cover a target topic the first one has it. Must not know groups, brokers or JSON. Who
is first, and that two runs never disagree about it for long, is cluster/claims_group.py's.

Patterns of other runs are matched here, on the driver's event loop. Python's `re` has no time limit, and a thread would
not help: it keeps the interpreter's lock while it matches (docs/SECURITY.md has what follows). So those behind the
first claim that covers a topic are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from heliograph.model.topic_naming import SAME, source_name, target_name
from heliograph.model.topic_patterns import selects


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What one link selects: patterns and names, not topics, so that it stays small and covers topics to come."""

    link: str
    topics: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    naming: str = SAME
    separator: str = "."
    source: str = ""

    def covers(self, target_topic: str) -> bool:
        """Whether it copies a topic to this one, whichever: two source topics may have one name on the target."""
        topic = source_name(self.naming, separator=self.separator, source=self.source, target=target_topic)
        return topic is not None and selects(self.topics, self.exclude, topic)

    def name_of(self, source_topic: str) -> str:
        """What the topic is called on the target."""
        return target_name(self.naming, separator=self.separator, source=self.source, topic=source_topic)

    def includes(self, other: Claim) -> bool:
        """Whether it covers all that the other one does, as far as their texts show."""
        same_names = self.name_of("{topic}") == other.name_of("{topic}")
        return same_names and {*other.topics} <= {*self.topics} and {*self.exclude} <= {*other.exclude}

    @property
    def selection(self) -> tuple[list[str], list[str], str]:
        """Equal for two claims that cover the same, whatever their links are called."""
        return sorted(self.topics), sorted(self.exclude), self.name_of("{topic}")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadClaim:
    """One that this version cannot read. It covers everything: nobody knows what its owner copies (P2)."""

    link: str = "?"

    def covers(self, _target_topic: str) -> bool:
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """One run. `seniority`: the generation of the group in which it was first given a place."""

    member: str
    seniority: int
    host: str
    pid: int
    claims: tuple[Claim | UnreadClaim, ...]
    given_up: bool = False  # this run itself, under a name that it uses no more: its join was executed late


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Whose a topic is: a run, and the link of that run."""

    claimant: Claimant
    link: str

    def __str__(self) -> str:
        who = f"{self.claimant.host} (pid {self.claimant.pid})"
        if self.claimant.given_up:
            who = f"this run itself by an earlier join that was not answered ({who}; the group drops it by itself)"
        return f"{who}, link {self.link}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """All claimants of one source cluster, the first one first."""

    claimants: tuple[Claimant, ...] = ()

    def holder(self, target_topic: str) -> Holder | None:
        """Whom the target topic belongs to; None if nobody claims it."""
        for claimant in self.claimants:
            for claim in claimant.claims:
                if claim.covers(target_topic):
                    return Holder(claimant=claimant, link=claim.link)
        return None

    def claimant(self, member: str) -> Claimant | None:
        return next((each for each in self.claimants if each.member == member), None)

    def in_front_of(self, member: str) -> tuple[Claimant, ...]:
        places = [each.member for each in self.claimants]
        return self.claimants[: places.index(member)] if member in places else ()

    def twin_of(self, claim: Claim, member: str) -> Holder | None:
        """Who claims all that this claim of the member's covers, and is in front of it."""
        for claimant in self.in_front_of(member):
            for other in claimant.claims:
                if isinstance(other, UnreadClaim) or other.selection == claim.selection:
                    return Holder(claimant=claimant, link=other.link)
        return None


def in_order(claimants: Iterable[Claimant]) -> Claims:
    """By seniority; of those that came in one generation, by their names in the group."""
    return Claims(claimants=tuple(sorted(claimants, key=lambda each: (each.seniority, each.member))))
