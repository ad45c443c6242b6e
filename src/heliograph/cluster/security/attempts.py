"""How often a secret is tried on a cluster: until it is refused once.

A mirror has many connections, and opens them again and again: with a wrong password it would lock the account within
seconds. So a secret is shown to a cluster by one connection at a time: whoever waits goes when the one in front was let
in, and after a refusal nobody goes until the secret is another one. Clients of one cluster may have different secrets:
each has its own turns, and its own refusal.

    turn(secret) ── refused before ─────────────────────────────────▶ AuthenticationFailed
         └── waits ── it comes ── the secret is shown ─┬─ let in ───▶ the next
                                                       ├─ refused ──▶ nobody any more
                                                       └─ no answer ▶ the next

A turn begins when the secret is to be shown, and not before: a broker that hangs earlier holds up nobody. It ends with
the answer, or with the time limit of the request.

When many connections are opened, one after the other would take long where brokers are far away, or have to ask a slow
directory. So behind one that was let in a few may go at once, as long as the queue lasts.

Owns which secret was refused, by fingerprint, and whose turn it is. Must not know the secret itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from heliograph.model.errors import AuthenticationFailed

# Fewer than the wrong passwords for which directories lock accounts. So many are tried only if the password changes in
# the moment between the answer to one and to those right behind it.
MOST_AT_ONCE = 4
# Of one cluster: a link may have two of its own. What was used last is remembered.
MOST_SECRETS = 1000


class Attempts:
    """Of one cluster, in one event loop."""

    def __init__(self) -> None:
        self._secrets: dict[str, _Secret] = {}  # what was used last is last

    def check(self, fingerprint: str) -> None:
        """Raises what refused this secret, where one has been refused already."""
        self._secret(fingerprint).check()

    @asynccontextmanager
    async def turn(
        self, fingerprint: str, *, at_once: int = 1, patience_s: float | None = None
    ) -> AsyncIterator[None]:
        """Around what shows the secret; raises what refused it, where that has happened before the turn comes.

        `at_once`: so many may show it together after one was let in. `patience_s`: it is not waited for longer (None:
        as long as it takes)."""
        secret = self._secret(fingerprint)
        await secret.enter(at_once, patience_s)
        try:
            yield
        except AuthenticationFailed as refused:
            secret.refuse(refused)
            raise
        except BaseException:
            secret.leave(let_in=False)
            raise
        secret.leave(let_in=True)

    def forgive(self) -> None:
        """Other secrets are in use from now on: one that was refused may have been made good since."""
        for secret in self._secrets.values():
            secret.forgive()

    def _secret(self, fingerprint: str) -> _Secret:
        secret = self._secrets.pop(fingerprint, None) or _Secret()
        self._secrets[fingerprint] = secret
        if len(self._secrets) > MOST_SECRETS:
            idle = next(each for each, known in self._secrets.items() if not known.is_busy or known is secret)
            del self._secrets[idle]
        return secret


class _Secret:
    """One secret: its refusal, who shows it now, and who waits for that."""

    def __init__(self) -> None:
        self._refusal: tuple[str, str] | None = (
            None  # message and hint; an exception would keep its frames alive
        )
        self._shown = 0
        self._was_let_in = False  # the last of those behind whom others wait
        self._queue: deque[object] = deque()
        self._changed = asyncio.Event()

    @property
    def is_busy(self) -> bool:
        return bool(self._shown or self._queue)

    def check(self) -> None:
        if self._refusal is not None:
            message, hint = self._refusal
            raise AuthenticationFailed(f"{message} (not tried again until the secret changes)", hint=hint)

    def forgive(self) -> None:
        self._refusal = None

    async def enter(self, at_once: int, patience_s: float | None) -> None:
        place = object()
        self._queue.append(place)
        try:
            async with asyncio.timeout(patience_s):
                while self._refusal is None and not self._may_enter(place, at_once):
                    await self._changed.wait()
        except TimeoutError:
            pass  # beside whoever is in front
        finally:
            self._queue.remove(place)
            self._tell()
        self.check()
        self._shown += 1

    def leave(self, *, let_in: bool) -> None:
        self._shown -= 1
        self._was_let_in = let_in
        self._tell()

    def refuse(self, refused: AuthenticationFailed) -> None:
        self._refusal = (refused.message, refused.hint)
        self.leave(let_in=False)

    def _may_enter(self, place: object, at_once: int) -> bool:
        if self._queue[0] is not place:
            return False
        return not self._shown or (self._was_let_in and self._shown < at_once)

    def _tell(self) -> None:
        if not self.is_busy:
            self._was_let_in = False
        self._changed.set()
        self._changed = asyncio.Event()
