"""What the members of one kind of group tell each other, as the rules of membership need it. No I/O.

Kafka's own word: members of a group agree on a protocol by its name. It fixes what a member says of itself when it
joins (metadata), what the leader says to each (assignment), and what that means.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from heliograph.cluster.standing import Assigned, Term


class GroupProtocol(Protocol):
    @property
    def name(self) -> str: ...

    def metadata(self) -> bytes:
        """What we say of ourselves in a join."""

    def assign(self, term: Term, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """As the leader: what to tell each member, by the metadata of all."""

    def read(self, assignment: bytes, term: Term, leads: bool, /) -> Assigned:
        """What an assignment means for us. Raises ProtocolError if that cannot be known."""

    def keeps(self, assigned: Assigned, leads: bool, /) -> bool:
        """Whether what was assigned in this generation lasts while we join the next one."""

    def keeps_id(self, leads: bool, /) -> bool:
        """Whether we may go on under our name in the group though a join was not answered, and may be executed yet."""

    def forget(self, member: str, /) -> None:
        """We are another member from now on, and this one no more; empty: we had no name yet."""
