"""A model of a classic group's coordinator; no I/O, time is a number.

Owns the coordinator's rules as Kafka has them: sessions, rebalances, who leads, who may commit, what it has written
down when another broker takes over from it. The members and the network between are election_world.py's.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from heliograph.wire.error_codes import ErrorCode

from .group_commits import Commits, refused

Reply = Callable[[Any], None]


@dataclass
class Member:
    session_s: float
    heard_at: float
    metadata: bytes = b""
    assignment: bytes = b""
    reply: Reply | None = None  # who waits for the end of a join or of a sync


@dataclass
class Coordinator:
    members: dict[str, Member] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    leader: str = ""
    generation: int = 0
    state: str = "stable"  # preparing, completing, stable
    began_at: float = 0.0
    ids: Any = field(default_factory=itertools.count)
    written: tuple[dict[str, Member], str, int] = field(default_factory=lambda: ({}, "", 0))
    commits: Commits = field(default_factory=Commits)

    def handle(self, message: Any, now: float, reply: Reply) -> None:
        code = getattr(self, "_" + message.name.removesuffix("Request").lower())(message, now, reply)
        if code is not None:
            reply(refused(message, code))

    def tick(self, now: float) -> None:
        for name, member in list(self.members.items()):
            if member.reply is None and now >= member.heard_at + member.session_s:
                self._remove(name, now)
        timeout_s = max((m.session_s for m in self.members.values()), default=0.0)
        if self.state == "preparing" and now >= self.began_at + timeout_s:
            for name in [name for name, m in self.members.items() if m.reply is None]:
                del self.members[name]
            self._complete(now)

    def fail_over(self, now: float) -> None:
        """Another broker has the group: as it was written down last, and whoever waited waits for nothing."""
        members, self.leader, self.generation = self.written
        self.members = {name: replace(copy.copy(m), heard_at=now, reply=None) for name, m in members.items()}
        self.pending, self.state = set(), "stable"

    def _write(self) -> None:
        members = {name: replace(member, reply=None) for name, member in self.members.items()}
        self.written = (members, self.leader, self.generation)

    def _remove(self, name: str, now: float) -> None:
        del self.members[name]
        self._prepare(now)
        self._maybe_complete(now)

    def _prepare(self, now: float) -> None:
        if self.state == "preparing":
            return
        if self.state == "completing":  # who waits for the leader's sync is told to join again
            self._answer_all(lambda _: SimpleNamespace(error_code=ErrorCode.REBALANCE_IN_PROGRESS), now)
        self.state, self.began_at = "preparing", now

    def _maybe_complete(self, now: float) -> None:
        if self.state == "preparing" and all(m.reply is not None for m in self.members.values()):
            self._complete(now)

    def _complete(self, now: float) -> None:
        self.generation += 1
        self.state = "completing"
        if self.leader not in self.members:
            self.leader = next(iter(self.members), "")
        if not self.members:
            self._write()
        told = [SimpleNamespace(member_id=name, metadata=m.metadata) for name, m in self.members.items()]
        self._answer_all(
            lambda name: SimpleNamespace(
                error_code=0,
                generation_id=self.generation,
                leader=self.leader,
                member_id=name,
                members=told if name == self.leader else [],
            ),
            now,
        )

    def _answer_all(self, answer: Callable[[str], Any], now: float) -> None:
        for name, member in self.members.items():
            if member.reply is not None:
                member.heard_at = now
                member.reply(answer(name))
                member.reply = None

    def _joingroup(self, message: Any, now: float, reply: Reply) -> int | None:
        if not message.member_id:
            name = f"m{next(self.ids) * 2_654_435_761 % 2**32:08x}"  # as with brokers, in no order
            reply(SimpleNamespace(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=name))
            self.pending.add(name)
            return None
        if message.member_id in self.pending:
            self.pending.discard(message.member_id)
            self.members[message.member_id] = Member(message.session_timeout_ms / 1000, now)
        elif message.member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self._prepare(now)
        member = self.members[message.member_id]
        member.reply, member.metadata = reply, bytes(message.protocols[0].metadata)
        self._maybe_complete(now)
        return None

    def _syncgroup(self, message: Any, now: float, reply: Reply) -> int | None:
        if (code := self._known(message)) is not None:
            return code
        if self.state == "preparing":
            return ErrorCode.REBALANCE_IN_PROGRESS
        member = self.members[message.member_id]
        member.heard_at = now
        member.reply = reply
        if self.state == "completing" and message.member_id == self.leader:
            # One of a generation that was never written down, under the same number, may be late and name others.
            given = {each.member_id: bytes(each.assignment) for each in message.assignments}
            for name, each in self.members.items():
                each.assignment = given.get(name, b"")
            self.state = "stable"
            self._write()
        if self.state == "stable":
            self._answer_all(
                lambda name: SimpleNamespace(error_code=0, assignment=self.members[name].assignment), now
            )
        return None

    def _heartbeat(self, message: Any, now: float, _reply: Reply) -> int | None:
        if (code := self._known(message)) is not None:
            return code
        self.members[message.member_id].heard_at = now
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state == "preparing" else 0

    def _leavegroup(self, message: Any, now: float, _reply: Reply) -> int:
        (leaving,) = message.members
        if leaving.member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self._remove(leaving.member_id, now)
        return 0

    def _offsetcommit(self, message: Any, now: float, reply: Reply) -> None:
        code = self._may_commit(message.member_id, message.generation_id_or_member_epoch)
        if code:
            reply(self.commits.refused(message, code))
            return
        if message.member_id in self.members:
            self.members[message.member_id].heard_at = now  # it counts as a heartbeat
        reply(self.commits.commit(message))

    def _may_commit(self, member_id: str, generation: int) -> int:
        """A member of this generation may, until the next one is formed. Who is no member may while there is none."""
        if not self.members and generation < 0:
            return ErrorCode.NONE
        if not (self.generation or self.members or self.pending):
            return ErrorCode.ILLEGAL_GENERATION  # GROUP_ID_NOT_FOUND from version 9 on
        if (code := self._is_of(member_id, generation)) is not None:
            return code
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state == "completing" else ErrorCode.NONE

    def _offsetfetch(self, message: Any, _now: float, reply: Reply) -> None:
        """Anybody may."""
        reply(self.commits.fetch(message))

    def _known(self, message: Any) -> int | None:
        return self._is_of(message.member_id, message.generation_id)

    def _is_of(self, member_id: str, generation: int) -> int | None:
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.ILLEGAL_GENERATION if generation != self.generation else None
