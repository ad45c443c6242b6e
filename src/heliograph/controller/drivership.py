"""What this run may copy: the elections that its links take part in, on their target clusters, and what comes of them.

Each link is a member of two groups: of all that lead from its source cluster to its target cluster, by claims
(cluster/claims_group.py), and for this one version of a group of its own (cluster/leader_group.py). A link is ours
while both say so, for as long as both say. Which of its topics are, the order of the claims tells. A run has a member
for each of its links, and not one for all: what a member claims must never grow, and links come and go. Knows nothing
of lanes.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from heliograph.cluster.claims_group import ClaimsGroup, claims_group_of
from heliograph.cluster.client import ClusterClient
from heliograph.cluster.election import Election
from heliograph.cluster.leader_group import LeaderGroup, leader_group_of
from heliograph.cluster.standing import Permitted, Placed, Seeking, Standby, Standing, Term
from heliograph.model.claims import Claim, Claimant, Claims, Holder
from heliograph.model.clock import clock_of_suspended_time

LEASE_MOST_S = 10.0

__all__ = ["Active", "Candidate", "Drivership", "Role", "Seeking", "Standby", "groups_of"]


def groups_of(link: str, source_cluster_id: str) -> tuple[str, str]:
    """The groups that a link's driver is a member of."""
    return claims_group_of(source_cluster_id), leader_group_of(link, source_cluster_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """`terms`: of every group that was asked. As long as their members stay, and generations follow each other, nobody
    else can have held what is ours."""

    terms: tuple[Term, ...]
    claims: Claims = Claims()  # noqa: RUF009 - a frozen value

    @property
    def generation(self) -> int:
        return self.terms[0].generation

    @property
    def member(self) -> str:
        """As whom the run holds topics, in the group of claims."""
        return self.terms[0].member

    @property
    def in_front(self) -> tuple[Claimant, ...]:
        return self.claims.in_front_of(self.member)

    def held_by(self, link: str, target_topic: str) -> Holder | None:
        """Who else holds it; None: it is this link's."""
        holder = self.claims.holder(target_topic)
        if holder is None or (holder.claimant.member == self.member and holder.link == link):
            return None
        return holder

    def all_held_by(self, claim: Claim) -> Holder | None:
        """Who else holds all that this link of ours selects, whatever topics there are."""
        return self.claims.twin_of(claim, self.member)


Role = Active | Standby | Seeking


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A link that wants to be driven. `fingerprint` of its config: for runs of the version before."""

    claim: Claim
    fingerprint: str
    target: ClusterClient
    source_cluster_id: str
    target_cluster_id: str

    @property
    def link(self) -> str:
        return self.claim.link

    @property
    def pair(self) -> tuple[str, str]:
        return self.target_cluster_id, self.source_cluster_id


class Drivership:
    """`on_change(link, role)` is called in the event loop."""

    def __init__(self, candidates: Sequence[Candidate], on_change: Callable[[str, Role], None]) -> None:
        self._me = (socket.gethostname(), os.getpid())
        self._on_change = on_change
        self._told: dict[str, Role] = {}
        # By link. Replaced, never changed: `grants` is called from any thread.
        self._elections: dict[str, tuple[Election, ...]] = {}
        self._standings: dict[str, list[Standing]] = {}
        for each in candidates:
            self._enter(each)

    def add(self, candidate: Candidate) -> None:
        """One more link."""
        self._enter(candidate)
        for election in self._elections[candidate.link]:
            election.start()

    async def remove(self, link: str) -> None:
        """Its groups are left: whoever waits for its topics has them."""
        elections = self._elections[link]
        self._elections = {name: both for name, both in self._elections.items() if name != link}
        del self._told[link], self._standings[link]
        await asyncio.gather(*(election.aclose(leave=True) for election in elections))

    def _enter(self, candidate: Candidate) -> None:
        link, source_id = candidate.link, candidate.source_cluster_id
        self._told[link] = Seeking()
        self._standings[link] = [Seeking(), Seeking()]
        of_all = Election(
            candidate.target,
            claims_group_of(source_id),
            ClaimsGroup(*self._me, [candidate.claim]),
            on_change=partial(self._heard, link, 0),
        )
        of_link = Election(
            candidate.target,
            leader_group_of(link, source_id),
            LeaderGroup(*self._me, candidate.fingerprint),
            on_change=partial(self._heard, link, 1),
        )
        self._elections = {**self._elections, link: (of_all, of_link)}

    @property
    def _each(self) -> list[Election]:
        """In an order that is always the same."""
        return list(dict.fromkeys(election for both in self._elections.values() for election in both))

    def claims_group(self, link: str) -> Election:
        """The group in which all runs with the link's source cluster claim topics; its cells are fenced by it."""
        return self._elections[link][0]

    def start(self) -> None:
        for election in self._each:
            election.start()

    async def aclose(self, *, leave: bool = True) -> None:
        """Step down: with `leave` a standby takes over at once, else when the last lease is over."""
        await asyncio.gather(*(election.aclose(leave=leave) for election in self._each))

    def grants(self) -> dict[str, float]:
        """How long, in seconds from now, each link is ours for certain. May be called from any thread."""
        now = clock_of_suspended_time()
        return {
            link: max(min(*(election.lease_until - now for election in both), LEASE_MOST_S), 0.0)
            for link, both in self._elections.items()
        }

    def _heard(self, link: str, which: int, standing: Standing) -> None:
        if link not in self._told:  # it was removed
            return
        self._standings[link][which] = standing
        role = _role(*self._standings[link])
        if role != self._told[link]:
            self._told[link] = role
            self._on_change(link, role)


def _role(of_all: Standing, of_link: Standing) -> Role:
    match of_all, of_link:
        case _, Standby():  # a run of the version before is active, whatever the claims say
            return of_link
        case Placed(term=term, claims=claims), Permitted(term=permitted):
            return Active(terms=(term, permitted), claims=claims)
    problems = [each.problem for each in (of_all, of_link) if isinstance(each, Seeking) and each.problem]
    return Seeking(problem="; ".join(problems) or None)
