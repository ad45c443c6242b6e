"""A link's own group, `heliograph.<link>.<source cluster id>`: how the version before elects, protocol heliograph/1.

Held beside the group of claims (claims_group.py) for this one version, so that a run of the version before and one of
this never both copy a link of one name. It goes with the next version.

There, the active run is the group's leader: Kafka keeps a leader while it is a member. A leader of this version marks
what it assigns with `by_claims`: that tells members of this version that the other group decides, so that two runs with
one link's name and different topics may both copy; to a member of the version before it says, as ever, who is active.

**Why the two versions never both hold a link (P2).** A run O of the version before is active only in a generation h
that it leads. Let X, of this version, be permitted by a generation g. If h < g, O led until it left or was dropped, so
until its lease was over. If g < h and X is no member of h, X left, or was dropped after its lease. If X is a member of
h, it sent a join after it was permitted (see below), and h was formed later still: X gives its permission up before it
sends a join, unless X leads, and then nobody else leads while X is a member. "After" needs care: a join that was sent
before, and not answered, may be executed later. So a member that does not lead goes on under another name when a join
is not answered (`keeps_id`).

Two links of different names are not kept apart by this group: that was the fault of the version before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from heliograph.cluster.standing import Assigned, Permitted, Standby, Term

BY_CLAIMS = "by_claims"
CONFIG = "config"  # the fingerprint of a run's config for the link


def leader_group_of(link: str, source_cluster_id: str) -> str:
    return f"heliograph.{link}.{source_cluster_id}"


class LeaderGroup:
    """`host` and `pid`: who we are. `config`: the fingerprint of our link."""

    name = "heliograph/1"

    def __init__(self, host: str, pid: int, config: str) -> None:
        self._says = {"host": host, "pid": pid, CONFIG: config}

    def metadata(self) -> bytes:
        return json.dumps(self._says).encode()

    def assign(self, term: Term, members: Mapping[str, bytes]) -> dict[str, bytes]:
        said = json.dumps({**self._says, "member": term.member, BY_CLAIMS: True}).encode()
        return dict.fromkeys(members, said)

    def read(self, assignment: bytes, term: Term, leads: bool, /) -> Assigned:
        leader = _read(assignment)
        if leads or leader.get(BY_CLAIMS) is True:
            return Permitted(term=term)
        alike = leader.get(CONFIG, self._says[CONFIG]) == self._says[CONFIG]
        return Standby(active=_in_words(leader), alike=alike)

    def keeps(self, assigned: Assigned, leads: bool, /) -> bool:
        return leads or not assigned.holds

    def keeps_id(self, leads: bool, /) -> bool:
        return leads

    def forget(self, _member: str, /) -> None:
        """Nothing here is of one name only."""


def _read(assignment: bytes) -> dict[str, Any]:
    """Empty if whoever leads the group wrote what we cannot read."""
    try:
        leader = json.loads(assignment)
    except ValueError:
        return {}
    return leader if isinstance(leader, dict) else {}


def _in_words(leader: Mapping[str, Any]) -> str | None:
    if "host" not in leader or "pid" not in leader:
        return None
    return f"{leader['host']} (pid {leader['pid']}), a run of the version before this one"
