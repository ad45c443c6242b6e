"""One member of a classic consumer group, without I/O: what to ask next, and what each answer means.

Owns the rules of membership and of the lease. Must not know connections, time or tasks: moments are arguments, in
seconds of a clock that counts suspended time. What members tell each other, and what that makes of them, is the
group's protocol: claims_group.py and, for one version, leader_group.py.

    ┌──▶ JOIN ──0──▶ SYNC ──0──▶ MEMBER (heartbeats)
    │                 │            │   27, a rebalance: join again, the standing stays (if the protocol keeps it)
    ├─────────────────┼────────────┘   22, 25, 82, out of the group: the standing is lost at once
    └───── LEAVE ◀────┘                an assignment that cannot be read: the same, and others need not wait for us

A member that stayed with an assignment it cannot read would keep its place in front, and hold nothing. So it leaves,
says why, and joins as another one, behind the others.

**The lease.** A coordinator drops a member a session timeout after it last heard of it, or a rebalance timeout after a
rebalance began; both are `session_s`. Counted from when the last request that was answered with 0 was *sent*, the lease
ends before that. An answer of REBALANCE_IN_PROGRESS does not renew it: it says that we are a member still, not that we
will have joined in time. So while it runs, no generation without us was formed, as long as there is one coordinator.
A claim in front of ours is gone only from a generation without its member: that is why it is safe to take over then.
"""

from __future__ import annotations

import math
from enum import Enum, auto
from typing import Any

from heliograph.cluster import group_requests
from heliograph.cluster.group_protocol import GroupProtocol
from heliograph.cluster.group_requests import Ask
from heliograph.cluster.messages import unpacking
from heliograph.cluster.standing import Assigned, Seeking, Standing, Term
from heliograph.model.errors import ProtocolError
from heliograph.wire.error_codes import ErrorCode

SESSIONS_S = (6, 10, 30)  # the least that brokers accept by default; then what others may ask for
REBALANCE_SLACK_S = 3.0  # the coordinator ends a rebalance itself; only a dead one is cut off


class NextStep(Enum):
    """What comes after an answer."""

    GO_ON = auto()  # ask again at once
    REST = auto()  # until the next heartbeat is due
    BACK_OFF = auto()
    FIND = auto()  # back off, then find the coordinator again


class _Phase(Enum):
    JOIN = auto()
    SYNC = auto()
    MEMBER = auto()
    LEAVE = auto()  # with an assignment that cannot be read


_MOVED = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
_ELSEWHERE = _MOVED | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}  # the group may be as we know it
_OUT = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID})


