"""When an operator does what: pauses partitions for a while, and accepts losses that are shown to it.

Drawn by a chance of its own: what else happens in a world does not depend on it.
"""

from __future__ import annotations

import random

PAUSE, PAUSE_TOPIC, PAUSE_LONG = "pauses", "pauses a topic", "pauses for long"
WAVER, ACCEPT = "changes its mind", "accepts"
WISHES = (PAUSE, PAUSE, PAUSE_TOPIC, PAUSE_LONG, WAVER, ACCEPT)
SHARE = 0.4  # of the worlds that may have one
LOSES = 0.3  # how often retention overtakes a partition whose operator accepts that

Acts = tuple[tuple[float, str], ...]


def acts_of(seed: int, until_s: float) -> Acts:
    """From the very beginning, when topics may not be there yet."""
    chance = _chance(seed)
    if chance.random() >= SHARE:
        return ()
    count = chance.choice((2, 4, 8))
    return tuple(sorted((chance.uniform(0.1, until_s), chance.choice(WISHES)) for _ in range(count)))


def loses_at(seed: int, from_s: float, until_s: float, partitions: int) -> tuple[float, int] | None:
    """When retention overtakes which partition, if it does."""
    chance = random.Random(f"{seed} operator's loss")
    happens, at_s, which = (
        chance.random() < LOSES,
        chance.uniform(from_s, until_s),
        chance.randrange(partitions),
    )
    return (at_s, which) if happens else None


def _chance(seed: int) -> random.Random:
    return random.Random(f"{seed} operator")
