"""Which settings are secrets, and how they look when printed.

Owns the rule by key. Must not know where the settings come from.
"""

from __future__ import annotations

from collections.abc import Mapping

MASK = "********"
_SECRET_WORDS = ("password", "secret", "jaas", "token")


def is_secret(key: str) -> bool:
    lowered = key.lower()
    return any(word in lowered for word in _SECRET_WORDS)


def masked(settings: Mapping[str, str]) -> dict[str, str]:
    """The same settings, fit to be printed."""
    return {key: MASK if is_secret(key) else value for key, value in settings.items()}
