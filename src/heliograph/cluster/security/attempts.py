"""How often a secret is tried on a cluster: until it is refused once.

A mirror has many connections, and opens them again and again: with a wrong password it would lock the account within
seconds. So the first attempt goes alone, and after a refusal there is none until the secret is another one.

Owns which secret was accepted and which was refused, by fingerprint. Must not know the secret itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from heliograph.model.errors import AuthenticationFailed


class Attempts:
    """Of one cluster, in one event loop."""

    def __init__(self) -> None:
        self._accepted: str | None = None
        self._refused: tuple[str, AuthenticationFailed] | None = None
        self._alone = asyncio.Lock()

    @asynccontextmanager
    async def attempt(self, fingerprint: str) -> AsyncIterator[None]:
        """Around one authentication; raises what refused this secret, where one has been refused already."""
        self._check(fingerprint)
        if fingerprint == self._accepted:
            async with self._noting(fingerprint):
                yield
            return
        async with self._alone:
            self._check(fingerprint)
            async with self._noting(fingerprint):
                yield

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