class Membership:
    def __init__(self, group: str, protocol: GroupProtocol) -> None:
        self._group = group
        self._protocol = protocol
        self._phase = _Phase.JOIN
        self._member_id = ""
        self._generation = -1
        self._leader = ""
        self._members: dict[str, bytes] = {}  # by name what each says of itself; only the leader is told
        self._nth_session = 0
        self._assigned: Assigned | None = None
        self._until = -math.inf
        self._problem: str | None = None

    @property
    def session_s(self) -> int:
        return SESSIONS_S[self._nth_session]

    @property
    def lease_until(self) -> float:
        """Until when our standing gives rights; minus infinity where it gives none."""
        assigned = self._assigned
        return self._until if assigned is not None and assigned.holds else -math.inf

    @property
    def _leads(self) -> bool:
        return self._member_id != "" and self._leader == self._member_id

    def standing(self, now: float) -> Standing:
        if self._assigned is None:
            return Seeking(problem=self._problem)
        if now < self._until:
            return self._assigned
        return Seeking(problem=self._problem or f"no heartbeat was answered for {self.session_s} s")

    def trouble(self, problem: str) -> None:
        """Nothing was heard from the coordinator: the standing stays until its time is over. A join that was not
        answered may be executed yet: see `keeps_id`."""
        if self._phase is _Phase.LEAVE:
            self._left()  # or dropped, when the session is over; why we leave is worth more than that nobody answers
            return
        self._problem = problem
        if self._phase is _Phase.JOIN and not self._protocol.keeps_id(self._leads):
            self._become_another()

    # -- what to ask

    def next_ask(self) -> Ask:
        me = (self._group, self._member_id)
        rebalance_s = self.session_s + REBALANCE_SLACK_S
        if self._phase is _Phase.JOIN:
            said = (self._protocol.name, self._protocol.metadata())
            return group_requests.join(*me, *said, session_s=self.session_s, timeout_s=rebalance_s)
        if self._phase is _Phase.SYNC:
            said_to = self._assignments()
            name = self._protocol.name
            return group_requests.sync(*me, self._generation, name, said_to, timeout_s=rebalance_s)
        if self._phase is _Phase.LEAVE:
            return group_requests.leave(*me, timeout_s=self.session_s / 3)
        return group_requests.heartbeat(*me, self._generation, timeout_s=self.session_s / 3)

    def leave(self) -> Ask | None:
        """Give up standing and lease; what to tell the coordinator, if it knows us."""
        member_id = self._member_id
        self._become_another()
        self._lose(None)
        return (
            group_requests.leave(self._group, member_id, timeout_s=self.session_s / 3) if member_id else None
        )

    def _assignments(self) -> list[tuple[str, bytes]]:
        if not self._leads:
            return []
        return list(self._protocol.assign(self._term, self._members).items())

    @property
    def _term(self) -> Term:
        return Term(generation=self._generation, member=self._member_id)

    # -- what an answer means

    def answered(self, response: Any, *, sent_at: float) -> NextStep:
        """The answer to `next_ask`, which was sent at `sent_at` or later."""
        if self._phase is _Phase.LEAVE:
            self._left()  # whatever it says: we go on under another name
            return NextStep.BACK_OFF
        with unpacking(f"group {self._group}"):
            code = int(response.error_code)
            if code:
                return self._refused(code, response)
            if self._phase is _Phase.JOIN:
                return self._joined(response)
            if self._phase is _Phase.SYNC:
                said = bytes(response.assignment)
                try:
                    self._assigned = self._protocol.read(said, self._term, self._leads)
                except ProtocolError as problem:
                    return self._leave_for(problem)
                self._phase = _Phase.MEMBER
        self._until = sent_at + self.session_s
        self._problem = None
        return NextStep.REST

    def _joined(self, response: Any) -> NextStep:
        members = {str(member.member_id): bytes(member.metadata) for member in response.members}
        if not response.member_id:
            raise ProtocolError(f"group {self._group}: a member without an id")
        self._member_id, self._leader = str(response.member_id), str(response.leader)
        self._generation, self._members = int(response.generation_id), members
        self._keep_or_lose(f"group {self._group}: another member leads it now")
        self._phase = _Phase.SYNC
        return NextStep.GO_ON

    def _leave_for(self, problem: ProtocolError) -> NextStep:
        self._lose(
            f"group {self._group}: {problem.message}; this run leaves the group and joins it again, behind the others;"
            " if this lasts, look for a client of the target cluster that uses the group and is no Heliograph"
        )
        self._phase = _Phase.LEAVE
        return NextStep.GO_ON

    def _left(self) -> None:
        self._become_another()
        self._phase = _Phase.JOIN

    def _refused(self, code: int, response: Any) -> NextStep:
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = str(response.member_id)
            return NextStep.GO_ON
        if code == ErrorCode.REBALANCE_IN_PROGRESS and self._phase is not _Phase.JOIN:
            self._keep_or_lose(None)  # before the join is sent
            self._phase = _Phase.JOIN
            return NextStep.GO_ON
        if code == ErrorCode.INVALID_SESSION_TIMEOUT and self._nth_session + 1 < len(SESSIONS_S):
            self._nth_session += 1
            return NextStep.GO_ON
        self._problem = self._in_words(code)
        if code in _OUT:
            self._lose(self._problem)
            if code != ErrorCode.ILLEGAL_GENERATION:  # which a member of a newer generation is told, too
                self._become_another()
        elif code == ErrorCode.INVALID_SESSION_TIMEOUT:
            self._nth_session = 0
        elif self._phase is _Phase.SYNC and code not in _ELSEWHERE:
            self._phase = _Phase.JOIN
        return NextStep.FIND if code in _MOVED else NextStep.BACK_OFF

    def _keep_or_lose(self, problem: str | None) -> None:
        assigned = self._assigned
        if assigned is not None and not self._protocol.keeps(assigned, self._leads):
            self._lose(problem)

    def _lose(self, problem: str | None) -> None:
        self._assigned, self._until, self._problem = None, -math.inf, problem
        self._phase = _Phase.JOIN

    def _become_another(self) -> None:
        self._protocol.forget(self._member_id)
        self._member_id = ""

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
