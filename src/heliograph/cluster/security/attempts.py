"""How often a secret is tried on a cluster: until it is refused once.

A mirror has many connections, and opens them again and again: with a wrong password it would lock the account within
seconds. So the first attempt goes alone, and after a refusal there is none until the secret is another one. A password
that was good may be so no more when sessions are renewed, many of them at nearly the same time: so those go one after
the other, too, as long as none is held up by that.

Owns which secret was accepted and which was refused, by fingerprint. Must not know the secret itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from heliograph.model.errors import AuthenticationFailed

# For so long one waits for another with the same good secret. A refusal is there by then (a broker keeps it back for
# connection.failed.authentication.delay.ms, 100); a broker that hangs holds up nobody for longer.
TURN_S = 0.5


class Attempts:
    """Of one cluster, in one event loop."""

    def __init__(self) -> None:
        self._accepted: str | None = None
        self._refused: tuple[str, AuthenticationFailed] | None = None
        self._first = asyncio.Lock()
        self._turns = asyncio.Lock()

    @asynccontextmanager
    async def attempt(self, fingerprint: str) -> AsyncIterator[None]:
        """Around one authentication; raises what refused this secret, where one has been refused already."""
        self._check(fingerprint)
        if fingerprint != self._accepted:
            async with self._first:
                self._check(fingerprint)
                if fingerprint != self._accepted:
                    async with self._noting(fingerprint):
                        yield
                    return
        alone = await self._await_turn()
        try:
            self._check(fingerprint)
            async with self._noting(fingerprint):
                yield
        finally:
            if alone:
                self._turns.release()

    def forgive(self) -> None:
        """Other secrets are in use from now on: one that was refused may have been made good since."""
        self._refused = None

    async def _await_turn(self) -> bool:
        """Whether it has come, or the patience is over."""
        try:
            async with asyncio.timeout(TURN_S):
                return await self._turns.acquire()
        except TimeoutError:
            return False

    @asynccontextmanager
    async def _noting(self, fingerprint: str) -> AsyncIterator[None]:
        try:
            yield
        except AuthenticationFailed as refused:
            self._accepted, self._refused = None, (fingerprint, refused)
            raise
        self._accepted = fingerprint

    def _check(self, fingerprint: str) -> None:
        if self._refused is not None and self._refused[0] == fingerprint:
            refused = self._refused[1]
            raise AuthenticationFailed(
                f"{refused.message} (not tried again until the secret changes)", hint=refused.hint
            )
