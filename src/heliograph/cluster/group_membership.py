"""One member of a classic consumer group, without I/O: what to ask next, and what each answer means.

Owns the rules of the election. Must not know connections, time or tasks: moments are arguments, in seconds of a clock
that counts suspended time. The active member is the group's leader: Kafka keeps it while it is a member.

    ┌──▶ JOIN ──0──▶ SYNC ──0──▶ MEMBER (heartbeats)
    │                 │            │   27, a rebalance: join again, the role stays
    └─────────────────┴────────────┘   22, 25, 82, out of the group: the role is lost at once

**The lease.** A coordinator drops a member a session timeout after it last heard of it, or a rebalance timeout after a
rebalance began; both are `session_s`. Counted from when the last request that was answered with 0 was *sent*, the lease
ends before that. An answer of REBALANCE_IN_PROGRESS does not renew it: it says that we are a member still, not that we
will have joined in time. So while it holds no other member can be active (P2), as long as there is one coordinator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from heliograph.cluster import group_requests
from heliograph.cluster.group_requests import Ask
from heliograph.cluster.messages import unpacking
from heliograph.model.errors import ProtocolError
from heliograph.wire.error_codes import ErrorCode

SESSIONS_S = (6, 10, 30)  # the least that brokers accept by default; then what others may ask for
REBALANCE_SLACK_S = 3.0  # the coordinator ends a rebalance itself; only a dead one is cut off


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """`member`: our name in the group. As long as it stays, nobody else was active since the generation before."""

    generation: int
    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Standby:
    """`active` says who is, in words; None where its description cannot be read. `alike`: it has our config."""

    active: str | None
    alike: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeking:
    """Not a member now, or not known to be one still. `problem` says why, with what to do about it."""

    problem: str | None = None


Role = Active | Standby | Seeking


class Then(Enum):
    """What comes after an answer."""

    GO_ON = auto()  # ask again at once
    REST = auto()  # until the next heartbeat is due
    BACK_OFF = auto()
    FIND = auto()  # back off, then find the coordinator again


class _Phase(Enum):
    JOIN = auto()
    SYNC = auto()
    MEMBER = auto()


_MOVED = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
_ELSEWHERE = _MOVED | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}  # the group may be as we know it
_OUT = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID})


class Membership:
    """`describe` tells the others who this is: host and pid."""

    def __init__(self, group: str, describe: Mapping[str, Any]) -> None:
        self._group = group
        self._describe = dict(describe)
        self._phase = _Phase.JOIN
        self._member_id = ""
        self._generation = -1
        self._leader = ""
        self._members: tuple[str, ...] = ()
        self._nth_session = 0
        self._granted: Active | Standby | None = None
        self._until = -math.inf
        self._problem: str | None = None

    @property
    def session_s(self) -> int:
        return SESSIONS_S[self._nth_session]

    @property
    def lease_until(self) -> float:
        """Until when nobody else can be active; minus infinity unless we are."""
        return self._until if isinstance(self._granted, Active) else -math.inf

    def role(self, now: float) -> Role:
        if self._granted is None:
            return Seeking(problem=self._problem)
        if now < self._until:
            return self._granted
        return Seeking(problem=self._problem or f"no heartbeat was answered for {self.session_s} s")

    def trouble(self, problem: str) -> None:
        """Nothing was heard from the coordinator: the role stays until its time is over."""
        self._problem = problem

    # -- what to ask

    def next_ask(self) -> Ask:
        me = (self._group, self._member_id)
        rebalance_s = self.session_s + REBALANCE_SLACK_S
        if self._phase is _Phase.JOIN:
            return group_requests.join(*me, self._describe, session_s=self.session_s, timeout_s=rebalance_s)
        if self._phase is _Phase.SYNC:
            return group_requests.sync(*me, self._generation, self._assignments(), timeout_s=rebalance_s)
        return group_requests.heartbeat(*me, self._generation, timeout_s=self.session_s / 3)

    def leave(self) -> Ask | None:
        """Give up role and lease; what to tell the coordinator, if it knows us."""
        member_id, self._member_id = self._member_id, ""
        self._lose(None)
        return (
            group_requests.leave(self._group, member_id, timeout_s=self.session_s / 3) if member_id else None
        )

    def _assignments(self) -> list[tuple[str, bytes]]:
        """The leader tells every member who is active: itself."""
        if self._leader != self._member_id:
            return []
        active = group_requests.active_member(self._member_id, self._describe)
        return [(member, active) for member in self._members]

    # -- what an answer means

    def answered(self, response: Any, *, sent_at: float) -> Then:
        """The answer to `next_ask`, which was sent at `sent_at` or later."""
        with unpacking(f"group {self._group}"):
            code = int(response.error_code)
            if code:
                return self._refused(code, response)
            if self._phase is _Phase.JOIN:
                return self._joined(response)
            if self._phase is _Phase.SYNC:
                self._granted = self._role_in_group(response.assignment)
                self._phase = _Phase.MEMBER
        self._until = sent_at + self.session_s
        self._problem = None
        return Then.REST

    def _joined(self, response: Any) -> Then:
        members = tuple(str(member.member_id) for member in response.members)
        if not response.member_id:
            raise ProtocolError(f"group {self._group}: a member without an id")
        self._member_id, self._leader = str(response.member_id), str(response.leader)
        self._generation, self._members = int(response.generation_id), members
        if self._leader != self._member_id and isinstance(self._granted, Active):
            self._lose(f"group {self._group}: another member leads it now")
        self._phase = _Phase.SYNC
        return Then.GO_ON

    def _role_in_group(self, assignment: bytes) -> Active | Standby:
        if self._leader == self._member_id:
            return Active(generation=self._generation, member=self._member_id)
        active = group_requests.active_in_words(assignment)
        return Standby(active=active, alike=group_requests.is_alike(assignment, self._describe))

    def _refused(self, code: int, response: Any) -> Then:
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = str(response.member_id)
            return Then.GO_ON
        if code == ErrorCode.REBALANCE_IN_PROGRESS and self._phase is not _Phase.JOIN:
            self._phase = _Phase.JOIN
            return Then.GO_ON
        if code == ErrorCode.INVALID_SESSION_TIMEOUT and self._nth_session + 1 < len(SESSIONS_S):
            self._nth_session += 1
            return Then.GO_ON
        self._problem = self._in_words(code)
        if code in _OUT:
            self._lose(self._problem)
            if code != ErrorCode.ILLEGAL_GENERATION:  # which a member of a newer generation is told, too
                self._member_id = ""
        elif code == ErrorCode.INVALID_SESSION_TIMEOUT:
            self._nth_session = 0
        elif self._phase is _Phase.SYNC and code not in _ELSEWHERE:
            self._phase = _Phase.JOIN
        return Then.FIND if code in _MOVED else Then.BACK_OFF

    def _lose(self, problem: str | None) -> None:
        self._granted, self._until, self._problem = None, -math.inf, problem
        self._phase = _Phase.JOIN

    def _in_words(self, code: int) -> str:
        said = f"group {self._group}: {ErrorCode.name_of(code)}"
        if code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return f"{said}; grant READ on the group {self._group} of the target cluster"
        if code == ErrorCode.INVALID_SESSION_TIMEOUT:
            tried = ", ".join(f"{session_s} s" for session_s in SESSIONS_S)
            return f"{said}; the target's brokers accept none of {tried}: see group.min.session.timeout.ms and max"
        if code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            return f"{said}; something else than Heliograph uses a group of this name"
        return said
