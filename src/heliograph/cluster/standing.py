"""What a member of an election's group is in it, as frozen values. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heliograph.model.claims import Claims


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A member's name in the group, and the generation that it is a member of."""

    generation: int
    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A member of the group of all runs with one source cluster: the order of their claims, ours among them."""

    term: Term
    claims: Claims
    holds: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Permitted:
    """In a link's own group: no run of the version before is active."""

    term: Term
    holds: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Standby:
    """Another run is active: `active` says which, in words; None where its description cannot be read.
    `alike`: it has our config."""

    active: str | None
    alike: bool = True
    holds: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeking:
    """Not a member now, or not known to be one still. `problem` says why, with what to do about it."""

    problem: str | None = None


# What an assignment made of a member; and what a member is at a moment, which may be none of these.
Assigned = Placed | Permitted | Standby
Standing = Assigned | Seeking
