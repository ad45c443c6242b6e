"""Members around one model coordinator, moved by hand: who asks when, and which request comes late."""

from __future__ import annotations

from typing import Any

from heliograph.cluster.group_membership import Membership
from heliograph.cluster.group_protocol import GroupProtocol

from .group_model import Coordinator


class Table:
    """Time stands still unless it is moved on."""

    def __init__(self) -> None:
        self.coordinator = Coordinator()
        self.members: dict[str, Membership] = {}
        self.now = 100.0
        self._waiting: dict[str, list[Any]] = {}

    def sit_down(self, name: str, protocol: GroupProtocol) -> Membership:
        """A new member; everybody talks until all are members of one generation."""
        self.members[name] = Membership("g", protocol)
        self.settle()
        return self.members[name]

    def settle(self, *names: str) -> None:
        """These talk, or all do, until nothing is left to be said but heartbeats."""
        for _ in range(12):
            for name in names or tuple(self.members):
                self._turn(name)

    def _turn(self, name: str) -> None:
        member = self.members[name]
        if name not in self._waiting:
            answers: list[Any] = []
            self._waiting[name] = answers
            self.coordinator.handle(member.next_ask().message, self.now, answers.append)
        if self._waiting[name]:
            member.answered(self._waiting.pop(name)[0], sent_at=self.now)

    def lose_a_join(self, name: str, protocol: GroupProtocol) -> Any:
        """A new member whose first join under its name is on its way when it gives up on it; that join."""
        member = self.members[name] = Membership("g", protocol)
        self._turn(name)  # it is given its name
        late = member.next_ask().message
        assert late.member_id
        member.trouble("no answer")
        return late

    def arrive(self, late: Any) -> None:
        self.coordinator.handle(late, self.now, lambda _answer: None)

    def leave(self, name: str) -> None:
        goodbye = self.members.pop(name).leave()
        assert goodbye is not None
        self.coordinator.handle(goodbye.message, self.now, lambda _answer: None)
        self._waiting.pop(name, None)
