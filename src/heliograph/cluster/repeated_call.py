"""A question that is asked every few seconds, and mostly answered as before.

Owns the encoded request, and the last answers as values. To encode and decode what is said of thousands of partitions
takes Python longer than the broker takes to answer, and holds up all that a lane copies meanwhile. Must not know what
is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from hashlib import blake2b
from typing import Any, Generic, TypeVar

from heliograph.cluster.connection import Connection
from heliograph.cluster.messages import choose_version, decode

T = TypeVar("T")


class RepeatedCall(Generic[T]):
    """`read` makes a value of an answer; who is given it must not change it. `kept`: how many answers are remembered.
    To be used on one event loop."""

    def __init__(self, response_class: type[Any], read: Callable[[Any], T], *, kept: int = 1) -> None:
        self.read = read
        self._kept = kept
        self._response_class = response_class
        self._asked: Hashable = None
        self._request: Any = None
        self._encoded: dict[int, bytes] = {}  # by version
        self._values: dict[tuple[int, bytes], T] = {}  # by version and digest

    async def __call__(
        self,
        connection: Connection,
        asked: Hashable,
        make: Callable[[], Any],
        *,
        timeout_ms: int,
        version: int | None = None,
    ) -> T:
        """Ask `make()`, which is the same for the same `asked`. An answer that came before gives the same object.
        `version` None: the highest that both sides know."""
        if self._request is None or asked != self._asked:
            self._asked, self._request, self._encoded = asked, make(), {}
        request = self._request
        if version is None:
            version = choose_version(connection, request)
        encoded = self._encoded.get(version)
        if encoded is None:
            encoded = self._encoded[version] = request.encode(version=version)
        flexible = request.flexible_version_q(version)
        body = await connection.request(
            request.API_KEY, version, [encoded], flexible=flexible, timeout_ms=timeout_ms
        )
        answered = (version, blake2b(body, digest_size=16).digest())
        if answered in self._values:
            value = self._values.pop(answered)
        else:
            value = self.read(decode(self._response_class, body, version, connection.address))
        self._values[answered] = value  # the last one
        if len(self._values) > self._kept:
            del self._values[next(iter(self._values))]
        return value
