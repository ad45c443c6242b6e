"""When the new secrets of one cluster are tried: at once, and again after pauses, so that no account is locked.

    due ─▶ tried ─┬─▶ refused: what locks accounts. Again after a minute and after a quarter of an hour, then no more
                  └─▶ failed: what locks none. Again after 5 seconds, and after pauses that grow to a minute

A secret that is refused may be right before long: who changes a password may change the config first and the cluster
after it. Three tries in all, no three of them within a quarter of an hour: accounts are locked after three wrong
passwords in that time at the strictest, as a rule after five or ten.

Owns the pauses, and what is to be told but once. Pure: the time is an argument, and secrets are known by their
fingerprints.
"""

from __future__ import annotations

from dataclasses import dataclass

REFUSED_PAUSES_S = (60.0, 900.0)
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 60.0
_NEVER = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSecrets:
    """What the config has for a cluster, and what is not in use there yet.

    `credentials`: each password or keytab by itself, by which an account is locked. `whole`: these and all else, TLS
    with its files.
    """

    credentials: frozenset[str]
    whole: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusals:
    count: int
    not_before: float


class SecretTries:
    """Of one cluster, from when it has new secrets until they are in use."""

    def __init__(self) -> None:
        self._refused: dict[str, _Refusals] = {}  # by credential
        self._whole: frozenset[str] = frozenset()  # what all below is about
        self._failures = 0
        self._not_before = float("-inf")
        self._told = ""

    def due(self, secrets: NewSecrets, now: float) -> bool:
        """Whether these may be tried. What is not among them is forgotten: if it comes back, it has changed."""
        self._refused = {each: self._refused[each] for each in self._refused.keys() & secrets.credentials}
        if secrets.whole != self._whole:
            self._whole, self._failures, self._not_before = secrets.whole, 0, float("-inf")
            self._told = ""
        return now >= max([self._not_before, *(each.not_before for each in self._refused.values())])

    def refused(self, credential: str, now: float) -> float | None:
        """How many seconds until it is tried again; None: not until it changes."""
        count = self._refused[credential].count + 1 if credential in self._refused else 1
        pause_s = REFUSED_PAUSES_S[count - 1] if count <= len(REFUSED_PAUSES_S) else None
        not_before = _NEVER if pause_s is None else now + pause_s
        self._refused[credential] = _Refusals(count=count, not_before=not_before)
        return pause_s

    def failed(self, now: float) -> None:
        """Nothing was refused: it could not be tried, or something else is wrong."""
        self._not_before = now + min(FIRST_PAUSE_S * 2.0 ** min(self._failures, 10), LONGEST_PAUSE_S)
        self._failures += 1

    def is_news(self, problem: str) -> bool:
        """Whether something else was wrong the last time, or with other secrets."""
        told, self._told = self._told, problem
        return told != problem
