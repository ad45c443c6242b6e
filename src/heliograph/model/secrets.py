"""Which settings are secrets, and how they look when printed.

Owns the rule by key. Must not know where the settings come from.
"""

from __future__ import annotations

MASK = "********"
_SECRET_WORDS = ("password", "secret", "jaas", "token", "keystore.key")


def is_secret(key: str) -> bool:
    lowered = key.lower()
    return any(word in lowered for word in _SECRET_WORDS)
