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
    role = member.role
    return role.claims.holder(topic) if isinstance(role, Placed) else None


def holds(member: Election, topic: str = TOPIC) -> bool:
    role, holder = member.role, holder_of(member, topic)
    ours = isinstance(role, Placed) and holder is not None and holder.claimant.member == role.term.member
    return ours and clock_of_suspended_time() < member.lease_until


def stands_by(member: Election, topic: str = TOPIC) -> bool:
    return isinstance(member.role, Placed) and not holds(member, topic)
