"""Which topics a member of the group of claims holds by its lease, as tests ask it."""

from __future__ import annotations

from collections.abc import Iterable

from heliograph.cluster.claims_group import ClaimsGroup
from heliograph.cluster.election import Election
from heliograph.cluster.standing import Placed
from heliograph.model.claims import Claim, Holder
from heliograph.model.clock import clock_of_suspended_time

TOPIC = "t"


def claiming(host: str, pid: int, topics: Iterable[str] = (TOPIC,), link: str = "link") -> ClaimsGroup:
    return ClaimsGroup(host, pid, [Claim(link=link, topics=tuple(topics))])


def holder_of(member: Election, topic: str = TOPIC) -> Holder | None:
    """Who holds it, by this member's word; None while it is not placed."""
    standing = member.standing
    return standing.claims.holder(topic) if isinstance(standing, Placed) else None


def holds(member: Election, topic: str = TOPIC) -> bool:
    standing, holder = member.standing, holder_of(member, topic)
    ours = (
        isinstance(standing, Placed) and holder is not None and holder.claimant.member == standing.term.member
    )
    return ours and clock_of_suspended_time() < member.lease_until


def stands_by(member: Election, topic: str = TOPIC) -> bool:
    return isinstance(member.standing, Placed) and not holds(member, topic)
