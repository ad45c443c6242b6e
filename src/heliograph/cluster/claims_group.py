"""The group of all runs with one source cluster, `heliograph.<source cluster id>` on the target: protocol heliograph/2.

Owns what its members say, and the order of their claims. Each says who it is and what its links select; the leader
hands all of that, in order, to everybody; a target topic belongs to the first claim that covers it (model/claims.py).

**Seniority.** The leader gives a member that reports none the current generation; the member reports it in every later
join under the same name. Order is by (seniority, name). So who is first stays first: a new member is behind all that
were given a place before, and what is ours only grows, when a claim in front of ours goes.

**Why no two runs hold one target topic at a time (P2).** Let X hold it by the assignment of generation g, Y by that of
h, both leases running. If g = h, both read the same assignment. Let g < h. Either X is no member of h: then it left and
gave up its lease before, or was dropped, which is after its lease (group_membership.py). Or X is one: it reported its
seniority s(X) <= g, and Y is in front, so Y reported one as well (a member that reports none is given h), and
s(Y) <= s(X) <= g. So Y was a member of g, with the same seniority and the same claims, in front of X: X held nothing
of what Y claims.

That needs two things. A name that was dropped never comes back: the coordinator refuses it. And no join without a
seniority is executed after the member was given one, for it would be put behind those it was in front of: so a member
that has none yet and gets no answer to a join, which may be executed later, goes on under another name (`keeps_id`).

And a member's claims never grow: what it says with its place in generation h it said in g. A run that selects more
later is in the group once more, as another member with a place of its own, behind all that were given one before.

**What cannot be read.** The protocol's name stands for its layout; a version with another one must offer another name,
and the coordinator keeps the two apart (INCONSISTENT_GROUP_PROTOCOL). Within it a claim that has a key too many, a
naming or a pattern that this version does not know covers everything of the source: whoever is behind it stands by. So
does a member that cannot be read at all. It counts as new in every generation: nobody who holds a topic loses it to
noise. An assignment that cannot be read, or that lacks us, gives no rights: its reader leaves, and joins as a new
member.
"""

from __future__ import annotations

import json
import zlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from heliograph.cluster.standing import Assigned, Placed, Term
from heliograph.model.claims import Claim, Claimant, Claims, UnreadClaim, in_order
from heliograph.model.errors import ProtocolError
from heliograph.model.topic_naming import naming_problem
from heliograph.model.topic_patterns import pattern_problem

ORDER_MOST_BYTES = 16 << 20  # brokers keep assignments in records of 1 MB, compressed
NAMES_KEPT = 64  # a coordinator drops a name after a session: far fewer are given up meanwhile
_CLAIM_KEYS = frozenset({"link", "topics", "exclude", "naming", "separator", "source"})
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError, zlib.error)


def claims_group_of(source_cluster_id: str) -> str:
    """A cluster id holds no dot, so that this is never the name of a link's own group (leader_group.py)."""
    return f"heliograph.{source_cluster_id}"


class ClaimsGroup:
    """`host` and `pid`: who we are. `claims`: what our links select."""

    name = "heliograph/2"

    def __init__(self, host: str, pid: int, claims: Sequence[Claim]) -> None:
        self._says = {"host": host, "pid": pid, "claims": [_claim_as_told(claim) for claim in claims]}
        self._seniority: int | None = None
        self._given_up: deque[str] = deque(maxlen=NAMES_KEPT)

    def metadata(self) -> bytes:
        return json.dumps({**self._says, "seniority": self._seniority}).encode()

    def assign(self, term: Term, members: Mapping[str, bytes]) -> dict[str, bytes]:
        """Claims are handed on as they came: a member may read one that the leader cannot."""
        told = [_as_told(member, said, term.generation) for member, said in members.items()]
        order = sorted(told, key=lambda each: (each["seniority"], each["member"]))
        # Every member is told all claims, and brokers keep what each was told in one record of at most 1 MB.
        packed = zlib.compress(json.dumps(order).encode())
        return dict.fromkeys(members, packed)

    def read(self, assignment: bytes, term: Term, _leads: bool, /) -> Assigned:
        claims = _read_order(assignment)
        own = claims.claimant(term.member)
        if own is None:
            raise ProtocolError("the leader of the group told an order of claims without ours")
        if self._seniority not in (None, own.seniority):
            raise ProtocolError(
                f"our place in the group was {self._seniority}, its leader says {own.seniority}"
            )
        self._seniority = own.seniority
        return Placed(term=term, claims=self._mark_given_up(claims))

    def _mark_given_up(self, claims: Claims) -> Claims:
        """So that nobody looks for a rival where a late join of our own is waited out."""
        marked = (replace(each, given_up=each.member in self._given_up) for each in claims.claimants)
        return Claims(claimants=tuple(marked))

    def keeps(self, _assigned: Assigned, _leads: bool, /) -> bool:
        return True

    def keeps_id(self, _leads: bool, /) -> bool:
        return self._seniority is not None

    def forget(self, member: str, /) -> None:
        self._seniority = None
        self._given_up.append(member)


def read_runner(metadata: bytes) -> tuple[str, int] | None:
    """Host and process of the run that says this of itself; None: it cannot be read."""
    try:
        said = json.loads(metadata)
        return _text(said["host"]), _whole(said["pid"])
    except _UNREADABLE:
        return None


def read_claims(metadata: bytes) -> tuple[Claim | UnreadClaim, ...]:
    """What the run that says this of itself selects; what cannot be read covers everything."""
    try:
        return _read_claims(list(json.loads(metadata)["claims"]))
    except _UNREADABLE:
        return (UnreadClaim(),)


def _claim_as_told(claim: Claim) -> dict[str, Any]:
    return {
        "link": claim.link,
        "topics": claim.topics,
        "exclude": claim.exclude,
        "naming": claim.naming,
        "separator": claim.separator,
        "source": claim.source,
    }


def _as_told(member: str, metadata: bytes, generation: int) -> dict[str, Any]:
    """A member, as the leader tells it to everybody."""
    try:
        said = json.loads(metadata)
        reported = said["seniority"]
        seniority = generation if reported is None else _whole(reported)
        who = {"host": _text(said["host"]), "pid": _whole(said["pid"])}
        return {"member": member, "seniority": seniority, **who, "claims": list(said["claims"])}
    except _UNREADABLE:
        nobody = f"the unreadable member {member}"
        return {"member": member, "seniority": generation, "host": nobody, "pid": 0, "claims": None}


def _read_order(assignment: bytes) -> Claims:
    try:
        return in_order(
            Claimant(
                member=_text(told["member"]),
                seniority=_whole(told["seniority"]),
                host=_text(told["host"]),
                pid=_whole(told["pid"]),
                claims=_read_claims(told["claims"]),
            )
            for told in json.loads(_inflated(assignment))
        )
    except _UNREADABLE as problem:
        raise ProtocolError(f"the order of claims cannot be read: {problem!r}") from problem


def _inflated(assignment: bytes) -> bytes:
    """Bounded: whoever may join the group could hand every driver a bomb."""
    inflater = zlib.decompressobj()
    text = inflater.decompress(assignment, ORDER_MOST_BYTES)
    if not inflater.eof:
        raise zlib.error("cut, or too large")
    return text


def _read_claims(told: Any) -> tuple[Claim | UnreadClaim, ...]:
    return (UnreadClaim(),) if told is None else tuple(_read_claim(each) for each in told)


def _read_claim(told: Any) -> Claim | UnreadClaim:
    try:
        if set(told) != _CLAIM_KEYS:
            return UnreadClaim(link=str(told.get("link", "?")))
        claim = Claim(
            link=_text(told["link"]),
            topics=_texts(told["topics"]),
            exclude=_texts(told["exclude"]),
            naming=_text(told["naming"]),
            separator=_text(told["separator"]),
            source=_text(told["source"]),
        )
    except _UNREADABLE:
        return UnreadClaim()
    problems = [naming_problem(claim.naming), *map(pattern_problem, (*claim.topics, *claim.exclude))]
    return claim if not any(problems) else UnreadClaim(link=claim.link)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError(f"{values!r} is no list")
    return tuple(map(_text, values))


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{value!r} is no whole number")
    return value
